"""The voice library in SQLite and in PostgreSQL."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from engine.errors import InvalidCodes, InvalidInput, InvalidName, InvalidVoiceFile, UnusableReference
from engine.voice import Consent, Reference, Voice
from storage import Storage, VoiceLibrary
from storage.errors import DatabaseUnavailable, NameTaken, VoiceChanged, VoiceNotFound
from storage.sqlite.connection import PAGE_SIZE
from tests.storage.making import (
    CONSENT,
    SAMPLE_RATE,
    clip,
    codes,
    count_rows,
    not_reencoded,
    open_voices,
    recoded,
    voice,
)

UNKNOWN_ID = "0" * 32


def names(library: VoiceLibrary, **which: str) -> list[str]:
    return [record.name for record in library.list(**which)]


def test_saved_voice_is_unchanged_after_reopening(url: str) -> None:
    saved = voice("Ада Лавлейс")
    with open_voices(url) as library:
        record = library.add(saved)
    with open_voices(url) as library:
        assert library.load(record.id) == saved
        assert library.get(record.id) == record


def test_record_describes_the_stored_voice(library: VoiceLibrary) -> None:
    before = datetime.now(UTC)
    record = library.add(voice("  Ada\t Lovelace "), owner="someone")
    assert (record.owner, record.name, record.language, record.description) == (
        "someone",
        "Ada Lovelace",
        "en",
        "Made from seed 0.",
    )
    assert record.consent == CONSENT
    assert before <= record.created == record.updated <= datetime.now(UTC)
    assert record.created.utcoffset() == timedelta(0)
    assert record.duration == pytest.approx(0.2)
    assert (record.references, record.has_clips, record.codec_fingerprint) == (2, True, "codec-a")


def test_list_is_sorted_by_name_ignoring_case(library: VoiceLibrary) -> None:
    for name in ("beta", "Gamma", "Alpha", "ωmega", "Ψi"):
        library.add(voice(name))
    assert names(library) == ["Alpha", "beta", "Gamma", "Ψi", "ωmega"]


SAME_NAMES = (
    ("Ada", "ADA"),
    ("Straße", "STRASSE"),
    ("Σίσυφος", "σίσυφοσ"),
    ("Анна", "анна"),
    ("Ջոն", "ջՈՆ"),
    ("José", "JOSE\N{COMBINING ACUTE ACCENT}"),
    ("\N{ANGSTROM SIGN}sa", "åSA"),
    ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ("Ada  Lovelace", " ada lovelace "),
)


def test_names_are_equal_regardless_of_case_and_normalization(library: VoiceLibrary) -> None:
    records = []
    for name, same in SAME_NAMES:
        records.append(library.add(voice(name)))
        with pytest.raises(NameTaken, match="already a voice"):
            library.add(voice(same, seed=1))
        assert library.find(same) == records[-1], same
    assert sorted(record.id for record in library.list()) == sorted(record.id for record in records)


def test_similar_names_are_different(library: VoiceLibrary) -> None:
    records = {name: library.add(voice(name)) for name in ("Ada", "Ad", "Áda", "Adá", "アダ", "Ada%", "A_a")}
    assert {name: library.find(name) for name in records} == records


def test_rejected_voice_leaves_no_rows(library: VoiceLibrary, url: str) -> None:
    library.add(voice("Ada"))
    with pytest.raises(NameTaken):
        library.add(voice("ada"))
    tables = ("voices", "voice_references", "reference_codes")
    assert [count_rows(url, table) for table in tables] == [1, 2, 2]


SEARCHES: tuple[tuple[str, list[str]], ...] = (
    ("", ["Ада Лавлейс", "José", "Straße 100%", "山田太郎"]),
    ("АДА", ["Ада Лавлейс"]),
    ("jose", ["José"]),
    ("JOSÉ", ["José"]),
    ("strasse", ["Straße 100%"]),
    ("田太", ["山田太郎"]),
    ("100%", ["Straße 100%"]),
    ("%", ["Straße 100%"]),
    ("_", []),
    ("лав ада", ["Ада Лавлейс"]),
    ("ада josé", []),
    ("warm ПО-РУССКИ", ["Ада Лавлейс"]),
    ("/", []),
    ("'; DROP TABLE voices; --", []),
)


def test_search_works_in_any_script(library: VoiceLibrary) -> None:
    for name, description in (
        ("Ада Лавлейс", "Warm, по-русски"),
        ("José", "cálido"),
        ("Straße 100%", ""),
        ("山田太郎", ""),
    ):
        library.add(replace(voice(name), description=description))
    for search, found in SEARCHES:
        assert sorted(names(library, search=search)) == sorted(found), search


@pytest.mark.parametrize("search", ["a" * 201, "nul\0", "half \ud800"])
def test_invalid_search_is_rejected(library: VoiceLibrary, search: str) -> None:
    with pytest.raises(InvalidInput, match="search"):
        library.list(search=search)


def test_longest_search_of_many_words(library: VoiceLibrary) -> None:
    record = library.add(voice("a" * 80))
    assert library.list(search="a " * 100) == [record]


def test_owners_do_not_see_each_others_voices(library: VoiceLibrary) -> None:
    hers = library.add(voice("Ada"), owner="her")
    his = library.add(voice("Ada"), owner="him")
    assert library.list(owner="her") == [hers]
    assert library.find("ada", owner="him") == his
    for act in (
        library.get,
        library.load,
        library.delete,
        library.export_voice,
        lambda voice_id, owner: library.rename(voice_id, "Bea", owner=owner),
        lambda voice_id, owner: library.ready(voice_id, "codec-a", lambda kept: kept, owner=owner),
    ):
        with pytest.raises(VoiceNotFound):
            act(hers.id, owner="him")
    library.delete(his.id, owner="him")
    assert library.load(hers.id, owner="her") == voice("Ada")


@pytest.mark.parametrize("owner", ["", "x" * 201, "nul\0"])
def test_invalid_owner_is_rejected(library: VoiceLibrary, owner: str) -> None:
    with pytest.raises(InvalidInput, match="owner"):
        library.add(voice(), owner=owner)


def test_unknown_id_or_name_raises(library: VoiceLibrary) -> None:
    library.add(voice())
    for voice_id in (UNKNOWN_ID, "", "../x", "nul\0", "\ud800", "' OR 1=1 --"):
        for act in (library.get, library.load, library.delete, library.export_voice):
            with pytest.raises(VoiceNotFound):
                act(voice_id)
    for name in ("Nobody", "", "x" * 81, "nul\0"):
        with pytest.raises(VoiceNotFound, match="no voice"):
            library.find(name)


def test_rename_changes_only_the_name(library: VoiceLibrary) -> None:
    record = library.add(voice("Ada"))
    renamed = library.rename(record.id, " Bea ")
    assert renamed == replace(record, name="Bea", updated=renamed.updated)
    assert renamed.updated > record.updated
    assert library.load(record.id) == replace(voice("Ada"), name="Bea")
    assert names(library, search="bea") == ["Bea"]
    assert names(library, search="ada") == []
    with pytest.raises(VoiceNotFound):
        library.find("Ada")


def test_rename_may_change_only_the_case(library: VoiceLibrary) -> None:
    record = library.add(voice("ada"))
    assert library.rename(record.id, "ADA").name == "ADA"


@pytest.mark.parametrize(("name", "error"), [("bea", NameTaken), ("", InvalidName), ("x" * 81, InvalidName)])
def test_rejected_rename_changes_nothing(library: VoiceLibrary, name: str, error: type[Exception]) -> None:
    record = library.add(voice("Ada"))
    library.add(voice("Bea"))
    with pytest.raises(error):
        library.rename(record.id, name)
    assert library.get(record.id) == record


def test_update_changes_only_the_given_fields(library: VoiceLibrary) -> None:
    record = library.add(replace(voice("Ada"), consent=None))
    assert record.consent is None
    when = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC).astimezone(tz=None)
    consent = Consent("Ada", when, "Yes.")
    changed = library.update(record.id, language="fr", description="Grave", consent=consent)
    assert (changed.name, changed.language, changed.description) == ("Ada", "fr", "Grave")
    assert changed.consent == consent
    assert names(library, search="GRAVE") == ["Ada"]
    assert library.update(record.id, description="").consent == consent
    assert library.list()[0].description == ""


@pytest.mark.parametrize("field", ["language", "description"])
def test_invalid_update_is_rejected(library: VoiceLibrary, field: str) -> None:
    record = library.add(voice())
    for value in ("x" * 2001, "nul\0", "\udfff"):
        changes: dict[str, Any] = {field: value}
        with pytest.raises(InvalidInput, match=field):
            library.update(record.id, **changes)
    assert library.get(record.id) == record


def test_delete_removes_all_rows_of_a_voice(library: VoiceLibrary, url: str) -> None:
    record, kept = library.add(voice("Ada")), library.add(voice("Bea"))
    library.delete(record.id)
    assert library.list() == [kept]
    assert library.load(kept.id) == voice("Bea")
    tables = ("voices", "voice_references", "reference_codes")
    assert [count_rows(url, table) for table in tables] == [1, 2, 2]
    with pytest.raises(VoiceNotFound):
        library.delete(record.id)
    assert library.add(voice("Ada")).id != record.id


def test_forgetting_an_owner_removes_all_rows_of_voices(url: str) -> None:
    tables = ("voices", "voice_references", "reference_codes")
    with Storage.open(url) as storage:
        for name in ("Ada", "Bea"):
            storage.voices.add(voice(name), owner="her")
        storage.delete_owner("nobody")
        assert [count_rows(url, table) for table in tables] == [2, 4, 4]
        storage.delete_owner("her")
        assert [count_rows(url, table) for table in tables] == [0, 0, 0]


def test_export_and_import_preserve_the_whole_voice(library: VoiceLibrary) -> None:
    data = library.export_voice(library.add(voice("Ada")).id)
    record = library.import_voice(data, owner="friend")
    assert library.load(record.id, owner="friend") == voice("Ada")
    with pytest.raises(NameTaken):
        library.import_voice(data)
    other = library.import_voice(data, name="Ada from afar")
    assert library.load(other.id) == replace(voice("Ada"), name="Ada from afar")
    with pytest.raises(InvalidName):
        library.import_voice(data, name=" ")


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04 a zip archive" * 10, voice().to_bytes()[:-1], voice().to_bytes() + b"\0"]
)
def test_damaged_file_is_not_imported(library: VoiceLibrary, data: bytes) -> None:
    with pytest.raises(InvalidVoiceFile):
        library.import_voice(data)
    assert library.list() == []


@pytest.mark.parametrize(
    ("zone", "when"), [("Europe/Berlin", datetime.max), ("America/New_York", datetime.min)], ids=["last", "first"]
)
def test_consent_of_any_time_is_read_in_any_zone(postgresql: str, zone: str, when: datetime) -> None:
    """In the server's zone these times are outside of the years of Python."""
    consent = replace(CONSENT, when=when.replace(tzinfo=UTC))
    with open_voices(f"{postgresql}&options=-c%20timezone%3D{zone}") as library:
        record = library.import_voice(replace(voice(), consent=consent).to_bytes())
        assert library.list() == [record]
        assert record.consent == consent


