"""Pronunciations: replacement of words, and dictionaries as CSV."""

import itertools
import string
import time
from collections.abc import Sequence
from unicodedata import normalize

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidInput
from engine.text import GrowingText
from engine.text.tags import compose
from engine.voice import BuiltInVoice
from storage import Storage
from storage.errors import VoiceNotFound
from storage.pronunciations import Pronunciation
from studio.pronunciation import _TAG, _compiled, _pattern, from_csv, respell, respell_growing, to_csv
from tests.support.fake_engine import voice

ENTRIES = (
    Pronunciation("SQL", "sequel", match_case=True),
    Pronunciation("Nguyễn", "win"),
    Pronunciation("New York", "noo york"),
    Pronunciation("York", "yawk"),
    Pronunciation("chat", "shah", language="fr"),
    Pronunciation("C++", "see plus plus"),
    Pronunciation("東京", "とうきょう"),
    Pronunciation("서울", "소울"),
    Pronunciation("O'Brien", "oh bryan"),
    Pronunciation("x-ray", "eks ray"),
)


def respelled(text: str, entries: Sequence[Pronunciation], language: str = "", *, phones: bool = False) -> str:
    """Return a respelled text as it is spoken."""
    said = respell(text, entries, language, phones=phones)
    assert said.written == compose(text)
    return said.spoken


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SQL and sql, MySQL.", "sequel and sql, MySQL."),
        ("nguyễn’s NGUYỄN", "win’s win"),
        ("New  York, not York!", "noo york, not yawk!"),
        ("We chat in C++.", "We chat in see plus plus."),
        ("新東京へ", "新とうきょうへ"),
        ("私はSQLを使う。SQL을 SQLed", "私はsequelを使う。sequel을 SQLed"),
        ("서울에서 서울은 남서울", "소울에서 소울은 남서울"),
        ("O’Brien’s and O'Brien", "oh bryan’s and oh bryan"),
        ("X‐ray and x\N{NON-BREAKING HYPHEN}ray", "eks ray and eks ray"),
        (normalize("NFD", "Nguyễn"), "win"),
        ("[york] <|speaker:0|> [pause:1] York", "[york] <|speaker:0|> [pause:1] yawk"),
    ],
)
def test_whole_words_are_replaced_but_not_tags(text: str, said: str) -> None:
    assert respelled(text, ENTRIES, "en") == said


def respelled_slowly(text: str, entries: list[Pronunciation]) -> str:
    """Try every entry at every position."""
    order = sorted(entries, key=lambda entry: (-len(entry.word), not entry.match_case))
    words = "|".join(f"(?P<w{number}>{_pattern(entry)})" for number, entry in enumerate(order))
    return regex.sub(
        f"{_TAG.pattern}|{words}",
        lambda found: order[int(found.lastgroup[1:])].spoken if found.lastgroup else found[0],
        compose(text),
    )


LETTERS = st.sampled_from([*"aAbsSſßẞkKKiIıİσςΣ東京’'ʼ-‐‑[]<|>:.1 \n\u0301éİﬁ"])
WORDS = st.text(LETTERS, min_size=1, max_size=4).filter(lambda word: any(map(str.isalnum, word)))
ENTRY = st.builds(Pronunciation, WORDS, st.text("xyz", min_size=1, max_size=3), st.booleans())


@given(st.text(LETTERS, max_size=40), st.lists(ENTRY, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_search_for_entries_changes_no_result(text: str, entries: list[Pronunciation]) -> None:
    assert respelled(text, entries) == respelled_slowly(text, entries)


def test_large_dictionary_takes_no_seconds() -> None:
    entries = [Pronunciation(f"word{number} of", "x") for number in range(1_000)]
    entries += [Pronunciation(f"name{number}", "x") for number in range(1_000)]
    text = "Some words of a text, name999 included. " * 1_250
    start = time.thread_time()
    assert respelled(text, entries) == text.replace("name999", "x")
    assert time.thread_time() - start < 2, "12 s with every entry at every position"


def test_only_entries_that_a_text_has_are_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    monkeypatch.setattr("studio.pronunciation._pattern", lambda entry: searched.append(entry.word) or _pattern(entry))
    entries = [Pronunciation(f"San {letter}osé", "x") for letter in string.ascii_uppercase]
    assert respelled("From san\n jose\u0301 to San Diego.", entries) == "From x to San Diego."
    assert searched == ["San José"]


def test_patterns_of_a_whole_dictionary_are_compiled_once() -> None:
    words = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=2)]
    entries = [Pronunciation(word, "x") for word in words]
    respelled(" ".join(words), entries)
    compiled = _compiled.cache_info().misses
    respelled(" ".join(words), entries)
    assert _compiled.cache_info().misses == compiled


