"""For operators of the server: health checks and metrics."""
