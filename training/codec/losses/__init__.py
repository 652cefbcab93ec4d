"""Losses of the codec: of its audio, of the voice in it, and of discriminators."""
