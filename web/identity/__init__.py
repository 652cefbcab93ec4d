"""Who comes, what is theirs, and how files are handed to them."""
