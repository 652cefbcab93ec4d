"""A folder has few files at one level, so that a reader finds a module by its folder."""

import os
from pathlib import Path

from tests.paths import ROOT

MOST = 13  # files, besides `__init__.py`
FOLDERS = (
    "api", "assets", "benchmarks", "cli", "docs", "engine", "scripts", "storage", "studio", "tests", "training", "web",
)  # fmt: skip

# Folders that may have more files, and why.
EXEMPT = {
    "benchmarks/data": "recordings and texts of the measurements",
    "benchmarks/results": "a file for each measurement",
    "benchmarks/speed": "a program for each measurement, called by its name",
    "docs/pages": "pictures of each tab, in each size and theme",
    "docs/voice": "recordings and spectrograms of one page",
    "storage/migrations/versions": "a file for each version of the database; they never change",
    "tests/fixtures/s2_tiny": "a release, whose format has these files",
}


def crowded(root: Path) -> set[str]:
    """Return the folders that have more than MOST files, relative to the root."""
    found = set()
    for start in FOLDERS:
        for folder, inner, files in os.walk(root / start):
            inner[:] = [name for name in inner if name != "__pycache__" and not name.startswith(".")]
            if len([name for name in files if name != "__init__.py" and not name.startswith(".")]) > MOST:
                found.add(Path(folder).relative_to(root).as_posix())
    return found


def test_folders_have_few_files() -> None:
    assert crowded(ROOT) == EXEMPT.keys(), "group a crowded folder; drop an exemption that is not needed"


def test_crowded_folder_is_found(tmp_path: Path) -> None:
    for folder, count in {"web": MOST, "web/ui": MOST + 1, "web/ui/__pycache__": MOST + 1}.items():
        (tmp_path / folder).mkdir()
        for number in range(count):
            (tmp_path / folder / f"module_{number}.py").touch()
        (tmp_path / folder / "__init__.py").touch()
    assert crowded(tmp_path) == {"web/ui"}
