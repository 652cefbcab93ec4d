"""Voices: the available ones, creation of new ones, archives and consents."""
