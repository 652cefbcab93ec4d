"""Text that is spoken while it is still being written, for example by a language model."""

from __future__ import annotations

import threading
from collections.abc import Callable

import regex

from engine.errors import InvalidText
from engine.text.cuts import best_end, written_size
from engine.text.pauses import check_total_pause, cut_at_pauses, pause_seconds
from engine.text.respelling import Respelling
from engine.text.segmentation import Segment, Segmentation, last_speaker
from engine.text.sentences import Span, ends_sentence, grapheme_ends, is_clause_end, sentences, word_ends
from engine.text.ssml import SsmlReader
from engine.text.tags import SPEAKER_TAG, is_speakable

MIN_CLAUSE_WORDS = 4  # a shorter clause is spoken together with the next one
_WORD_START = 40  # characters of an unfinished word that are checked with the next piece
_UNCLOSED_TAG = regex.compile(r"(?:\[[^\[\]\n]{0,80}|<(?:\|[a-z:0-9]{0,12}\|?)?)\Z")
_LAST_SPEAKER_TAG = regex.compile(rf"(?:{SPEAKER_TAG.pattern}\s*)++\Z")


class GrowingText:
    """Converts pieces of text to segments: whole sentences if there are any, else clauses.

    A mark ends a sentence if a space follows that is not part of an abbreviation or number ("Mr. ", "3."), if the
    following text confirms it, or when the writer pauses or finishes. The writer calls `append`, `pause` and `finish`;
    the request calls `take`. They may run on different threads.
    """

    def __init__(
        self,
        segmentation: Segmentation | None = None,
        check: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """segmentation: default is S2's. check: raises InvalidText for text that the model cannot speak."""
        self.changed: Callable[[], object] = lambda: None  # called after each change, on the writer's thread
        self.respell: Callable[[str], Respelling] = Respelling.unchanged  # applied to text as it is taken
        self.taken: list[Respelling] = []  # the text of all segments so far
        self.final_pause = 0.0  # seconds of silence after the last segment, of pauses that come after it was taken
        self._segmentation, self._check = segmentation or Segmentation(), check
        self._last: Segment | None = None  # the last segment taken, unless a pause followed it
        self._speaker = ""  # the last speaker tag of the text taken
        self._pause_seconds = 0.0  # of the text taken
        self._lock = threading.Lock()
        self._pending = ""  # without SSML
        self._ssml = SsmlReader()
        self._wordless = 0  # characters of the pending text, known to have no words
        self._characters = 0
        self._paused = self._finished = False

    def __len__(self) -> int:
        """Characters so far."""
        return self._characters

    def append(self, piece: str) -> None:
        """Add a piece, which may begin and end within a word. Raises InvalidText, also if the text is finished."""
        plain = self._ssml.read(piece)
        self._check(self._pending[self._pending.rfind(" ") + 1 :][-_WORD_START:] + plain)
        with self._lock:
            if self._finished:
                raise InvalidText("The text is finished already; begin another one.")
            self._pending += plain
            self._characters += len(piece)
            self._paused = False
        self.changed()

    def pause(self) -> None:
        """Signal that no more text is coming for a while, so that a mark at the end ends its sentence."""
        with self._lock:
            self._paused = True
        self.changed()

    def end_line(self) -> None:
        """End the line here, so that all of the text so far is spoken, whether it ends a sentence or not."""
        with self._lock:
            if self._pending and not self._pending.endswith("\n"):
                self._pending += "\n"
        self.changed()

    def finish(self) -> None:
        """Signal the end of the text."""
        with self._lock:
            self._pending += self._ssml.finish()
            self._finished = True
        self.changed()

    @property
    def over(self) -> bool:
        """Whether no more segments will follow."""
        with self._lock:
            return self._finished and not self._pending

    def take(self) -> list[Segment]:
        """Take the segments that are complete and can be spoken now.

        Text without words, such as a pause, is taken together with the text after it; pauses at the end are the
        `final_pause`. Raises InvalidText if a pause, or all pauses so far together, are too long.
        """
        with self._lock:
            most, paused, finished = self._segmentation.max_bytes, self._paused, self._finished
            start = self._wordless
            end = len(self._pending) if finished else start + speakable_end(self._pending[start:], most, paused=paused)
            if not finished and (tag := _LAST_SPEAKER_TAG.search(self._pending, start, end)):
                end = tag.start()  # it begins the next turn
            text = self._pending[:end]
        if not finished and "[" not in text[start:] and not is_speakable(self.respell(text[start:]).spoken):
            self._wordless = end
            return []
        respelled = self.respell(text)
        spoken = respelled.spoken
        try:
            segments = self._segmentation.plan(spoken, self._last, self._speaker)
        except InvalidText as error:
            if error.message.key != "text.no_words":
                raise
            if not finished:
                self._wordless = end
                return []
            segments = []
        with self._lock:
            self._pending, self._wordless = self._pending[end:], 0
        if not segments:
            self.final_pause += self._count_pauses(spoken)
            return []
        self._count_pauses(spoken)
        after_pauses = cut_at_pauses(spoken)[-1][0]
        self._last = segments[-1] if self._segmentation.is_spoken(after_pauses) else None
        self._speaker = last_speaker(spoken) or self._speaker
        self.taken.append(respelled)
        return segments

    def _count_pauses(self, text: str) -> float:
        """Return the seconds of the pauses in the text taken. Raises InvalidText if all so far are too long."""
        seconds = pause_seconds(text)
        self._pause_seconds += seconds
        check_total_pause(self._pause_seconds)
        return seconds


def speakable_end(text: str, max_bytes: int, *, paused: bool = False) -> int:
    """Return the end of the speakable part of an unfinished text, 0 if there is none.

    This is the end of the last whole line or sentence; else of the last clause that is long enough; else, if the text
    is longer than a segment, where a cut in its second half is least noticeable, or of the last grapheme of an endless
    word. A tag that is not closed yet is not part of it. paused: whether no more text is expected soon.
    """
    whole: Span = (0, len(text))
    written = len(text.rstrip())
    unclosed = _UNCLOSED_TAG.search(text)
    closed = unclosed.start() if unclosed else len(text)
    line = text.rfind("\n") + 1
    ends = [end for _, end in sentences(text, (line, len(text))) if end < written and end <= closed]
    if (paused or written < len(text)) and not unclosed and _is_sentence(text[line:written], paused):
        ends.append(written)
    if ends or line:
        return max([line, *ends])
    words = [end for end in word_ends(text, whole) if end < written and end <= closed]
    clauses = [end for end in words[MIN_CLAUSE_WORDS - 1 :] if is_clause_end(text, end)]
    if clauses:
        return clauses[-1]
    if written_size(text) <= max_bytes:
        return 0
    graphemes = (end for end in grapheme_ends(text, whole) if end < written and end <= closed)
    return best_end(text, closed) or max(graphemes, default=0)


def _is_sentence(line: str, paused: bool) -> bool:
    """Whether a line ends a sentence regardless of what follows. An ellipsis or an abbreviation does not.

    paused: whether no month is expected after the line's last word ("am 5.", "Mon.").
    """
    if not ends_sentence(line) or line.endswith(("…", "..")):
        return False
    # Abbreviations may need a number or a month.
    followed = [f"{line} 3"] if paused else [f"{line} 3", f"{line} August"]
    return all(any(end == len(line) for _, end in sentences(each, (0, len(each)))) for each in followed)
