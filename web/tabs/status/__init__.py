"""The Status tab: what the server is doing, and other models."""
