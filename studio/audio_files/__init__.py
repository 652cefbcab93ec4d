"""Files made of takes: one or several with pauses between them, and audiobooks."""
