"""Text as people paste it → text as the model has learnt to read it."""

from collections.abc import Iterable

import regex

from engine.errors import InvalidText
from engine.text.marks import SPEAKER_TAG, compose, is_spoken

# What looks like one of the model's control tokens, as `<|im_end|>`. Only speaker tags are the user's to
# write.
_CONTROL_TOKEN = regex.compile(rf"(?!{SPEAKER_TAG.pattern})<\|[^<>|\n]{{0,64}}\|>")
_TOKEN_START = regex.compile(rf"(?!{SPEAKER_TAG.pattern})<\|")

# Unseen or unsayable: control, format (but for the joiners of Indic scripts, Persian and emoji, and Arabic's
# number signs, which show), half characters, private use.
_UNSEEN = regex.compile(r"(?![\n\u200c\u200d\u0600-\u0605\u06dd\u08e2])[\p{Cc}\p{Cf}\p{Cs}\p{Co}]")

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
_DOUBLE_HYPHEN = regex.compile(r"(?<=[\s\w])--+(?=[\s\w])")
_DOTS = regex.compile(r"(?:\.(?: ?\.){2,}|…)+")
_REPEATED = regex.compile(r"([^\w\s])\1{3,}")

# What closes a line on purpose. One that goes on in small letters after anything else was wrapped, as is a
# full one that nothing closes.
_CLOSED = regex.compile(r"[\p{SB=STerm}\p{SB=ATerm}\p{SB=Close}…:]$")
_OPEN = regex.compile(r"[\p{L}\p{N},;]$")
_SMALL = regex.compile(r"\p{Ll}")
_FULL_LINE = 60  # characters


def normalise(text: str) -> str:
    """One form for what reads the same: composed characters, plain quotes, three dashes (- – —), one
    ellipsis, single spaces.

    Line ends stay where a paragraph or list item ends, and go where an email was wrapped. `[tags]` and
    `<|speaker:i|>` stay; other `<|…|>` is removed, so that nobody writes control tokens into the prompt.
    Applying it twice changes nothing more.

    Raises InvalidText when nothing is left to say.
    """
    cleaned = _clean(text)
    if not is_spoken(cleaned):
        raise InvalidText("There are no words to say: type a sentence.")
    return cleaned


def _clean(text: str) -> str:
    text = _UNSEEN.sub("", _LINE_ENDS.sub("\n", text).replace("\t", " "))
    text = _TOKEN_START.sub(" ", _CONTROL_TOKEN.sub(" ", text))
    text = compose(text).translate(_ALIKE)
    text = _SPACES.sub(" ", text)
    text = _REPEATED.sub(r"\1\1\1", _DOTS.sub("…", _DOUBLE_HYPHEN.sub("—", text)))
    return "\n".join(join_wrapped(filter(None, map(str.strip, text.split("\n")))))


def join_wrapped(lines: Iterable[str]) -> list[str]:
    """Lines, none of them empty, where what was broken at a column is one line again."""
    joined: list[list[str]] = []
    length = 0  # of the last
    for line in lines:
        if joined and _is_wrapped(joined[-1][-1], length, line):
            joined[-1].append(line)
            length += 1 + len(line)
        else:
            joined.append([line])
            length = len(line)
    return [" ".join(parts) for parts in joined]


def _is_wrapped(end: str, length: int, following: str) -> bool:
    """Whether `following` goes on with a line of that length, which ends with `end`."""
    if _SMALL.match(following):
        return _CLOSED.search(end, len(end) - 1) is None
    return length >= _FULL_LINE and _OPEN.search(end, len(end) - 1) is not None
