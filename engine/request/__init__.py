"""A request to speak: its turns and their audio, and the caller's handle."""
