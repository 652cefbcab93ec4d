"""Cutting text into segments: nothing is dropped, and what is cut is cut where a reader would pause."""

from collections.abc import Iterator
from itertools import pairwise

from engine.text.cuts import Cuts
from engine.text.marks import STYLE_TAG, has_words
from engine.text.sentences import Span, sentences, word_ends
from engine.text.timing import speaking_time

MAX_BYTES = 300  # UTF-8 bytes of a segment; the S2 reference speaks text in turns of that size


def split_segments(text: str, max_bytes: int = MAX_BYTES) -> list[str]:
    """Text → segments: as many whole sentences of one paragraph as fit into `max_bytes` UTF-8 bytes.

    Longer sentences are cut at clause marks, else between words, into parts of much the same size; words,
    graphemes and tags are never cut, but for a word that alone is longer than `max_bytes`. Pieces that say
    nothing (a row of stars, a tag alone on its line) stay with a neighbour. The segments' characters, spaces
    apart, are the text's, in order.
    """
    pieces = [piece for line in _lines(text) for piece in _packed(text, line, max_bytes)]
    return [" ".join(text[start:end].split()) for start, end in _with_words(text, pieces, 2 * max_bytes)]


def cut_text(text: str, share: float) -> str:
    """The beginning of `text` that takes about `share` (0 to 1) of the time that all of it takes to say.

    Ends with a sentence where one ends within a twelfth of the whole, else between two words. The first word
    always stays.
    """
    whole = (0, len(text))
    if share >= 1 or not (ends := word_ends(text, whole)):
        return text
    target = share * speaking_time(text)
    off, spoken = {}, 0.0
    for start, end in pairwise([0, *ends]):
        spoken += speaking_time(text[start:end])
        off[end] = abs(spoken - target)
    near = [end for _, end in sentences(text, whole) if off.get(end, spoken) <= spoken / 12]
    return text[: min(near or ends, key=off.__getitem__)].rstrip()


def _lines(text: str) -> Iterator[Span]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line)
        start += len(line)


def _packed(text: str, line: Span, max_bytes: int) -> list[Span]:
    packed: list[Span] = []
    for sentence in sentences(text, line):
        for start, end in _fitting(text, sentence, max_bytes):
            if packed and _size(text, (packed[-1][0], end)) <= max_bytes and not _is_only_tags(text, start, end):
                packed[-1] = (packed[-1][0], end)
            else:
                packed.append((start, end))
    return packed


def _is_only_tags(text: str, start: int, end: int) -> bool:
    """Style tags and no word: they belong to what follows."""
    return STYLE_TAG.search(text, start, end) is not None and not has_words(text[start:end])


def _fitting(text: str, sentence: Span, max_bytes: int, cuts: Cuts | None = None) -> list[Span]:
    """A sentence in parts that fit: halved, and the halves again, at the best place near the middle."""
    if _size(text, sentence) <= max_bytes:
        return [sentence]
    cuts = cuts or Cuts(text, sentence)
    cut = cuts.best(sentence)
    if cut is None:
        return [sentence]
    start, end = sentence
    return _fitting(text, (start, cut), max_bytes, cuts) + _fitting(text, (cut, end), max_bytes, cuts)


def _with_words(text: str, pieces: list[Span], limit: int) -> list[Span]:
    """No piece without words, up to a limit: tags go to what follows them, punctuation to what it follows."""
    kept: list[Span] = []
    waiting: int | None = None  # where pieces begin that go to the next
    tagged = False  # whether there is a tag among those
    for start, end in pieces:
        first = start if waiting is None else waiting
        tagged = (tagged and waiting is not None) or STYLE_TAG.search(text, start, end) is not None
        waiting = None
        if has_words(text[start:end]) or _size(text, (first, end)) > limit:
            kept.append((first, end))
        elif kept and not tagged and _size(text, (kept[-1][0], end)) <= limit:
            kept[-1] = (kept[-1][0], end)
        else:
            waiting = first
    if waiting is not None:
        first = kept.pop()[0] if kept else waiting
        kept.append((first, len(text)))
    return kept


def _size(text: str, span: Span) -> int:
    return len(text[span[0] : span[1]].strip().encode("utf-8", "surrogatepass"))
