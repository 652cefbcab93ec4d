"""Text → the cards of a script: one to three sentences each, spoken and repeated separately."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice, pairwise
from pathlib import PurePath

import regex

from engine.errors import InvalidText
from engine.text.clean import with_plain_line_ends
from engine.text.cuts import split_to_fit
from engine.text.sentences import Span, sentences
from engine.text.ssml import plain_text
from engine.text.tags import is_speakable
from engine.text.timing import speaking_time
from storage.repositories.folding import fold_case
from storage.scripts.limits import MAX_AUTHOR, MAX_CARD_TEXT, MAX_CARDS, MAX_SCRIPT_NAME
from studio.script.formats.card_marks import join_lone_marks, read_marks
from studio.script.formats.decode import checked_text, decode_text
from studio.script.formats.document import (
    PARAGRAPH_PAUSE,
    SENTENCE_PAUSE,
    Document,
    Paragraph,
    too_many_cards,
)
from studio.script.formats.markdown import is_markdown, read_markdown
from studio.script.formats.plain import read_plain
from studio.script.formats.subtitle_reader import is_subtitles, read_subtitles
from studio.script.formats.table import is_table, read_table

_SENTENCES = 3  # of a card
_CHARACTERS = 200
_SECONDS = 16.0  # of speech; writing systems differ in speech per character
_ALWAYS_FITS = 32  # characters; none takes longer than half a second
_TOLERANCE = 1.5  # a sentence is cut only if it is longer than a card by this factor

_NO_CHARACTER = regex.compile(r"[\p{Cs}\p{Co}\p{Noncharacter_Code_Point}\ufeff]|[^\P{Cc}\n\t]")
_LONG_SPACE = regex.compile(r"[^\S\n]{5,}")


@dataclass(frozen=True)
class Card:
    """A text to be spoken at once, as its author wrote it. speaker: None for the narrator. pause: seconds after it.

    ends_paragraph: whether its pause follows the script's paragraph pause. speed: of its takes, at the same pitch.
    chapter: title of the chapter that begins with it.
    """

    text: str
    speaker: str | None = None
    pause: float = SENTENCE_PAUSE
    ends_paragraph: bool = False
    speed: float = 1.0
    chapter: str | None = None


@dataclass(frozen=True)
class Script:
    """The cards of a text.

    cards: at least one; together they have every word except `omitted`, the speakers' names, and times beside them.
    omitted: source text that is not read aloud, such as code and link addresses; it is shown to the author.
    paragraph_pause: seconds after paragraphs. title, author: as the text names them, or "".
    """

    cards: tuple[Card, ...]
    omitted: tuple[str, ...] = ()
    paragraph_pause: float = PARAGRAPH_PAUSE
    title: str = ""
    author: str = ""

    @property
    def speakers(self) -> tuple[str, ...]:
        """All named speakers, in the order in which they first speak."""
        return tuple(dict.fromkeys(card.speaker for card in self.cards if card.speaker is not None))


def parse_file(data: bytes, name: str) -> Script:
    """Split an uploaded text file into cards. The suffix of its name (.txt, .md, .srt, .vtt, .csv, .tsv) selects the
    format.

    Raises InvalidText for a file that is not text, is too long, or has no words.
    """
    return parse(decode_text(data), name)


def parse(text: str, name: str = "", *, speed: float = 1.0) -> Script:
    """Split a text, which may have SSML, into cards. Without a known suffix the format is detected: a table, subtitles,
    Markdown or plain text.

    speed: of cards whose text sets none.
    Raises InvalidText for a text that is too long or has no words.
    """
    text, suffix = checked_text(text), PurePath(name).suffix.lower()
    if suffix in (".csv", ".tsv") or (not suffix and is_table(text)):
        return cards_of(read_table(text), speed)
    text = plain_text(_NO_CHARACTER.sub("", with_plain_line_ends(text)))
    return cards_of(_read(_LONG_SPACE.sub("    ", text), suffix), speed)


def cards_of(document: Document, speed: float = 1.0) -> Script:
    """Split a document into cards. speed: of cards whose text sets none.

    Raises InvalidText if it has no words or too many cards.
    """
    paragraphs = (replace(_storable(paragraph), speed=speed) for paragraph in document.paragraphs)
    passages = _saved(paragraphs) if document.is_saved else _passages(_with_one_spelling(paragraphs))
    made = (card for passage in passages for card in _cards_of(*passage, document.paragraph_pause))
    cards = tuple(islice(made, MAX_CARDS + 1))
    if not cards:
        raise InvalidText("cards.no_words")
    if len(cards) > MAX_CARDS:
        raise too_many_cards()
    omitted = tuple(_NO_CHARACTER.sub("", text) for text in document.omitted)
    title, author = (" ".join(_NO_CHARACTER.sub("", text).split()) for text in (document.title, document.author))
    return Script(
        cards,
        omitted,
        document.paragraph_pause,
        title=title[:MAX_SCRIPT_NAME].strip(),
        author=author[:MAX_AUTHOR].strip(),
    )


def _storable(paragraph: Paragraph) -> Paragraph:
    """Remove control characters, which references such as `&#1;` stand for."""
    speaker = _NO_CHARACTER.sub("", paragraph.speaker or "").strip()
    return replace(paragraph, text=_NO_CHARACTER.sub("", paragraph.text), speaker=speaker or None)


def _with_one_spelling(paragraphs: Iterable[Paragraph]) -> Iterator[Paragraph]:
    """Yield paragraphs with each speaker's name as it is first written: "ANNA" and "Anna" are the same speaker."""
    first: dict[str, str] = {}
    for paragraph in paragraphs:
        name = paragraph.speaker
        yield paragraph if name is None else replace(paragraph, speaker=first.setdefault(fold_case(name), name))


