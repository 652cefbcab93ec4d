"""Languages of voices: tags and English names are accepted, anything else is refused."""

import pytest

from engine.errors import InvalidInput
from studio.voices.languages import clean_language


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("", ""),
        ("Auto", ""),
        ("sv", "sv"),
        (" de ", "de"),
        ("pt-BR", "pt-BR"),
        ("fil", "fil"),
        ("German", "de"),
        ("ENGLISH", "en"),
        ("de_AT", "de"),
    ],
)
def test_tags_and_names_become_tags(given: str, stored: str) -> None:
    assert clean_language(given) == stored


@pytest.mark.parametrize("given", ["klingonisch", "deutsch", "Swedish", "d", "de!"])
def test_other_languages_are_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not a language tag such as “en”, “sv” or “pt-BR”\. English names"):
        clean_language(given)
