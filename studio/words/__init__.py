"""The words of a speech: as written, and their places in the audio."""
