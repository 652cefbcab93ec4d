"""A text → the cards of a script: pieces of one to three sentences, each of which is spoken, and redone, by itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice, pairwise
from pathlib import PurePath

import regex

from engine.errors import InvalidText
from engine.text.cuts import split_to_fit
from engine.text.marks import is_spoken
from engine.text.sentences import Span, sentences
from engine.text.timing import speaking_time
from studio.script.blocks import MAX_CARDS, SENTENCE_PAUSE, Block, Reading, too_many_cards
from studio.script.captions import is_captions, read_captions
from studio.script.decode import checked_text, decode_text
from studio.script.markdown import is_markdown, read_markdown
from studio.script.plain import read_plain

_SENTENCES = 3  # of a card
_CHARACTERS = 200
_SECONDS = 16.0  # of speech: scripts differ much in what a character holds
_SURE = 32  # characters that fit whatever they are: none takes longer than half a second
_HUGE = 1.5  # a sentence is cut only when it is longer than a card by that factor

_LINE_ENDS = regex.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_NO_CHARACTER = regex.compile(r"[\p{Cs}\p{Co}\p{Noncharacter_Code_Point}\ufeff]|[^\P{Cc}\n\t]")
_LONG_SPACE = regex.compile(r"[^\S\n]{5,}")


@dataclass(frozen=True)
class Card:
    """A piece to be spoken in one go, as the author wrote it. speaker: None for the narrator. pause: seconds after."""

    text: str
    speaker: str | None = None
    pause: float = SENTENCE_PAUSE


@dataclass(frozen=True)
class Script:
    """cards: at least one; together they hold every word but those omitted and the speakers' names.

    omitted: what was not meant to be read aloud, such as code and the addresses of links; for telling the author.
    """

    cards: tuple[Card, ...]
    omitted: tuple[str, ...] = ()

    @property
    def speakers(self) -> tuple[str, ...]:
        """Everyone who is named, in the order in which they begin to speak."""
        return tuple(dict.fromkeys(card.speaker for card in self.cards if card.speaker is not None))


def parse_file(data: bytes, name: str) -> Script:
    """An uploaded text file as cards; its name's ending (.txt, .md, .srt, .vtt) tells how it is read.

    Raises InvalidText for what is no text, is too long, or holds nothing to say.
    """
    return parse(decode_text(data), name)


def parse(text: str, name: str = "") -> Script:
    """Text as cards. Without a name that tells, it is looked at: subtitles, Markdown, or plain text.

    Raises InvalidText for what is too long, or holds nothing to say.
    """
    text = _NO_CHARACTER.sub("", _LINE_ENDS.sub("\n", checked_text(text)))
    reading = _read(_LONG_SPACE.sub("    ", text), PurePath(name).suffix.lower())
    cards = tuple(islice(_cards(map(_storable, reading.blocks)), MAX_CARDS + 1))
    if not cards:
        raise InvalidText("There are no words to say in this text: paste some, or choose another file.")
    if len(cards) > MAX_CARDS:
        raise too_many_cards()
    return Script(cards, tuple(_NO_CHARACTER.sub("", text) for text in reading.omitted))


def _storable(block: Block) -> Block:
    """Without what references such as `&#1;` have brought."""
    speaker = _NO_CHARACTER.sub("", block.speaker or "").strip()
    return replace(block, text=_NO_CHARACTER.sub("", block.text), speaker=speaker or None)


def _read(text: str, suffix: str) -> Reading:
    if suffix in (".srt", ".vtt") or (suffix not in (".txt", ".md", ".markdown") and is_captions(text)):
        return read_captions(text)
    if suffix in (".md", ".markdown") or (suffix != ".txt" and is_markdown(text)):
        return read_markdown(text)
    return read_plain(text)


def _cards(blocks: Iterable[Block]) -> Iterator[Card]:
    """Blocks that say nothing (a row of pictures) stay with a neighbour of the same speaker."""
    for _, turn in groupby(blocks, key=lambda block: block.speaker):
        for block in _saying(turn):
            for text, following in pairwise(chain(_grouped(block), [None])):
                assert text is not None, "only the last has nothing behind it"
                yield Card(text, block.speaker, block.pause if following is None else SENTENCE_PAUSE)


def _saying(blocks: Iterable[Block]) -> Iterator[Block]:
    together: list[Block] = []
    said: Block | None = None  # of those
    for block in blocks:
        if not is_spoken(block.text):
            together.append(block)
        elif said is None:  # what came before it waited for the first that says something
            together, said = [replace(block, text=_joined([*together, block]))], block
        else:
            yield _with_silent(said, together)
            together, said = [block], block
    if said is not None:
        yield _with_silent(said, together)


def _with_silent(said: Block, together: list[Block]) -> Block:
    """A block and those behind it that say nothing."""
    return replace(said, text=_joined(together), pause=max(block.pause for block in together))


def _joined(blocks: Iterable[Block]) -> str:
    return " ".join(block.text for block in blocks)


def _grouped(block: Block) -> Iterator[str]:
    """A block's sentences in groups; what says nothing stays with what it follows."""
    text = block.text
    if block.whole and _fits(text, _HUGE):
        yield text
        return
    group: list[Span] = []
    for span in _pieces(text):
        if group and not _joins(text, group, span):
            yield text[group[0][0] : group[-1][1]].strip()
            group = []
        group.append(span)
    if group:
        yield text[group[0][0] : group[-1][1]].strip()


def _pieces(text: str) -> Iterator[Span]:
    """Sentences, and the parts of huge ones."""
    for start, end in sentences(text, (0, len(text))):
        if _fits(text[start:end].strip(), _HUGE):
            yield start, end
            continue
        for part in split_to_fit(text[start:end], _fits, whole_text=False):
            begin = text.index(part, start)
            start = begin + len(part)
            yield begin, start


def _joins(text: str, group: list[Span], span: Span) -> bool:
    begin, end = group[0][0], span[1]
    if not is_spoken(text[slice(*span)]) or not is_spoken(text[begin : group[-1][1]]):
        return True
    return len(group) < _SENTENCES and _fits(text[begin:end].strip())


def _fits(text: str, factor: float = 1.0) -> bool:
    return len(text) <= _SURE or (len(text) <= factor * _CHARACTERS and speaking_time(text) <= factor * _SECONDS)
