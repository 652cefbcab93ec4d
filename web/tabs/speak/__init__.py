"""The Speak tab: a voice, a text, and the takes."""
