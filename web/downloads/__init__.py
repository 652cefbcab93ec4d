"""Signed links, and the files that they hand out."""
