"""Texts that are slow or hard to parse."""

import random

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


def hostile_text(chance: random.Random, most: int) -> str:
    """Return a text of up to `most` characters: one token repeated, several in turn, nested, or a mixture."""
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
