"""Model releases: finding them, their profiles, and a strict reader of their weights."""
