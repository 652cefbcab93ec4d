"""The HTTP API for other programs, in the shapes that existing clients speak."""
