"""Provenance of audio files: tags, and an inaudible watermark."""
