"""Hostile long texts and all their readers, to find superlinear running time.

`python -m tests.support.long_texts` prints the slowest texts at the largest accepted size, for every reader.
"""

import random
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from engine.errors import InvalidText
from engine.text import Segmentation, clean_text, cut_text, speaking_time
from engine.text.english import normalization
from engine.text.english.pronunciation import Lexicon
from engine.text.ssml import plain_text
from studio.script import cues, parse, parse_file, to_srt, to_vtt
from studio.script.formats.decode import MAX_CHARACTERS
from tests.paths import BUNDLED
from tests.support.linear import LEAST, repeated, seconds

LARGEST = MAX_CHARACTERS  # storage.repositories.takes.MAX_TEXT is the same
LIMIT = 2.0  # seconds for a text of the largest size
_MEASURED = 6  # slowest texts measured at full length

Read = Callable[[str], object]
Make = Callable[[int], str]

LEXICON = Lexicon.load(BUNDLED / "lexicon.json.gz")
CUE = "00:00:00,000 --> 00:00:01,000\n"

# Units that a text repeats.
UNITS = (
    *("[", "[SCENE", "(", "<", "&", "\\", "`", "*", "_", "#", ">", "~", "|", "!", "^", "]", ")"),
    *("a", "A", "a ", "Ab cd ", "a\n", "A\n", "a\n\n", "a \n", "xX", "A's ", "'", "a'", '"', "“", "”", "(a", "a.b"),
    *("...", "…", ". ", "! ", "a. ", ". .", '?"', "a.", "A.", "U.S.", "Mr. ", "Mr.", "No. ", "no. 5 ", "e.g.", "[.] "),
    *(
        "st. ",
        "Main St. A",
        "Dr. A",
        "1. ",
        "1.2.",
        "1",
        "1,",
        "1,234,",
        "9" * 40 + " ",
        "12:30 ",
        "1st ",
        "$1",
        "5 km ",
    ),
    *("am 5. ", '5" ', "7s ", "x-1-", '。"', "p.m. A ", "5⁶"),
    *("5km", "1-2", "1/2 ", "Jan 1 ", "Jan", "1990s ", "-1", "--", "—", "a, ", ", ", "%", "½", "ﷺ", "ß", "ﬁ", "é"),
    *(
        "\n",
        "\n\n",
        " ",
        "\t",
        " \n",
        "\u2028",
        "\u00a0",
        "\u0301",
        "\u0301\u0316",
        "a\u0301",
        "\u0344",
        "\u0f71\u0f72",
    ),
    *(
        "\u200d",
        "\u200c",
        "👩\u200d",
        "👩‍👩‍👧",
        "🇩🇪",
        "🇩",
        "\ufe0f",
        "\u200f",
        "\u202e",
        "א",
        "مرحبا ",
        "क्",
        "कि",
        "\u3099",
    ),
    *("漢", "漢。", "か", "カー", "ก", "ำ", "\uac00", "\u1100\u1161", "မြ", "\ufeff", "\ue000", "\ud800", "\x00"),
    *("<|speaker:1|>", "<|speaker:1|>a ", "<|speaker:1|>. ", "<|speaker:", "<|", "<|a|>", "[a]", "[a] ", "[a]\n", "[a"),
    *("A: ", "A: a\n", "[A] a\n", "A:\n", "00:00:00,000 --> ", CUE, f"1\n{CUE}a\n\n", f"{CUE}<v A>a\n", "NOTE a\n\n"),
    *(
        "<v a>",
        "<v ",
        "<v.a",
        "<v.",
        "<c.",
        "{\\",
        "<00:",
        "&amp;",
        "&#",
        "&#9",
        "&#x9",
        "-->",
        "<!--",
        "<b>",
        "<b ",
        "<i a",
    ),
    *(
        "# a\n",
        "- a\n",
        "- ",
        "> ",
        "> - ",
        "1) ",
        "a\n=\n",
        "---\n",
        "* * *\n",
        "***",
        "**a",
        "*a **a ",
        "_a ",
        "~~a ",
    ),
    *(
        "`a ",
        "``",
        "```\n",
        "    a\n\n",
        "![](",
        "[a](<b",
        "![[]()",
        "[a](b",
        "[a](b)",
        "[a]: b\n",
        "[^1]",
        "[^1]: a\n\n",
    ),
    *(
        "[a][b",
        "<a@b",
        "<http://a>",
        "<div>\n",
        "</div>\n\n",
        "<x>",
        "<?",
        "<![CDATA[",
        "| a |\n",
        "|-|\n",
        "|a",
        "\\\n",
    ),
    *(
        "<speak>",
        "<speak>a</speak>",
        "<speak ",
        "<break/>",
        "<break ",
        "<break a='b' ",
        "<sub ",
        "<sub a='b'>",
        "<p>",
        "<a b=c ",
        "&a",
    ),
)
# The first character of each category; private use begins last.
_CATEGORIES = sorted({unicodedata.category(chr(code)): chr(code) for code in range(0xE000, 0x20, -1)}.values())


