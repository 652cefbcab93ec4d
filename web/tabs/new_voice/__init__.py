"""The New voice tab: make a voice from clips."""
