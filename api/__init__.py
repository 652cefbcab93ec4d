"""The HTTP API for other programs, compatible with existing clients."""
