"""Splitting of a whole text into segments, and speaker turns as in the S2 reference."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import regex

from engine.errors import InvalidText
from engine.text.clean import clean_text, join_wrapped, with_plain_line_ends
from engine.text.cuts import written_size
from engine.text.pauses import split_pauses
from engine.text.sentences import ends_sentence
from engine.text.splitting import MAX_BYTES, line_ends_after, split_segments
from engine.text.tags import SPEAKER_TAG, is_speakable, speaker_numbers

MAX_TURNS = 5
_PARAGRAPH_PAUSE = 2  # times the pause of a sentence

_TURN = regex.compile(rf"(?s){SPEAKER_TAG.pattern}.*?(?={SPEAKER_TAG.pattern}|$)")


@dataclass(frozen=True)
class Segment:
    """A piece of text that is spoken as one turn.

    text: as in the prompt, with speaker tags if the whole text has any.
    silence_before, silence_after: seconds of silence around it, in addition to that of the speech itself.
    line_ends: number of line ends after it: one at the end of a line or speaker turn, two at that of a paragraph.
    """

    text: str
    silence_before: float = 0.0
    silence_after: float = 0.0
    line_ends: int = 0

    @property
    def speakers(self) -> tuple[int, ...]:
        """Numbers of all speaker tags in order; empty if the text has none."""
        return speaker_numbers(self.text)


@dataclass(frozen=True)
class Segmentation:
    """Segmentation settings of a model.

    max_bytes, max_sentences: limits of a segment; see `split_segments`. sentence_pause: seconds of silence between two
    segments if the first ends a sentence or a line, in addition to that of the speech itself; twice as long between
    paragraphs. A pause in the text replaces it. max_turns: maximum number of short turns of a dialogue that share a
    segment, unless `max_sentences` is given. size: of a text as the model reads it; see `split_segments`. is_spoken:
    whether the model speaks anything of a text.
    """

    max_bytes: int = MAX_BYTES
    max_sentences: int | None = None
    sentence_pause: float = 0.0
    max_turns: int = MAX_TURNS
    size: Callable[[str], int] = written_size
    is_spoken: Callable[[str], bool] = is_speakable

    def plan(self, text: str, last: Segment | None = None, speaker: str = "") -> list[Segment]:
        """Clean a text and split it, in order, into segments, cut where a reader pauses.

        In text with speaker tags, words before the first tag belong to speaker 0, and every segment has its speaker's
        tag. Turns and segments without anything to speak are dropped; no other text is. A pause (`[pause:0.5]`) ends a
        segment. last: the segment before them, unless a pause followed it. speaker: the tag that applies until the
        first one of the text; "" if none.

        Raises InvalidText if there is nothing to say, or if a pause or all pauses together are too long.
        """
        text = with_plain_line_ends(text)
        planned = self._split(text, last, speaker)
        planned[-1] = replace(planned[-1], line_ends=max(planned[-1].line_ends, line_ends_after(text)))
        return planned

    def _pause_after(self, text: str, line_ends: int) -> float:
        """Return the seconds of silence between a segment and the next one. line_ends: number of them in between."""
        if line_ends > 1:
            return _PARAGRAPH_PAUSE * self.sentence_pause
        return self.sentence_pause if line_ends or ends_sentence(text) else 0.0

    def _split(self, text: str, last: Segment | None, speaker: str) -> list[Segment]:
        """Return the segments of a text, with silence around them."""
        before = 0 if last is None else _line_ends_between(last, text)
        segments: list[Segment] = []
        waiting = 0.0  # seconds of silence before the first segment
        for piece, pause in split_pauses(text):
            tagged = _with_speaker(piece, speaker)
            speaker = last_speaker(tagged)
            try:
                planned = self._split_piece(tagged)
            except InvalidText:  # nothing between two pauses
                planned = []
            for segment in planned:
                silence = self._pause_after(last.text, before) if last else waiting
                segments.append(replace(segment, silence_before=silence))
                last, before, waiting = segment, segment.line_ends, 0.0
            if segments:
                segments[-1] = replace(segments[-1], silence_after=segments[-1].silence_after + pause)
            else:
                waiting += pause
            last = None  # the pause replaces the one between sentences, even if it has no length
        if not segments:
            raise InvalidText("text.no_words")
        return segments

    def _split_piece(self, text: str) -> list[Segment]:
        """Return the segments of a text without pauses."""
        text = clean_text(text)
        if not SPEAKER_TAG.search(text):
            parts = split_segments(text, self.max_bytes, self.max_sentences, self.size)
            return [Segment(piece, line_ends=line_ends) for piece, line_ends in parts if self.is_spoken(piece)]
        if not SPEAKER_TAG.match(text):
            text = f"<|speaker:0|>{text}"
        turns = [self._split_turn(turn) for turn in split_speaker_turns(text)]
        if self.max_sentences is None:
            pieces = [part.text for turn in turns for part in turn]
            batches = batch_turns(filter(self.is_spoken, pieces), self.max_turns, self.max_bytes)
            return [Segment(batch) for batch in batches]
        for turn in filter(None, turns[:-1]):
            turn[-1] = replace(turn[-1], line_ends=1)
        return [part for turn in turns for part in turn if self.is_spoken(part.text)]

    def _split_turn(self, turn: str) -> list[Segment]:
        """Return a turn, or the parts of a long one, each with the tag. A tag without words yields nothing."""
        tag = turn[: turn.index(">") + 1]
        words = turn[len(tag) :].strip()
        if self.max_sentences is None and written_size(turn) <= self.max_bytes and "\n" not in words:
            return [Segment(f"{tag}{words}")] if words else []
        parts = split_segments(words, max(self.max_bytes - len(tag), 1), self.max_sentences, self.size)
        return [Segment(f"{tag}{piece}", line_ends=line_ends) for piece, line_ends in parts]


def _line_ends_between(last: Segment, text: str) -> int:
    """Return the number of line ends between a segment and the text after it: one at the end of a speaker turn, none at
    that of a wrapped line."""
    following = text.lstrip()
    count = last.line_ends + text[: len(text) - len(following)].count("\n")
    if SPEAKER_TAG.match(following):
        return 1
    wrapped = count == 1 and following and len(join_wrapped([last.text, following.split("\n", 1)[0]])) == 1
    return 0 if wrapped else count


def check_speakers(segments: Iterable[Segment], known: int) -> None:
    """Raise InvalidText for a speaker that a voice of `known` speakers does not have; 0 means that any is allowed."""
    highest = max((speaker for segment in segments for speaker in segment.speakers), default=0)
    if known > 1 and highest >= known:
        raise InvalidText("text.few_speakers", speaker=str(highest), last=str(known - 1))
    if known == 1 and highest:
        raise InvalidText("text.no_speaker", speaker=str(highest))


def last_speaker(text: str) -> str:
    """Return the last speaker tag of a text; "" if it has none."""
    tags = SPEAKER_TAG.findall(text)
    return tags[-1] if tags else ""


def _with_speaker(text: str, speaker: str) -> str:
    """Return a text with this tag before it, unless it starts with a tag."""
    return text if SPEAKER_TAG.match(text.lstrip()) else f"{speaker}{text}"


def split_speaker_turns(text: str) -> list[str]:
    """Split text into turns that start with a speaker tag. Drop text before the first tag, as in the S2 reference."""
    return [found[0].strip() for found in _TURN.finditer(text)]


def batch_turns(turns: Iterable[str], max_turns: int, max_bytes: int) -> list[str]:
    """Join turns with newlines, as many as fit into `max_bytes` UTF-8 bytes. A longer turn stays alone."""
    batches: list[list[str]] = []
    for turn in turns:
        if batches and len(batches[-1]) < max_turns and len("\n".join([*batches[-1], turn]).encode()) <= max_bytes:
            batches[-1].append(turn)
        else:
            batches.append([turn])
    return ["\n".join(batch) for batch in batches]
