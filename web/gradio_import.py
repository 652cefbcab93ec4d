"""A quick import of Gradio 6.31: without the stub files that it writes, and without the package of MCP.

At each import, Gradio parses the source of every component and writes its events into a `.pyi` file beside it: 1 s of a
start, and processes that start together write the same files. The wheel contains them. Where the package `mcp` is
installed, Gradio imports it for a server of its own, which Reprise does not start: .5 s and 24 MB.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

STUBS, FUNCTION = "gradio.component_meta", "create_or_modify_pyi"
SERVER, PACKAGE = "gradio.mcp", "mcp"


def make_import_quick() -> None:
    """Make the import of Gradio, if it is still to come, write no stub files and leave out the package of MCP."""
    sys.meta_path.insert(0, _Finder())


def write_nothing(*_: Any) -> None:
    """Replaces Gradio's function."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in (STUBS, SERVER):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, original: Loader) -> None:
        self._original = original

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == SERVER:
            with _missing(PACKAGE):
                self._original.exec_module(module)
        else:
            self._original.exec_module(module)
            setattr(module, FUNCTION, write_nothing)


@contextmanager
def _missing(package: str) -> Iterator[None]:
    """Make imports of a package fail, as if it were not installed, unless it has been imported."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]
