"""Queries and changes, within a session that the caller opened."""
