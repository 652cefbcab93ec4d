"""Takes: generated, under way, and finished."""