def test_entry_with_phones_needs_a_model_with_phones() -> None:
    entries = from_csv("tomato,/t ah0 m  EY1 t ow2/\nNguyen,/N W IH1 N/\netc,/usr/ or so\n")
    assert [entry.spoken for entry in entries] == ["/T AH0 M EY1 T OW2/", "/N W IH1 N/", "/usr/ or so"]
    assert from_csv(to_csv(entries)) == entries
    said = respelled("Tomato, Nguyen’s etc", entries, "en", phones=True)
    assert said == "{{t_ax_m_ey_t_ow}}, {{n_w_ih_n}}’s /usr/ or so"
    assert respelled("etc", entries, "en") == "/usr/ or so"
    with pytest.raises(InvalidInput, match="“tomato” is given in phones"):
        respelled("A tomato.", entries, "en")
    with pytest.raises(InvalidInput, match="“TX” is not an ARPAbet phone"):
        from_csv("word,/W ER1 TX/")


def test_entry_applies_to_the_language_of_the_voice() -> None:
    assert respelled("Le chat.", ENTRIES, "fr-CA") == "Le shah."
    both = [Pronunciation("data", "dayta"), Pronunciation("data", "dahta", language="de")]
    assert [respelled("data", both, language) for language in ("de", "en")] == ["dahta", "dayta"]
    assert [respelled("data", both, language) for language in ("German", "de-AT", "auto")] == [
        "dahta",
        "dahta",
        "dayta",
    ]


def test_dictionary_round_trips_through_csv() -> None:
    quoted = Pronunciation('a "b", c', "line; one", language="en")
    assert from_csv(to_csv([*ENTRIES, quoted])) == [*ENTRIES, quoted]
    assert from_csv("\ufeffGIF;jif\r\n\r\nSQL;sequel;yes;en\r\n") == [
        Pronunciation("GIF", "jif"),
        Pronunciation("SQL", "sequel", True, "en"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\r\nGIF;jif\r\nSQL;sequel, please\r\n",
        'GIF,jif\rSQL,"sequel, please"\r',
        '\n"GIF";jif\n"SQL";"sequel, please"',
        "GIF\tjif\nSQL\tsequel, please",
    ],
)
def test_csv_of_spreadsheets_is_read(text: str) -> None:
    assert from_csv(text) == [Pronunciation("GIF", "jif"), Pronunciation("SQL", "sequel, please")]


def test_separator_of_csv_is_not_taken_from_a_quoted_word() -> None:
    assert from_csv('"Smith, John, jr.";smith\n') == [Pronunciation("Smith, John, jr.", "smith")]
    assert from_csv('SQL,"one; two; three"\n') == [Pronunciation("SQL", "one; two; three")]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("SQL", "Write a word, and how"),
        ("SQL,", "Write a word"),
        ("x,/TX/", "“TX” is not"),
        ("a,b,,Klingon", "“Klingon”"),
    ],
)
def test_refused_line_of_csv_is_named(wrong: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"^Line 5: {why}"):
        from_csv(f'word,spoken\n"GIF","jif\nand so on"\n\n{wrong}\nRAM,ram\n')


def test_csv_names_languages_by_tag_or_english_name() -> None:
    entries = from_csv("word,spoken,match_case,language\nchat,shah,,French\nzoo,tsoh,,de_AT\nsjuk,hook,,sv\n")
    assert [entry.language for entry in entries] == ["fr", "de", "sv"]
    for wrong in ("Klingon", "x"):
        with pytest.raises(InvalidInput, match=f"“{wrong}” is not a language tag"):
            from_csv(f"chat,shah,,{wrong}\n")


