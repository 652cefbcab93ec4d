"""The HTTP API for other programs, compatible with existing clients."""

VERSION = "1"  # also of the MCP server
