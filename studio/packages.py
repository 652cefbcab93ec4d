"""Detection of optional packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

MCP = 2  # the first major version with `MCPServer`; on a Space, Gradio installs an older one


def has_package(name: str, least: int = 0) -> bool:
    """Return whether a package is installed. name: its name on PyPI. least: the lowest accepted major version."""
    try:
        return int(version(name).partition(".")[0]) >= least
    except PackageNotFoundError:
        return False