def test_codes_of_the_same_codec_are_not_reencoded(library: VoiceLibrary) -> None:
    record = library.add(voice())
    assert library.ready(record.id, "codec-a", not_reencoded) == voice()


def test_reencoded_codes_are_stored(library: VoiceLibrary, url: str) -> None:
    record = library.add(voice("Ada"))
    originals: list[Voice] = []

    def reencode(original: Voice) -> Voice:
        originals.append(original)
        return recoded(original, "codec-b")

    made = library.ready(record.id, "codec-b", reencode)
    assert made == replace(recoded(voice("Ada"), "codec-b"), description="Made from seed 0.", consent=CONSENT)
    assert originals == [voice("Ada")]
    with open_voices(url) as again:
        assert again.ready(record.id, "codec-b", not_reencoded) == made
        assert again.ready(record.id, "codec-a", not_reencoded) == voice("Ada")
        assert again.load(record.id) == voice("Ada")
        assert again.get(record.id) == record
        assert count_rows(url, "reference_codes") == 4
        again.delete(record.id)
    assert count_rows(url, "reference_codes") == 0


def test_failed_reencoding_can_be_repeated(library: VoiceLibrary) -> None:
    record = library.add(voice())

    def fail(original: Voice) -> Voice:
        raise UnusableReference("The clip holds no speech.")

    with pytest.raises(UnusableReference, match="no speech"):
        library.ready(record.id, "codec-b", fail)
    made = library.ready(record.id, "codec-b", lambda original: recoded(original, "codec-b"))
    assert made.codec_fingerprint == "codec-b"


