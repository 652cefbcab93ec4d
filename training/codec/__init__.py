"""Training of the codec."""
