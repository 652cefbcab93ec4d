"""What a file says of its origin: tags, and an inaudible watermark."""
