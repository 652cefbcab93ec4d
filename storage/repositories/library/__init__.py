"""Queries of voices, and of what belongs to them."""
