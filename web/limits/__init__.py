"""Limits per visitor: takes, calls, connections, heavy work, login attempts."""
