"""The library of voices."""
