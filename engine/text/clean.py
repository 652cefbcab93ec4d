"""Cleaning of typed or pasted text, to the form used in training."""

import unicodedata
from collections.abc import Iterable
from itertools import groupby

import regex

from engine.errors import InvalidText
from engine.text.tags import SPEAKER_TAG, compose, is_speakable

# Anything like a control token of the model, such as `<|im_end|>`, except speaker tags.
_CONTROL_TOKEN = regex.compile(rf"(?!{SPEAKER_TAG.pattern})<\|[^<>|\n]{{0,64}}\|>")
_TOKEN_START = regex.compile(rf"(?!{SPEAKER_TAG.pattern})<\|")

# Invisible or unpronounceable characters: control, format (except the joiners of Indic scripts, Persian and emoji, and
# Arabic's visible number signs), surrogates, private use.
_UNSEEN = regex.compile(r"(?![\n\u200c\u200d\u0600-\u0605\u06dd\u08e2])[\p{Cc}\p{Cf}\p{Cs}\p{Co}]")

_SOFT_HYPHEN = regex.compile(r"\u00ad[^\S\n]*+\n[^\S\n]*+(?=\p{L})")  # of a word divided at the end of a line
_LINE_ENDS = regex.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_SPACES = regex.compile(r"[^\S\n]+")
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»〝〞〟＂", '"'),
        **dict.fromkeys("‘’‚‛‹›`´＇", "'"),
        **dict.fromkeys("\u2010\u2011\ufe63\uff0d\u2212", "-"),
        **dict.fromkeys("\u2012\u2013", "–"),
        **dict.fromkeys("\u2014\u2015\u2e3a\u2e3b", "—"),
    }
)
# Ligatures and forms of Arabic letters, as PDFs have them, which models do not know; not the signs of whole phrases.
_FORMS = {
    code: letters
    for code in (*range(0xFB00, 0xFB07), *range(0xFB50, 0xFDF0), *range(0xFE70, 0xFEFD))
    if (letters := unicodedata.normalize("NFKC", chr(code))).isalpha()
}
_LINK = regex.compile(r"!?\[([^\[\]]*+)\]\((?:https?://|www\.|mailto:|\.{0,2}/|#)[^\s()]*+\)")  # Markdown
_LINK_DEPTH = 2  # a picture may be a link's text
# Marks of quotations in e-mails, and of headings and quotations in Markdown, at the beginning of a line.
_LINE_MARKS = regex.compile(r"(?m)^[^\S\n]*+(?:>[^\S\n]*+|#++(?:[^\S\n]++|$))++(?=[\p{L}\"'“‘«*(\[¿¡]|(?<=## )\p{N}|$)")
# Marks of footnotes, "so.¹" and "word², which"; others are exponents: "10²", "(a + b)²", "5 meters²".
_NOTE_MARKS = regex.compile(
    r"(?<=\p{L}{4}|\p{L}[.,;:!?][\"'”’»)]?)(?<!(?i:m[eèé]t(?:er|re|ro|ri)s?|feet|foot|inch|inches|yards?|miles?|seconds?))"
    r"[¹²³⁰⁴-⁹]{1,3}+(?![\p{L}\p{N}])"
)
_DOUBLE_HYPHEN = regex.compile(r"(?<=[\s\w])--+(?=[\s\w])")
_DOTS = regex.compile(r"(?:\.(?: ?\.){2,}|…)+")
_REPEATED = regex.compile(r"([^\w\s])\1{3,}")

# Characters that end a line on purpose. After any other character, a line is taken as wrapped if the next one starts
# with a small letter, or if it is full and ends with `_OPEN`.
_CLOSED = regex.compile(r"[\p{SB=STerm}\p{SB=ATerm}\p{SB=Close}…:]$")
_OPEN = regex.compile(r"[\p{L}\p{N},;、，；]$")
_SMALL = regex.compile(r"\p{Ll}")
_FULL_LINE = 60  # columns
_WIDE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}、。，；！？「」]")  # two columns each
_WITHOUT_SPACE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー、，；]")  # on both sides of a line end
# A word divided at the end of a line. A second hyphen is the word's own: "mother-in-\nlaw". "pre-\nand post-war"
_DIVIDED = regex.compile(r"(?<=(?P<own>-)?\b\p{L}+)[-\u00ad\u2010]$")
# Before these, the hyphen is that of a joined word: "self-\ndriving", but "high-\ner".
_JOINED = regex.compile(
    r"(?i)(?<=\b(?:half|high|long|low|self|short|well|(?:twen|thir|for|fif|six|seven|eigh|nine)ty))-$"
)
_ENDING = regex.compile(r"(?:age|en|er|est|ing|ish|ly|ness)\b")
# No part of a divided word: "dit-\nil", and what joins words.
_PART = regex.compile(
    r"(?!(?:and|bzw|e|elles?|en|et|ils?|là|moi|nous|o|oder|of|or|ou|to|toi|und|vous|y|à|être)\b)\p{Ll}"
)
# A list item. After other text, a number begins a list only if it is the first: "on March\n5. We left".
_ITEM = regex.compile(r"(?:[-–•*]|(?P<place>\p{N}{1,3}[.)]|\p{L}\)))\s")
_FIRST_PLACES = frozenset(("1.", "1)", "a)", "A)"))


