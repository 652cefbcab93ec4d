"""Proof-listening: a recogniser transcribes takes, and sentences with wrong words are spoken again."""
