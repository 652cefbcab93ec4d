"""Attacks on the real app: `app.py` as a child process with its own library and folder, on loopback."""