def test_wrong_reencoding_is_rejected(library: VoiceLibrary, url: str) -> None:
    record = library.add(voice())
    for wrong in (recoded(voice(), "codec-c"), recoded(voice(references=1), "codec-b")):
        with pytest.raises(InvalidCodes, match="another codec than requested"):
            library.ready(record.id, "codec-b", lambda _, wrong=wrong: wrong)  # type: ignore[misc]
    assert count_rows(url, "reference_codes") == 2


def test_voice_without_a_clip_cannot_be_reencoded(library: VoiceLibrary) -> None:
    kept = voice().references[0]
    bare = Reference(kept.transcript, kept.codes, b"", kept.sample_rate, kept.duration)
    record = library.add(Voice("Ada", (bare,), "codec-a"))
    assert not record.has_clips
    assert library.ready(record.id, "codec-a", not_reencoded).references == (bare,)
    with pytest.raises(UnusableReference, match="“Ada” was made for another model"):
        library.ready(record.id, "codec-b", not_reencoded)


def test_voice_deleted_during_reencoding_raises(library: VoiceLibrary, url: str) -> None:
    record = library.add(voice())

    def reencode(original: Voice) -> Voice:
        library.delete(record.id)
        return recoded(original, "codec-b")

    with pytest.raises(VoiceNotFound):
        library.ready(record.id, "codec-b", reencode)
    assert count_rows(url, "reference_codes") == 0


