"""The words of a speech while it is heard: their places in the text as written, and in the audio."""
