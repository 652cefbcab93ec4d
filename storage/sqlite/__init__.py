"""SQLite files: opening, overwriting deleted data, and a disk reserve for deletions."""
