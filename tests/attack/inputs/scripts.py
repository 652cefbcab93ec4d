"""Script files and texts: damaged ones, and ones made to be slow, up to the size limits."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.text import Segmentation, clean_text
from engine.text.english.normalization import unpronounceable
from studio.script import cues, parse_file, to_srt, to_vtt
from studio.script.formats.decode import MAX_CHARACTERS
from tests.attack.attack import Attack, Broken, randoms
from tests.attack.inputs.hostile_texts import hostile_text
from tests.attack.inputs.mutations import damaged

ENDINGS = (".txt", ".md", ".srt", ".vtt", "", ".docx")
ENCODINGS = ("utf-8", "utf-8", "utf-16", "utf-32", "windows-1252")
WHOLE = (
    b'# One\n\nIt rained. *She* said: "[No](http://a.b)."\n\n- a\n- b\n\n```\nx\n```\n\n|a|b|\n|---|---|\n|1|2|\n',
    b"1\n00:00:01,000 --> 00:00:02,500\nANNA: Hello.\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>Good</i> morning.\n",
    b"WEBVTT\n\nNOTE no\n\nSTYLE\n::cue {}\n\nid\n00:01.000 --> 00:02.000 align:start\n<v A>Hello.</v> <c.x>No</c>\n",
    b"INT. HOUSE - NIGHT\n\nANNA\n(softly)\nGood night.\n\n[SCENE 2]\nBEN: Good day, Mr. Smith. It is 3.30 p.m.\n",
)
MAX_SPOKEN = 500_000  # characters of one take


@dataclass(frozen=True)
class Spoken:
    """A card that has a take."""

    text: str
    pause: float
    speaker: str | None
    duration: float | None = 3.0
    seconds: float | None = 2.0


def _files(seed: int, count: int) -> Iterator[tuple[bytes, str]]:
    for chance in randoms(seed, count):
        name = f"script{chance.choice(ENDINGS)}"
        if chance.random() < 0.5:
            yield damaged(chance.choice(WHOLE) * chance.choice((1, 1, 50, 2_000)), chance), name
        else:
            text = hostile_text(chance, MAX_CHARACTERS)
            yield text.encode(chance.choice(ENCODINGS), "replace"), name


def _read(case: tuple[bytes, str]) -> None:
    """Parse a file, then write subtitles as if it had been spoken."""
    script = parse_file(*case)
    if not all(card.text.strip() for card in script.cards):
        raise Broken("There is a card without a text.")
    made = cues(Spoken(card.text, card.pause, card.speaker) for card in script.cards)
    to_srt(made)
    to_vtt(made)


def _texts(seed: int, count: int) -> Iterator[str]:
    for chance in randoms(seed, count):
        yield hostile_text(chance, MAX_SPOKEN)


def _plan(text: str) -> None:
    """Run the engine's text processing before the model."""
    if not Segmentation().plan(clean_text(text)):
        raise Broken("A text was taken that makes no segment.")
    unpronounceable(text)


SCRIPTS = Attack("scripts", "damaged text, Markdown, srt and vtt files", _files, _read, 2_000)
TEXTS = Attack("texts", "texts to speak, up to half a million characters", _texts, _plan, 1_000)
