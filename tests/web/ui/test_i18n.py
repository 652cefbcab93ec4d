"""Translations: equal keys in all languages, no untranslated text on the page, and the choice of the language."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from playwright.sync_api import expect

from engine.messages import english
from tests.paths import ROOT
from tests.support.sentences import placeholders
from web.context import WebContext
from web.page import create_app
from web.tabs.speak.layout import FIRST_TEXT
from web.ui.i18n import LOCALES, Translations

Serve = Callable[..., str]
expect.set_options(timeout=120_000)  # ms: generous, since the machine may be busy
WEB = ROOT / "web"
TRANSLATIONS = Translations.load()
LANGUAGES = sorted(TRANSLATIONS.languages)
ENGLISH = TRANSLATIONS.languages["en"]
# Keys whose text may equal the English one: names, units and loanwords.
SAME = {
    "clip.refused",
    "field.description",
    "field.pause",
    "heading.model",
    "history.count",
    "library.name",
    "library.description",
    "recogniser.size",
    "provenance.seed",
    "list.more",
    "locked.token",
    "shell.quoted",
    "speech.both",
    "speech.seed",
    "speech.top_p",
    "status.minutes",
    "player.seed",
    "player.times",
    "player.top_k",
    "player.top_p",
    "player.volume",
    "writing.pauses",
    "speech.top_k",
    "tab.script",
    "tab.status",
    "takes.title",
    "writing.takes",
}


def files_of(folder: Path) -> dict[str, list[str]]:
    """Return the keys of each file, in order."""
    files = folder.rglob("*.json")
    return {path.relative_to(folder).as_posix(): list(json.loads(path.read_text("utf-8"))) for path in files}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_keys_and_placeholders(language: str) -> None:
    messages = {
        f"{package}/{name}": keys
        for package in ("engine", "storage", "studio")
        for name, keys in files_of(ROOT / package / "messages").items()
    }
    expected = files_of(LOCALES / "en") | ({} if language == "en" else messages)
    assert files_of(LOCALES / language) == expected, "keys have the same order in all languages"
    for key, text in TRANSLATIONS.languages[language].items():
        assert placeholders(text) == placeholders(ENGLISH[key]), key
        assert text.strip() == text != "", key
        assert "<" not in text, f"{key}: a text has no markup"


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_every_language_is_translated(language: str) -> None:
    texts = TRANSLATIONS.languages[language]
    assert {key for key, text in texts.items() if text == ENGLISH[key]} <= SAME


# French sets a narrow no-break space before ; ! ? %, and a no-break space before : and inside « ».
SPACED_IN_FRENCH = {";": "\u202f", "!": "\u202f", "?": "\u202f", "%": "\u202f", ":": "\u00a0", "»": "\u00a0"}
CODE = re.compile(r"https?:|\[speed:[\d.]+\]|\[K, T\]|cuda:N|s3://|gs://|az://|%[0-9A-F]{2}")


def test_french_has_no_break_spaces_at_its_punctuation() -> None:
    for key, text in TRANSLATIONS.languages["fr"].items():
        text = CODE.sub("", text)
        for before, mark in re.findall(r"(.)([;!?%:»])", text):
            assert before == SPACED_IN_FRENCH[mark], f"{key}: {mark}"
        assert "«\u00a0" * text.count("«") == "".join(re.findall("«.", text)), key


@pytest.mark.parametrize("language", ["ja", "zh-CN"])
def test_chinese_and_japanese_have_full_width_punctuation(language: str) -> None:
    texts = {key: CODE.sub("", text) for key, text in TRANSLATIONS.languages[language].items()}
    assert {key: text for key, text in texts.items() if re.search(r"[;,!?] ?(?!\w)|: ", text)} == {}


def test_six_languages_are_supported() -> None:
    assert LANGUAGES == ["de", "en", "es", "fr", "ja", "zh-CN"]


def test_keys_have_group_prefixes() -> None:
    """Gradio also looks up plain values: a value that equals a key would be replaced by its text."""
    assert all(re.fullmatch(r"[a-z]+\.[a-z_0-9]+", key) for key in ENGLISH)


# --- texts of the page


@pytest.fixture
def demo(context: WebContext) -> gr.Blocks:
    return create_app(context)


def page_texts(demo: gr.Blocks) -> Iterator[tuple[str, str]]:
    """Yield the location and the text of each label or value on the page, without markup."""
    for part in demo.config["components"]:
        props = part["props"]
        for name in ("label", "info", "placeholder", "description", "title", "value"):
            text = props.get(name)
            if isinstance(text, str) and props.get("elem_id") != "rp-heading":
                without = re.sub(r"<style>.*?</style>|<[^>]*>|\$\{\w+\}|__i18n__\{[^}]*\}", "", text, flags=re.DOTALL)
                yield f"{part['type']} {props.get('elem_id')} {name}", without


def test_page_has_no_untranslated_text(demo: gr.Blocks) -> None:
    """Except the heading, which the server writes for each visitor, and the first text to speak, an example."""
    found = {where: text for where, text in page_texts(demo) if re.search(r"[^\W\d_]", text) and text != FIRST_TEXT}
    del found["textbox rp-settings-model value"]  # hidden; the name of a model
    # Gradio labels components without a label by their type, and does not show it.
    unlabelled = {where for where, text in found.items() if text in ("HTML", "html")}
    assert {where: text for where, text in found.items() if where not in unlabelled} == {}


def keys_in_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(
                func=ast.Name(id="texts" | "label") | ast.Attribute(attr="texts" | "label"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                yield key
            case ast.Call(
                func=ast.Name(id="texts" | "label") | ast.Attribute(attr="texts" | "label"),
                args=[ast.JoinedStr(values=[ast.Constant(value=str(group)), *_]), *_],
            ):  # a group of keys, by its prefix: "tab."
                yield from (key for key in ENGLISH if key.startswith(group))
            case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str(end))]):  # "_segments"
                yield from (key for key in ENGLISH if key.endswith(end))
            case ast.Constant(value=str(key)) if key in ENGLISH:  # the key of an error, or one from a table
                yield key


def keys_in_scripts(path: Path) -> Iterator[str]:
    groups = "|".join({key.partition(".")[0] for key in ENGLISH})
    yield from re.findall(rf"[\"'`]((?:{groups})\.[a-z_]+)", path.read_text("utf-8"))


def test_used_keys_exist_and_all_keys_are_used() -> None:
    python = {key for path in WEB.rglob("*.py") for key in keys_in_python(path)}
    static = {key for path in (WEB / "static").rglob("*.[hj]*") for key in keys_in_scripts(path)}
    assert python | static <= set(ENGLISH)
    assert set(ENGLISH) - set(english()) <= python | static  # tests/test_messages.py checks those of the other packages


# --- choice of the language


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("fr", "fr"),
        ("es-MX;q=1.0", "es"),
        ("JA-jp", "ja"),
        ("zh-CN,zh;q=0.9", "zh-CN"),
        ("zh", "zh-CN"),
        ("zh-Hans", "zh-CN"),
        ("zh-hans-cn,en;q=0.9", "zh-CN"),
        ("zh-TW,zh;q=0.9,en-US;q=0.8", "zh-CN"),
        ("zh-HK", "zh-CN"),
        ("pt-BR,de;q=0.5", "de"),
        ("uk,de;q=0.8,fr;q=0.9", "fr"),
        ("uk, en-GB;q=0.9, de ; q = 0.8", "en"),
        ("de;q=0,fr;q=0.1", "fr"),
        ("pt,*;q=0.5", "en"),
        ("*", "en"),
        ("", "en"),
        ("\u00e9;;;,,de;q=x,,ja;q=0.2", "ja"),
    ],
)
def test_server_answers_in_the_browsers_preferred_language(accepted: str, language: str) -> None:
    request: Any = SimpleNamespace(headers={"accept-language": accepted})
    assert TRANSLATIONS.texts(request).language == language


@pytest.mark.parametrize(
    ("language", "number", "lengths"),
    [("en", "1,234.568", ["1.8 s", "0:10", "1:02:05"]), ("de", "1.234,568", ["1,8 s", "0:10", "1:02:05"]),
     ("ja", "1,234.568", ["1.8 秒", "0:10", "1:02:05"])],
)  # fmt: skip
def test_numbers_are_written_as_in_the_language(language: str, number: str, lengths: list[str]) -> None:
    texts = TRANSLATIONS.texts_for(language)
    assert texts.number(1234.5678) == number
    assert [texts.length(seconds) for seconds in (1.84, 9.95, 3725.9)] == lengths
    assert [texts.number(damaged) for damaged in (float("nan"), 1e15, -1e16)] == ["nan", "1e+15", "-1e+16"]


def test_texts_fill_placeholders_with_any_text() -> None:
    texts = TRANSLATIONS.texts(None)
    assert texts("notice.saved", name="{0} {name} $&") == "Saved “{0} {name} $&”."
    with pytest.raises(KeyError):
        texts("notice.saved")
    with pytest.raises(KeyError):
        texts("notice.unknown")
    with pytest.raises(KeyError):
        TRANSLATIONS.label("unknown")
