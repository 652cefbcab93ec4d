"""Optional packages: whether they are here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

MCP = 2  # the first major version with `MCPServer`; a Space has an older one, which Gradio brings


def has_package(name: str, least: int = 0) -> bool:
    """Whether a package is installed, by its name on PyPI. least: its first major version that will do."""
    try:
        return int(version(name).partition(".")[0]) >= least
    except PackageNotFoundError:
        return False
