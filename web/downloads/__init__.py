"""Downloads through signed links."""
