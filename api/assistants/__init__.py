"""Protocols of assistants: Wyoming for Home Assistant."""
