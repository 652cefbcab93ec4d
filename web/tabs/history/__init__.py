"""The History tab: saved takes."""
