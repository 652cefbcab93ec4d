"""Queries of voices and related data."""
