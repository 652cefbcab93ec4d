"""Classes of the run-time code have different names, so that each name means one thing."""

import re
from collections import defaultdict
from pathlib import Path

from tests.paths import ROOT
from tests.test_imports import RUN_TIME, module_name, sources

CLASS = re.compile(r"^ *class ([A-Za-z]\w*)[(:\[]", re.MULTILINE)  # public, at any level, also in an example

# Classes that may share their name with another, and why.
EXCEPTIONS = {
    "api.voices.Voice": "its name is that of the schema in the API's OpenAPI document",
}


def shared_names(root: Path) -> dict[str, list[str]]:
    """Return the names that more than one public class has, with these classes."""
    found = defaultdict(list)
    for path in sources(root, RUN_TIME):
        for name in CLASS.findall(path.read_text("utf-8")):
            found[name].append(f"{module_name(path, root)}.{name}")
    return {name: classes for name, classes in found.items() if len(set(classes) - EXCEPTIONS.keys()) > 1}


def test_public_classes_have_different_names() -> None:
    assert shared_names(ROOT) == {}


def test_shared_name_is_found(tmp_path: Path) -> None:
    for package in ("studio", "web"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "page.py").write_text("class Page: ...\nclass _Row: ...\n", "utf-8")
    assert shared_names(tmp_path) == {"Page": ["studio.page.Page", "web.page.Page"]}
