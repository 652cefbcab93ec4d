"""Queries and changes. Functions work within the caller's session."""
