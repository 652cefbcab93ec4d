"""Finished audio of one request: collected, encoded and kept."""