def _read(text: str, suffix: str) -> Document:
    if suffix in (".srt", ".vtt") or (suffix not in (".txt", ".md", ".markdown") and is_subtitles(text)):
        return read_subtitles(text)
    if suffix in (".md", ".markdown") or (suffix != ".txt" and is_markdown(text)):
        return read_markdown(text)
    return read_plain(text)


def _passages(paragraphs: Iterable[Paragraph]) -> Iterator[tuple[Paragraph, Iterable[str]]]:
    """Yield paragraphs with the texts of their cards. One without words joins a neighbour of the same speaker."""
    marked = _with_next_speaker(map(read_marks, join_lone_marks(paragraphs)))
    for _, same_speaker in groupby(marked, key=lambda paragraph: paragraph.speaker):
        for paragraph in _spoken(same_speaker):
            yield paragraph, _groups(paragraph)


def _with_next_speaker(paragraphs: Iterable[Paragraph]) -> Iterator[Paragraph]:
    """Give the beginning of a chapter, if it has no words, the speaker of what follows it."""
    for paragraph, following in pairwise(chain(paragraphs, [None])):
        assert paragraph is not None, "only the last element is None"
        if following is not None and paragraph.chapter and not is_speakable(paragraph.text):
            paragraph = replace(paragraph, speaker=following.speaker)
        yield paragraph


def _saved(paragraphs: Iterable[Paragraph]) -> Iterator[tuple[Paragraph, Iterable[str]]]:
    """Yield the paragraphs of a saved script, each of which is the text of a card unless it is too long."""
    for paragraph in map(read_marks, (paragraph for paragraph in paragraphs if paragraph.text.strip())):
        yield paragraph, [paragraph.text] if len(paragraph.text) <= MAX_CARD_TEXT else _groups(paragraph)


def _cards_of(paragraph: Paragraph, texts: Iterable[str], paragraph_pause: float) -> Iterator[Card]:
    ends = paragraph.pause == paragraph_pause and not paragraph.has_own_pause
    chapter = paragraph.chapter
    for text, following in pairwise(chain(texts, [None])):
        assert text is not None, "only the last element is None"
        is_last = following is None
        pause = paragraph.pause if is_last else SENTENCE_PAUSE
        yield Card(text, paragraph.speaker, pause, is_last and ends, paragraph.speed, chapter)
        chapter = None


def _spoken(paragraphs: Iterable[Paragraph]) -> Iterator[Paragraph]:
    """Join paragraphs without words to the paragraph before them; at the beginning of a chapter, to the first with
    words.
    """
    group: list[Paragraph] = []
    spoken: Paragraph | None = None  # the one with words in the group
    for paragraph in paragraphs:
        has_words = is_speakable(paragraph.text)
        if spoken is not None and (has_words or paragraph.chapter):
            yield _merged(spoken, group)
            group, spoken = [], None
        group.append(paragraph)
        if has_words:
            spoken = paragraph
    if spoken is not None:
        yield _merged(spoken, group)


def _merged(spoken: Paragraph, group: list[Paragraph]) -> Paragraph:
    chapter = spoken.chapter or next((paragraph.chapter for paragraph in group if paragraph.chapter), None)
    return replace(spoken, text=_joined(group), pause=max(paragraph.pause for paragraph in group), chapter=chapter)


def _joined(paragraphs: Iterable[Paragraph]) -> str:
    return " ".join(paragraph.text for paragraph in paragraphs)


def _groups(paragraph: Paragraph) -> Iterator[str]:
    """Yield a paragraph's sentences in groups of one card; sentences without words join those before them.

    Text without words that does not fit into a card, such as thousands of dots, is left out.
    """
    text = paragraph.text
    if paragraph.whole and _fits(text, _TOLERANCE):
        yield text
        return
    for group in _grouped(text):
        card = text[group[0][0] : group[-1][1]].strip()
        if is_speakable(card):
            yield card


def _grouped(text: str) -> Iterator[list[Span]]:
    """Yield the spans of each card, and of text without words that has no place in one."""
    group: list[Span] = []
    for span in _spans(text):
        if group and not _joins(text, group, span):
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _spans(text: str) -> Iterator[Span]:
    """Yield the spans of sentences, and of the parts of very long ones."""
    for start, end in sentences(text, (0, len(text))):
        if _fits(text[start:end].strip(), _TOLERANCE):
            yield start, end
            continue
        for part in split_to_fit(text[start:end], _fits, whole_text=False):
            begin = text.index(part, start)
            start = begin + len(part)
            for first in range(begin, start, MAX_CARD_TEXT):  # a letter may have any number of accents
                yield first, min(first + MAX_CARD_TEXT, start)


def _joins(text: str, group: list[Span], span: Span) -> bool:
    begin, end = group[0][0], span[1]
    if not is_speakable(text[slice(*span)]) or not is_speakable(text[begin : group[-1][1]]):
        return end - begin <= MAX_CARD_TEXT
    return len(group) < _SENTENCES and _fits(text[begin:end].strip())


def _fits(text: str, factor: float = 1.0) -> bool:
    return len(text) <= _ALWAYS_FITS or (len(text) <= factor * _CHARACTERS and speaking_time(text) <= factor * _SECONDS)
