"""Attacks on the library: each takes a count and a seed and returns a tally."""
