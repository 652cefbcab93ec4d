"""Starts without the stub files that Gradio 6.31 writes.

At each import, Gradio parses the source of every component and writes its events into a `.pyi` file beside it: 1 s of a
start, and processes that start together write the same files. The wheel contains them.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

MODULE, FUNCTION = "gradio.component_meta", "create_or_modify_pyi"


def skip_stub_files() -> None:
    """Make the import of Gradio, if it is still to come, write no stub files."""
    sys.meta_path.insert(0, _Finder())


def write_nothing(*_: Any) -> None:
    """Replaces Gradio's function."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODULE:
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
        self._original.exec_module(module)
        setattr(module, FUNCTION, write_nothing)
