"""The Speak tab: voice, text and takes."""
