"""Files for visitors, by signed links."""
