"""Attacks on the real app: `app.py` as a child process with a library and a folder of its own, on loopback."""
