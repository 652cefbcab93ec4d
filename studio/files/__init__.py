"""Files that visitors send and fetch: their names, and limits of ZIP files."""
