"""Joins the page's ES modules into one script, so that a browser requests one file instead of a hundred.

Each module becomes a function that is called once, after those that it imports, and returns its exports. Modules import
with `import { … } from` and `import * as … from`, and export `const`, `function` and `class`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache

_IMPORT = re.compile(r'^import (?:\{([^}]*)\}|\* as (\w+)) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def imported_modules(name: str, modules: Mapping[str, str]) -> list[str]:
    """Return a module after all that it imports, in the order in which browsers run them. modules: sources by path."""
    found: dict[str, None] = {}

    def visit(module: str) -> None:
        for imported in _imports(module, modules[module]):
            if imported not in found:
                visit(imported)
        found[module] = None

    visit(name)
    return list(found)


def bundle(names: list[str], modules: Mapping[str, str]) -> str:
    """Return a script that runs modules and all that they import, each once. It is served from the modules' root.

    Raises ValueError for an import or export that it cannot translate.
    """
    ordered = dict.fromkeys(each for name in names for each in imported_modules(name, modules))
    return "const modules = {};\n" + "".join(_function(name, modules[name]) for name in ordered)


# Cached, because nearly all modules are the same in all languages.
@lru_cache(maxsize=512)
def _imports(name: str, source: str) -> tuple[str, ...]:
    return tuple(_resolve(name, path) for _, _, path in _IMPORT.findall(source))


@lru_cache(maxsize=512)
def _function(name: str, source: str) -> str:
    exported = ", ".join(found[1] for found in _EXPORT.findall(source))

    def assignment(found: re.Match[str]) -> str:
        names, whole, path = found.groups()
        target = whole or "{" + names.replace(" as ", ": ") + "}"
        return f'const {target} = modules["{_resolve(name, path)}"];'

    body = _EXPORT.sub(r"\1", _IMPORT.sub(assignment, source))
    body = body.replace("import.meta.url", f'new URL("{name}", import.meta.url)')
    if other := _OTHER.search(body):
        raise ValueError(f"{name}: {other[0]}")
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n'


def _resolve(module: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(module), path))
