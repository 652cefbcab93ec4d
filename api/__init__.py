"""The HTTP interface for other programs, in the shapes that existing clients speak."""
