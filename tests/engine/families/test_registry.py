"""Families are told apart by their releases, and each has its own licence notice."""

import shutil
from pathlib import Path

import huggingface_hub
import pytest

from engine.errors import ReleaseNotFound, UnknownFamily
from engine.families.registry import FAMILIES, notice_of, read_release
from engine.messages import english
from tests.paths import MINIATURE, QWEN

FISH, QWEN_NOTICE = "model.notice_fish", "model.notice_qwen"


def release(folder: Path, config: str | None = None, profile: str | None = None) -> str:
    """Make a folder with the given `config.json` and `reprise.json`."""
    for name, text in {"config.json": config, "reprise.json": profile}.items():
        if text is not None:
            (folder / name).write_text(text)
    return str(folder)


@pytest.mark.parametrize(("folder", "notice"), [(MINIATURE, FISH), (QWEN, QWEN_NOTICE)])
def test_folder_has_the_notice_of_its_family_before_and_after_loading(folder: Path, notice: str) -> None:
    assert notice_of(str(folder)) == read_release(folder).profile.notice == notice


def test_every_family_has_a_notice_among_the_sentences() -> None:
    assert {family.notice for family in FAMILIES} <= english().keys()


def test_profile_of_a_folder_replaces_the_notice(tmp_path: Path) -> None:
    shutil.copy(QWEN / "config.json", tmp_path)
    assert notice_of(release(tmp_path, profile='{"notice": "My own."}')) == "My own."
    assert notice_of(release(tmp_path, profile='{"style_tags": false}')) == QWEN_NOTICE
    assert notice_of("bundled") == "model.notice_bundled"


@pytest.mark.parametrize("config", [None, "{}", '{"model_type": "other"}', '{"model_type": ["qwen3_tts"]}'])
def test_folder_of_no_known_family_has_no_notice(tmp_path: Path, config: str | None) -> None:
    assert notice_of(release(tmp_path, config)) == ""


def test_model_that_is_not_downloaded_has_the_notice_of_its_organization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: None)
    assert notice_of("fishaudio/s2-pro") == notice_of("fishaudio/s2-pro@v2") == FISH
    assert notice_of("Qwen/Qwen3-TTS-12Hz-0.6B-Base") == QWEN_NOTICE
    assert notice_of("someone/something") == ""


def test_downloaded_model_has_the_notice_of_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda _, file, **__: str(QWEN / file))
    assert notice_of("someone/something") == QWEN_NOTICE


def test_unknown_families_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownFamily, match="“other”; it reads S2, S1, Qwen3-TTS"):
        read_release(Path(release(tmp_path, '{"model_type": "other"}')))
    with pytest.raises(ReleaseNotFound):
        notice_of("no folder at all")
