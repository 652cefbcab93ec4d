"""Attacks on the library: each takes counts and seeds and returns a tally."""
