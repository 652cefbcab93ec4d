"""Splitting of text into segments where a reader would pause, without dropping anything."""

from collections.abc import Callable
from itertools import pairwise

from engine.text.cuts import fitting_spans, written_size
from engine.text.sentences import Span, lines, sentences, word_ends
from engine.text.tags import STYLE_TAG, has_words
from engine.text.timing import speaking_time

MAX_BYTES = 300  # UTF-8 bytes of a segment: the size of a turn in the S2 reference
# How much longer than `max_bytes` a piece may be as it is read. With this value the bundled model says most numbers
# right; with 1, single words before a number become segments, and with 4/3 numbers are garbled again.
SPOKEN_SIZE_SLACK = 7 / 6


def split_segments(
    text: str, max_bytes: int, max_sentences: int | None, size: Callable[[str], int]
) -> list[tuple[str, int]]:
    """Split text into segments of whole sentences of one paragraph, as many as fit into `max_bytes` UTF-8 bytes, and at
    most `max_sentences`. Return each with the number of line ends directly after it.

    Longer sentences are cut into few parts of similar size, if possible after clauses or before words that begin a
    clause or a phrase. Words, graphemes and tags are never cut, except a single word longer than `max_bytes`. Pieces
    without words (a row of stars, a tag alone on its line) join a neighbour. Apart from spaces, the segments contain
    all characters of the text in order.

    size: of a piece, limited to `SPOKEN_SIZE_SLACK` times `max_bytes`, for a model that reads more than is written.
    """

    def fits(piece: str) -> bool:
        return written_size(piece) <= max_bytes and size(piece) <= SPOKEN_SIZE_SLACK * max_bytes

    pieces = [piece for line in lines(text) for piece in _packed(text, line, fits, max_sentences)]
    starts = [start for start, _ in _with_words(text, pieces, 2 * max_bytes)]
    parts = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    return [(" ".join(part.split()), line_ends_after(part)) for part in parts]


def line_ends_after(text: str) -> int:
    """Return the number of line ends at the end of a text."""
    return text[len(text.rstrip()) :].count("\n")


def cut_text(text: str, share: float) -> str:
    """Return the beginning of `text` that takes about `share` (0 to 1) of its speaking time.

    It ends with a sentence if one ends within a twelfth of the total time from there, else between two words. The first
    word is always kept.
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


def _packed(text: str, line: Span, fits: Callable[[str], bool], max_sentences: int | None) -> list[Span]:
    """Pack the sentences of a line, or the parts of long ones, into spans within the limits."""
    packed: list[Span] = []
    held = 0  # sentences, or their parts, in the last span
    for sentence in sentences(text, line):
        is_new = True
        for start, end in fitting_spans(text, sentence, fits):
            may_join = packed and (max_sentences is None or held + is_new <= max_sentences)
            if may_join and fits(text[packed[-1][0] : end].strip()) and not _is_only_tags(text, start, end):
                packed[-1] = (packed[-1][0], end)
                held += is_new
            else:
                packed.append((start, end))
                held = 1
            is_new = False
    return packed


def _is_only_tags(text: str, start: int, end: int) -> bool:
    """Whether a piece has style tags and no words. Its tags belong to the following text."""
    return STYLE_TAG.search(text, start, end) is not None and not has_words(text[start:end])


def _with_words(text: str, pieces: list[Span], limit: int) -> list[Span]:
    """Join pieces without words to a neighbour, up to a limit: tags to the next piece, punctuation to the previous."""
    kept: list[Span] = []
    waiting: int | None = None  # start of the pieces to join to the next one
    tagged = False  # whether those hold a tag
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
    return written_size(text[span[0] : span[1]].strip())
