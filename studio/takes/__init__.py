"""Takes: requests, takes being generated, and finished takes."""
