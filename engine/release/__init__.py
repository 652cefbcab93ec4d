"""Model releases: where they are found, and how they are read."""
