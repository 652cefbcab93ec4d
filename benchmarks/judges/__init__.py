"""Judges of speech: recognisers of words and phones, pitch, speaker similarity, level."""
