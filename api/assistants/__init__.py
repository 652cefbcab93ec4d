"""Protocols of assistants: Wyoming for Home Assistant, MCP for language models."""
