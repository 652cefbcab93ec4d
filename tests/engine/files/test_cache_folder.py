"""Compiled code is kept for the user, or for the process of a user without a home folder."""

import pwd
from pathlib import Path

import pytest

from engine.files.cache_folder import cache_folder


def test_user_without_a_home_folder_has_a_private_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert cache_folder() == cache_folder()
    assert cache_folder().stat().st_mode & 0o777 == 0o700


def test_cache_needs_no_home_folder_when_another_one_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "reprise"