def clean_text(text: str) -> str:
    """Clean text: composed characters, no ligatures, plain quotes, three dashes (- – —), one ellipsis, single spaces.

    Line ends are kept after a paragraph or list item, and removed where lines were wrapped, as in emails. Of several
    empty lines, one is kept. `[tags]` and `<|speaker:i|>` are kept; control tokens are removed. Of a link in Markdown,
    the text is kept; marks of headings and quotations before a line, raised numbers of notes, and hyphens of words
    divided at the end of a line are removed. Idempotent.

    Raises InvalidText if nothing speakable is left.
    """
    cleaned = _clean(text)
    if not is_speakable(cleaned):
        raise InvalidText("text.no_words")
    return cleaned


def without_control_tokens(text: str) -> str:
    """Replace `<|…|>` by spaces, except speaker tags, so that no control token gets into a prompt."""
    return _TOKEN_START.sub(" ", _CONTROL_TOKEN.sub(" ", text))


def with_plain_line_ends(text: str) -> str:
    """Replace all characters that end lines, such as those of word processors, by "\\n"."""
    return _LINE_ENDS.sub("\n", text)


def without_line_marks(text: str) -> str:
    """Remove marks of headings and quotations at the beginning of lines."""
    return _LINE_MARKS.sub("", text)


def blank_marks(text: str) -> str:
    """Return text with as many spaces in place of marks of headings and quotations before its lines, and of notes."""
    for marks in (_LINE_MARKS, _NOTE_MARKS):
        text = marks.sub(lambda found: " " * len(found[0]), text)
    return text


def _clean(text: str) -> str:
    text = _SOFT_HYPHEN.sub("", with_plain_line_ends(text))
    text = _UNSEEN.sub("", text.replace("\t", " "))
    for _ in range(_LINK_DEPTH):
        text = _LINK.sub(r"\1", text)
    text = _LINK.sub(lambda link: link[0].replace("](", "] ("), text)  # no link any more
    text = compose(without_control_tokens(text.translate(_FORMS))).translate(_ALIKE)
    text = _NOTE_MARKS.sub("", without_line_marks(_SPACES.sub(" ", text)))
    text = _REPEATED.sub(r"\1\1\1", _DOTS.sub("…", _DOUBLE_HYPHEN.sub("—", text)))
    blocks = groupby(map(str.strip, text.split("\n")), bool)
    text = "\n\n".join("\n".join(join_wrapped(lines)) for filled, lines in blocks if filled)
    return _NOTE_MARKS.sub("", text)  # after words that were divided


def join_wrapped(lines: Iterable[str]) -> list[str]:
    """Join non-empty lines that were wrapped at a column. Paragraphs and list items begin new lines."""
    joined: list[list[str]] = []
    length = 0  # of the last
    for line in lines:
        if joined and not _begins_item(line, joined[-1][0]) and _is_wrapped(joined[-1][-1], length, line):
            joined[-1][-1] = before_next_line(joined[-1][-1], line)
            joined[-1].append(line)
            length += 1 + _columns(line)
        else:
            joined.append([line])
            length = _columns(line)
    return ["".join(parts) for parts in joined]


def before_next_line(end: str, line: str) -> str:
    """Return a line that was wrapped as it comes before the next one: without the hyphen of a divided word, or with a
    space, if the script has spaces.
    """
    divided = _DIVIDED.search(end, len(end) - 1) if _PART.match(line) else None
    if divided is None:
        return end if _WITHOUT_SPACE.match(end[-1]) and _WITHOUT_SPACE.match(line) else f"{end} "
    is_joined_word = _JOINED.search(end, len(end) - 1) is not None and _ENDING.match(line) is None
    return end if divided["own"] or is_joined_word else end[:-1]


def _columns(line: str) -> int:
    return len(line) if line.isascii() else len(line) + len(_WIDE.findall(line))


def _begins_item(line: str, before: str) -> bool:
    """Whether a line begins a list item. before: the first line of the paragraph or item before it."""
    found = _ITEM.match(line)
    return found is not None and (found["place"] in (None, *_FIRST_PLACES) or _ITEM.match(before) is not None)


def _is_wrapped(end: str, length: int, following: str) -> bool:
    """Whether `following` continues a line of `length` columns that ends with `end`."""
    if _SMALL.match(following):
        return _CLOSED.search(end, len(end) - 1) is None
    return length >= _FULL_LINE and _OPEN.search(end, len(end) - 1) is not None
