"""The Status tab: the server's state, and other models."""
