"""The engine, the page in all languages and the README recommend the same clip length."""

import re

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