def mixed(seed: int, size: int) -> str:
    """A text of random units."""
    return "".join(random.Random(seed).choices(UNITS, k=size))[:size]


def texts() -> Iterator[tuple[str, Make]]:
    """Yield the name and the maker of every text."""
    for unit in dict.fromkeys((*UNITS, *_CATEGORIES)):
        yield repr(unit), repeated(unit)
    for seed in range(8):
        yield f"mixed {seed}", partial(mixed, seed)
        some = "".join(random.Random(seed).choices(UNITS, k=2 + seed % 4))
        yield f"repeated {some!r}", repeated(some)
    yield "a capital, then [.]", lambda size: "A" + repeated("[.] ")(size - 1)
    yield "marks in reverse order", lambda size: "a" + "\u0301" * (size // 2) + "\u0316" * (size // 2)
    yield "open, then closed", lambda size: "[" * (size // 2) + "]" * (size // 2)
    yield "deep, then lazy", lambda size: "- " * (size // 4) + "a\n" * (size // 4)
    yield "quotes, then lazy", lambda size: "> " * (size // 4) + "a\n" + "a\n" * (size // 4)
    yield "deeper and deeper", lambda size: "\n".join("  " * depth + "- a" for depth in range(int(size**0.5)))
    yield (
        "tabs, deeper and deeper",
        lambda size: "\n".join("\t" * depth + "- a" for depth in range(int((2 * size) ** 0.5))),
    )
    yield "more and more backticks", lambda size: " ".join("`" * count for count in range(1, int((2 * size) ** 0.5)))
    yield "a long label", lambda size: f"[{'a' * (size // 2)}]: b\n\n" + repeated("[a]")(size // 2)
    yield "a long address", lambda size: f"[a]: {'b' * (size // 2)}\n\n" + repeated("[a]")(size // 2)
    yield "a comment of rules", lambda size: "<!--\n" + repeated("- a\n")(size)
    yield "words, then one word", lambda size: repeated("a ")(size // 2) + "b" * (size // 2)


@dataclass(frozen=True)
class _Card:
    text: str
    pause: float = 0.0
    duration: float | None = 5.0
    seconds: float | None = 5.0
    speaker: str | None = None


def _subtitles(text: str) -> None:
    shown = cues([_Card(text)])
    to_srt(shown)
    to_vtt(shown)


READERS: Mapping[str, Read] = {
    "clean_text": clean_text,
    "SSML": lambda text: plain_text(f"<speak>{text}"),
    "plan": lambda text: Segmentation().plan(f"Say {text}"),
    "pronounceable": LEXICON.unpronounceable,
    "plain text": lambda text: parse(text, "a.txt"),
    "Markdown": lambda text: parse(f"a\n\n{text}"[: len(text)], "a.md"),
    "SubRip": lambda text: parse(f"{CUE}a {text}"[:LARGEST], "a.srt"),
    "WebVTT": lambda text: parse(f"WEBVTT\n\n{CUE}a {text}"[:LARGEST], "a.vtt"),
    "WebVTT's head": lambda text: parse(f"WEBVTT\n{text}"[:LARGEST], "a.vtt"),
    "table": lambda text: parse(f"text,speaker\n{text}"[:LARGEST], "a.csv"),
    "pasted": parse,
    "bytes": lambda text: parse_file(text.encode("utf-8", "surrogatepass"), ""),
    "speaking time": speaking_time,
}
# These readers get only much shorter texts: a transcript, a segment, a card.
SHORT_READERS: Mapping[str, tuple[Read, int]] = {
    "transcript": (lambda text: cut_text(text, 0.5), 10_000),
    "phones": (LEXICON.phones, 10_000),
    "written out": (normalization.written_out, 10_000),
    "subtitles": (_subtitles, 5_000),
}


def accepting_refusals(read: Read) -> Read:
    """Return a reader that ignores `InvalidText`."""

    def tried(text: str) -> None:
        try:
            read(text)
        except InvalidText:
            return

    return tried


def slowest(read: Read, size: int) -> list[tuple[float, str]]:
    """Return seconds and names of the slowest texts, preselected by time and growth at an eighth of the size."""
    read, known = accepting_refusals(read), dict(texts())
    small = {name: seconds(read, make(size // 8)) for name, make in known.items()}
    grown = {name: took / max(seconds(read, known[name](size // 32)), LEAST / 4) for name, took in small.items()}
    slow = sorted(small, key=small.__getitem__, reverse=True)[:_MEASURED]
    fast = sorted(grown, key=grown.__getitem__, reverse=True)[:_MEASURED]
    return sorted(((seconds(read, known[name](size)), name) for name in dict.fromkeys((*slow, *fast))), reverse=True)


def main(size: int) -> None:
    """Print the slowest texts for every reader at `size`."""
    slow = 0
    for name, read in READERS.items():
        took = slowest(read, size)
        slow += sum(each > LIMIT for each, _ in took)
        print(f"{name}: " + ", ".join(f"{each:.2f} s {text}" for each, text in took[:6]), flush=True)
    print(f"{slow} took longer than {LIMIT} s at {size:,} characters.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else LARGEST)
