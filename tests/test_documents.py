"""Links of the documents lead somewhere; the documents, the engine and the page recommend the same clip length."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.audio.clip_length import BEST_FROM, BEST_TO, LONGEST_USED, SHORTEST_ADVISED
from tests.paths import ROOT
from web.ui.i18n import Translations

LANGUAGES = Translations.load().languages
LEAST = {"doctor.length_too_short", "doctor.speech_little", "reference.little_speech"}
BEST = LEAST | {
    "doctor.length_short",
    "doctor.length_long",
    "doctor.fix_excerpt",
    "reference.too_long",
    "clip.best",
    "clip.invitation",
}
# A range of two numbers in each language: "8 to 15", "8–15", "8 bis 15", "8 à 15", "8〜15", "8 到 15".
RANGE = re.compile(r"(\d+)(?: to | bis | a | à | 到 |[–〜])(\d+)")


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_sentences_give_the_same_clip_length(language: str) -> None:
    texts = LANGUAGES[language]
    for key in BEST:
        assert RANGE.findall(texts[key]) == [(f"{BEST_FROM:g}", f"{BEST_TO:g}")], key
    for key in LEAST:
        assert re.search(rf"(?<!\d){SHORTEST_ADVISED:g}(?!\d)", texts[key]), key
    assert f"{LONGEST_USED:g}" in texts["doctor.length_long"]
    assert re.search(rf"(?<!\d){BEST_FROM:g}(?!\d)", texts["clip.recording_short"])
    groups = ("clip.", "doctor.", "reference.", "new.")
    assert {key for key, text in texts.items() if key.startswith(groups) and RANGE.search(text)} == BEST


def test_documents_give_the_same_clip_length() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"A good reference is {BEST_FROM:g} to {BEST_TO:g} seconds of one voice" in readme
    assert f"At most {LONGEST_USED:g} seconds of a reference are used" in readme
    documents = [readme, *(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))]
    said = [found for text in documents for found in re.findall(r"(\d+) to (\d+) seconds", text)]
    assert set(said) == {(f"{BEST_FROM:g}", f"{BEST_TO:g}")}


def documents() -> Iterator[Path]:
    for folder, inner, files in os.walk(ROOT):
        inner[:] = [name for name in inner if not name.startswith(".") and name != "node_modules"]
        yield from (Path(folder, name) for name in files if name.endswith(".md"))


def anchors(text: str) -> set[str]:
    """Return the names that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(document: Path) -> list[str]:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if path.startswith(("http:", "https:")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            dead.append(link)
    return dead


def test_links_lead_somewhere() -> None:
    assert {document.name: dead for document in documents() if (dead := dead_links(document))} == {}


def test_dead_links_are_found(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("# A & B\n[1](#a--b) [2](#c) [3](a.md#a--b) [4](b.md) [5](https://example.org/x)", "utf-8")
    assert dead_links(document) == ["#c", "b.md"]
