"""Every error that can reach a page has a message in all languages, with the same placeholders."""

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from engine import errors
from engine.errors import InvalidVoiceFile, ReleaseIncomplete, RepriseError
from engine.messages import UserMessage, english
from studio import user_messages
from tests.paths import ROOT
from tests.support.sentences import placeholders
from web.ui.i18n import Translations

TRANSLATIONS = Translations.load()
# Shown only in a terminal or to programs, in English.
ENGLISH_ONLY = (
    "engine/audio/output/stream.py",
    "engine/files/replacement.py",
    "engine/text/growing.py",
    "storage/api_keys.py",
    "storage/copying.py",
    "storage/repositories/api_keys.py",
    "storage/repositories/voices/voice_consents.py",
    "storage/voices/voice_consents.py",
    "studio/access.py",
    "studio/voices/consents.py",
    "studio/speech_service.py",
    "web/gradio_internals.py",
    "web/http/hosts.py",
    "web/identity/account",
)
# Addressed to authors of a release, in English; a page quotes them.
QUOTED = {"FaultyRelease", "InvalidConfig", "InvalidCheckpoint"}


def sources() -> Iterator[Path]:
    for package in ("engine", "storage", "studio", "web"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(ENGLISH_ONLY) and name != "engine/errors.py":
                yield path


@cache
def parsed() -> list[tuple[Path, list[ast.AST]]]:
    """Return the classes and calls of each source."""
    trees = ((path, ast.walk(ast.parse(path.read_text("utf-8")))) for path in sources())
    return [(path, [node for node in tree if isinstance(node, ast.ClassDef | ast.Call)]) for path, tree in trees]


@cache
def error_classes() -> frozenset[str]:
    known = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, RepriseError)}
    for _, nodes in parsed():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and known & {ast.unparse(base) for base in node.bases}:
                known.add(node.name)
    return frozenset(known - QUOTED)


def keys_of(argument: ast.expr) -> list[str] | None:
    """Return the possible keys of an argument, or None for a variable or a call."""
    match argument:
        case ast.Constant(value=str(key)):
            return [key]
        case ast.IfExp(body=ast.Constant(value=str(one)), orelse=ast.Constant(value=str(other))):
            return [one, other]
    return None


def constructions() -> Iterator[tuple[str, list[str] | None, ast.Call]]:
    """Yield the location of each construction of an error or message, its possible keys, and the call."""
    constructed = error_classes() | {"UserMessage"}
    for path, nodes in parsed():
        for node in nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in constructed
                and node.args
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", keys_of(node.args[0]), node


def test_errors_use_known_keys_and_the_values_of_their_messages() -> None:
    known = {**english(), **TRANSLATIONS.languages["en"]}
    found = 0
    for where, keys, call in constructions():
        if keys is None:
            # The message of another error, one of a group, or one already translated.
            how = ast.unparse(call.args[0])
            assert how.startswith(
                (
                    "error.message.key",
                    "texts(",
                    "f'field.",
                    "f'doctor.",
                    "f'provenance.",
                    "_key(",
                    "self._profile.",
                    "Profile.",
                )
            ) or (where.startswith(("engine/messages", "studio/user_messages", "engine/files/bounded", "web/"))), (
                f"{where}: {how}"
            )
            continue
        for key in keys:
            found += 1
            assert key in known, f"{where}: there is no message {key}"
            if isinstance(call.func, ast.Name) and call.func.id != "UserMessage":
                values = {keyword.arg for keyword in call.keywords} - {"detail"}
                assert values == placeholders(known[key]), f"{where}: {key}"
    assert found > 150


# The packages whose messages a package may use: its own and those below it.
BELOW = {"engine": ("engine",), "storage": ("engine", "storage"), "studio": ("engine", "storage", "studio")}


def test_texts_are_in_the_package_that_uses_them_or_below() -> None:
    for package, below in BELOW.items():
        folders = [ROOT / each / "messages" for each in below]
        known = {
            key for folder in folders for path in folder.glob("*.json") for key in json.loads(path.read_text("utf-8"))
        }
        used = {key for where, keys, _ in constructions() if where.startswith(f"{package}/") for key in keys or ()}
        assert used, package
        assert used <= known, package


def test_all_messages_are_used() -> None:
    everything = "".join(path.read_text("utf-8") for path in sources())
    errors_own = (ROOT / "engine" / "errors.py").read_text("utf-8")
    groups = ("doctor.", "field.", "model.notice_", "provenance.", "sample.")  # keys built from names
    unused = [key for key in english() if f'"{key}"' not in everything + errors_own and not key.startswith(groups)]
    assert unused == []


@pytest.mark.parametrize("language", sorted(TRANSLATIONS.languages))
def test_translations_have_the_same_placeholders(language: str) -> None:
    texts = TRANSLATIONS.languages[language]
    for key, text in english().items():
        assert placeholders(texts[key]) == placeholders(text), key


def test_notice_of_fish_audio_has_the_words_that_its_license_asks_for() -> None:
    for texts in TRANSLATIONS.languages.values():
        assert texts["model.notice_fish"].startswith("Built with Fish Audio. ")


def test_message_is_english_as_text_and_round_trips_as_json() -> None:
    why = UserMessage("codes.range", {"most": 65535})
    error = InvalidVoiceFile("voicefile.unusable", why=why)
    assert str(error) == "This voice file cannot be used. Codes are numbers from 0 to 65,535."
    assert UserMessage.from_json(error.message.to_json()) == error.message
    german = TRANSLATIONS.texts_for("de")
    assert german.write(error.message).endswith("Codes sind Zahlen von 0 bis 65.535.")
    assert UserMessage.from_json("An older version wrote this.") == UserMessage("An older version wrote this.")
    for odd in ("[1]", '{"key": 3}', "17", '{"key": "a", "values": 1}'):
        assert str(UserMessage.from_json(odd)) == odd


def test_lists_are_written_by_language() -> None:
    error = ReleaseIncomplete("release.lacks", files=("vocab.json", "merges.txt"))
    assert "vocab.json, merges.txt" in str(error)
    assert UserMessage.from_json(error.message.to_json()) == error.message
    lists = {
        each: TRANSLATIONS.texts_for(each)("library.imported", names=["A", "B", "C"]) for each in ("en", "ja", "zh-CN")
    }
    assert lists == {"en": "Imported A, B, C.", "ja": "A、B、C を読み込みました。", "zh-CN": "已导入 A、B、C。"}


def test_numbers_are_formatted_by_language() -> None:
    written = {each: TRANSLATIONS.texts_for(each).number(44100.5) for each in TRANSLATIONS.languages}
    assert written == {
        "de": "44.100,5",
        "en": "44,100.5",
        "es": "44.100,5",
        "fr": "44\u202f100,5",
        "ja": "44,100.5",
        "zh-CN": "44,100.5",
    }
    german = TRANSLATIONS.texts_for("de").number
    assert german(5, 1) == "5,0"
    assert (german(float("inf")), german(10**400)[:5]) == ("inf", "10,00")


def test_error_messages_contain_no_folders() -> None:
    error = errors.ReleaseNotFound("release.none", model="/home/anna/my models/s2")
    message = user_messages.user_message(error)
    assert "There is no folder s2;" in str(message)
    assert "/home" not in TRANSLATIONS.texts_for("fr").write(message)
