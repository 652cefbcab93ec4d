"""Output of samples as files and streams: encoding, tempo, loudness, tags."""
