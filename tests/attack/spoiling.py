"""Damage valid bytes and texts, by chance and on purpose."""

import random

_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
# Tokens that make files slow to parse or that parsers handle badly.
TOKENS = (
    *"[](){}<>*_`~#|\\!\"'&;:.,?-=+/^%$@ \t\n\r",
    # Markdown
    *("[a](", "![", "](", "](<", "[SCENE", "[[", "**", "__", "***", "```", "~~~", "> ", ">> ", "- ", "1. ", "    "),
    *("# ", "| a ", "|-", "\n\n", "\\\n", "[^1]", "[^1]: ", "$$", "<!--", "-->", "<a ", "<a href='", "</", "<![CDATA["),
    *("&#", "&amp", "http://a.b/", "a@b.c "),
    # subtitles
    *(
        "00:00:00,000 --> 00:00:01,000\n",
        "1\n00:00:",
        "WEBVTT\n",
        "NOTE ",
        "STYLE\n",
        "<v Anna>",
        "<c.x>",
        "<00:01.000>",
    ),
    # speech
    *(
        "<|speaker:0|>",
        "<|speaker:",
        "[whisper]",
        "(laughs) ",
        "A: ",
        "ANNA: hello. ",
        "“",
        "”",
        "…",
        "—",
        "Mr. ",
        "3.5.",
    ),
    *("1,000,000.5 ", "$1.2 million ", "12:34:56 ", "1/2 ", "IV. ", "ABC ", "co-op ", "e.g.", "word ", "Stop. "),
    # signs
    *("\u202e", "\u200b", "\u0301", "\ufeff", "\u2028", "\x00", "\x1b", "\ud7ff", "\U0001f469\u200d"),
    *("字。", "ん", "ا", "ß", "ﬃ"),
)


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """The data with one to four mutations: cut, repeated, moved, flipped, overwritten with unusual numbers."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        _SPOIL[chance.randrange(len(_SPOIL))](changed, chance)
    return bytes(changed)


def hostile_text(chance: random.Random, most: int) -> str:
    """A text of up to `most` characters: one token over and over, some of them in turn, nested, or a mixture."""
    size = chance.choice((most, most, most // 8, 4_000, 200, chance.randint(0, most)))
    some = chance.choices(TOKENS, k=chance.randint(1, 4))
    match chance.randrange(4):
        case 0:
            return (some[0] * (size // len(some[0]) + 1))[:size]
        case 1:
            unit = "".join(some)
            return (unit * (size // len(unit) + 1))[:size]
        case 2:
            half = size // 2
            return (some[0] * half)[:half] + "a" + (some[-1] * half)[:half]
        case _:
            return "".join(chance.choices(TOKENS, k=min(size, 50_000) // 4))


def _flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 8)):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randint(0, len(data)) :]


def _drop(data: bytearray, chance: random.Random) -> None:
    start = chance.randint(0, len(data))
    del data[start : start + chance.randint(1, 64)]


def _repeat(data: bytearray, chance: random.Random) -> None:
    start = chance.randint(0, len(data))
    data[start:start] = data[start : start + chance.randint(1, 256)] * chance.randint(1, 8)


def _move(data: bytearray, chance: random.Random) -> None:
    start = chance.randint(0, len(data))
    part = data[start : start + chance.randint(1, 256)]
    del data[start : start + len(part)]
    place = chance.randint(0, len(data))
    data[place:place] = part


def _number(data: bytearray, chance: random.Random) -> None:
    """Overwrite a number, mostly near the start, where formats store sizes."""
    width = chance.choice((1, 2, 4, 8))
    if len(data) > width:
        end = len(data) - width
        place = chance.randint(0, min(end, 200) if chance.random() < 0.7 else end)
        value = chance.choice(_NUMBERS) & (1 << 8 * width) - 1
        data[place : place + width] = value.to_bytes(width, chance.choice(("little", "big")))


def _noise(data: bytearray, chance: random.Random) -> None:
    start = chance.randint(0, len(data))
    data[start : start + chance.randint(1, 512)] = chance.randbytes(chance.randint(0, 512))


_SPOIL = (_flip, _flip, _cut, _drop, _repeat, _move, _number, _number, _noise)
