"""Untrusted files: bounded reading, atomic replacement, and tensor files. Only `tensors` needs torch."""
