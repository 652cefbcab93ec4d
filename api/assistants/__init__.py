"""Assistant protocols: Wyoming for Home Assistant, MCP for language models."""