@pytest.mark.parametrize(
    "text",
    ["", "word\n", "word,\n", "one,two\n\0", "!,exclamation", f"{'x' * 81},y", "a,b\n" * 2001, f'"{"x" * 140_000}",y'],
)
def test_invalid_csv_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        from_csv(text)


def test_entry_replaces_one_with_its_accents_in_another_form(storage: Storage) -> None:
    for form in ("NFC", "NFD"):
        entry = Pronunciation(normalize(form, "Zoë"), form)
        storage.pronunciations.put([entry])
        assert storage.pronunciations.list() == [entry]


def test_entry_replaces_one_in_another_case_unless_case_matters(storage: Storage) -> None:
    words = storage.pronunciations
    exact = Pronunciation("POLISH", "policy", match_case=True)
    german = Pronunciation("POLISH", "polnisch", language="de")
    words.put([Pronunciation("Polish", "pole ish"), exact, german])
    words.put([Pronunciation("polish", "pollish")])
    assert words.list() == [exact, german, Pronunciation("polish", "pollish")]
    assert respelled("Polish polish POLISH", words.list(), "en") == "pollish pollish policy"
    words.put([Pronunciation("polish", "shine", match_case=True), Pronunciation("Polish", "pole ish")])
    assert respelled("Polish polish POLISH", words.list(), "en") == "pole ish shine policy"


def test_dictionaries_are_isolated_by_owner_and_entries_replaced(storage: Storage) -> None:
    words = storage.pronunciations
    words.put([Pronunciation("SQL", "S Q L")], owner="ann")
    words.put([Pronunciation("SQL", "sequel"), Pronunciation("SQL", "squel", language="de")], owner="ann")
    assert [entry.spoken for entry in words.list(owner="ann")] == ["sequel", "squel"]
    assert words.list(owner="ben") == []
    text = GrowingText()
    respell_growing(storage, text, "en", owner="ann", phones=False)
    for piece in ("Learn S", "QL today. It"):
        text.append(piece)
    assert [segment.text for segment in text.take()] == ["Learn sequel today."]
    words.delete("SQL", "de", owner="ann")
    for wrong in (("\0",), ("SQL", "\0"), ("a" * 81,)):
        with pytest.raises(InvalidInput):
            words.delete(*wrong, owner="ann")
    assert [entry.spoken for entry in words.list(owner="ann")] == ["sequel"]
    storage.delete_owner("ann")
    assert words.list(owner="ann") == []


def test_entries_of_an_owner_are_limited(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.repositories.pronunciations.MAX_ENTRIES", 2)
    words, full = storage.pronunciations, [Pronunciation("kn", "knots"), Pronunciation("SQL", "sequel")]
    words.put([Pronunciation("sql", "S Q L"), *full])
    with pytest.raises(InvalidInput, match="room for 2 words"):
        words.put([Pronunciation("kHz", "kilohertz")])
    assert words.list() == full


def test_favourites_are_isolated_by_owner_and_deleted_with_the_voice(storage: Storage) -> None:
    ids = [storage.voices.add(voice(name), owner="ann").id for name in ("Anna", "Ben")]
    for voice_id in ids:
        storage.favourites.mark(voice_id, owner="ann")
    storage.favourites.mark(ids[1], False, owner="ann")
    assert storage.favourites.ids(owner="ann") == {ids[0]}
    assert storage.favourites.ids(owner="ben") == set()
    with pytest.raises(VoiceNotFound):
        storage.favourites.mark(ids[0], owner="ben")
    for speaker in ("ryan", "vivian", "ryan"):
        storage.favourites.mark(BuiltInVoice(speaker).id, owner="ann")
    storage.favourites.mark(BuiltInVoice("vivian").id, False, owner="ann")
    assert storage.favourites.ids(owner="ann") == {ids[0], BuiltInVoice("ryan").id}
    storage.voices.delete(ids[0], owner="ann")
    assert storage.favourites.ids(owner="ann") == {BuiltInVoice("ryan").id}
    storage.delete_owner("ann")
    assert storage.favourites.ids(owner="ann") == set()
