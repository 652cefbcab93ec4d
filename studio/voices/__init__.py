"""Voices as an application offers them: those that can be spoken with, new ones, archives, pictures, consents."""