def test_damaged_or_missing_codes_raise(library: VoiceLibrary, url: str) -> None:
    record = library.add(voice())
    engine = create_engine(url)
    for change in (
        text("UPDATE reference_codes SET codes = :codes WHERE position = 1").bindparams(codes=b"RPCD no"),
        text("DELETE FROM reference_codes WHERE position = 1"),
    ):
        with engine.begin() as connection:
            connection.execute(change)
        for act in (library.load, library.export_voice):
            with pytest.raises(InvalidCodes):
                act(record.id)
    engine.dispose()
    library.delete(record.id)


def test_closed_library_raises(url: str) -> None:
    storage = Storage.open(url)
    storage.close()
    storage.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        storage.voices.list()


def test_replaced_clips_belong_to_the_same_voice(library: VoiceLibrary, url: str) -> None:
    """The codes of all codecs are replaced; description, tags and times of the voice stay."""
    library.add(voice("Ben", seed=9))
    record = library.update(library.add(voice("Ada")).id, tags=("warm",))
    library.ready(record.id, "codec-b", lambda original: recoded(original, "codec-b"))
    new = replace(voice("Ada Lovelace", seed=5, references=1, fingerprint="codec-c"), language="fr", description="")
    after = library.replace_clips(record, new)
    same: dict[str, Any] = {"description": record.description, "tags": record.tags}
    assert library.load(record.id) == replace(new, **same)
    assert (after.id, after.created, after.references) == (record.id, record.created, 1)
    assert after.updated > record.updated
    assert library.stored(record.id, "codec-a") is library.stored(record.id, "codec-b") is None
    assert (count_rows(url, "voice_references"), count_rows(url, "reference_codes")) == (3, 3)


def test_rejected_replacement_changes_nothing(library: VoiceLibrary) -> None:
    library.add(voice("Ben", seed=9))
    record, new = library.add(voice("Ada"), owner="ann"), voice("Ada", seed=5)
    library.add(voice("Eve"), owner="ann")
    for owner, name, error in (("eve", "Ada", VoiceNotFound), ("ann", "eve", NameTaken)):
        with pytest.raises(error):
            library.replace_clips(record, replace(new, name=name), owner=owner)
        assert library.load(record.id, owner="ann") == voice("Ada")
        assert library.get(record.id, owner="ann") == record
    renamed = library.rename(record.id, "Ida", owner="ann")
    with pytest.raises(VoiceChanged, match="“Ida” was changed elsewhere"):
        library.replace_clips(record, new, owner="ann")
    assert library.get(record.id, owner="ann") == renamed
    library.trash(record.id, owner="ann")
    with pytest.raises(VoiceNotFound):
        library.replace_clips(renamed, new, owner="ann")


def test_clips_replaced_during_reencoding_are_encoded(library: VoiceLibrary) -> None:
    record, new = library.add(voice()), voice(seed=5)
    originals: list[Voice] = []

    def reencode(original: Voice) -> Voice:
        originals.append(original)
        if len(originals) == 1:
            library.replace_clips(record, new)
        return recoded(original, "codec-b")

    made = library.ready(record.id, "codec-b", reencode)
    assert [each.clip for each in made.references] == [each.clip for each in new.references]
    assert [each.references for each in originals] == [voice().references, new.references]
    assert library.stored(record.id, "codec-b") == made


def test_lists_read_no_clip(tmp_path: Path) -> None:
    """A list of voices, and what an owner's data takes, are read although a page of each clip is damaged."""
    path = tmp_path / "voices.db"
    sound = clip(seconds=2)
    with Storage.open(path) as storage:
        for name in ("Ada", "Ben"):
            storage.voices.add(Voice(name, (Reference("Words.", codes(), sound, SAMPLE_RATE, 2.0),), "codec-a"))
        kept = storage.voices.list(), storage.storage_use()
    pages = bytearray(path.read_bytes())
    inside, found = sound[20_000:20_100], 0
    while (found := pages.find(inside, found + 1)) >= 0:
        start = found - found % PAGE_SIZE
        pages[start : start + 4] = b"\xff" * 4  # the number of the page with the rest of the clip
    path.write_bytes(pages)
    with Storage.open(path) as storage:
        assert (storage.voices.list(), storage.storage_use()) == kept
        assert storage.voices.list(search="ada") == kept[0][:1]
        with pytest.raises(DatabaseUnavailable, match="is damaged"):
            storage.voices.load(kept[0][0].id)
