"""Voices: the available ones, creation of new ones, archives, portraits and consents."""
