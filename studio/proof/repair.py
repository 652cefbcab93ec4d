"""Repair of takes: sentences with wrong words are spoken again with other seeds and replaced by the best attempts.

A take is cut in the silence between sentences. Sentences without silence between them, or at unknown positions in the
audio, are replaced together. A text with tags is replaced as a whole, since a tag affects all speech after it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.audio import encode_audio
from engine.errors import EngineBusy
from engine.text import without_pauses
from engine.text.sentences import sentence_spans
from engine.text.tags import SPEAKER_TAG, STYLE_TAG, word_spans
from storage.repositories.takes import NewTake, TimedWord
from studio.takes.settings import REPAIRED
from studio.words.playback_position import sounding, step_samples

if TYPE_CHECKING:
    from storage.repositories.scripts.hearings import Hearing
    from storage.repositories.takes import TakeRecord
    from studio.proof.take_checker import TakeChecker

MAX_ATTEMPTS = 4  # maximum per sentence
_LEAST_SILENCE = 0.05  # seconds
_REACH = 0.15  # seconds before the end of a word and after the start of the next that are searched for silence
_MARGIN = 0.02  # seconds of silence kept at each end of a sentence
_FADE = 0.005  # seconds

Samples = NDArray[np.float32]
SpeakAgain = Callable[[str], NewTake | None]
Repair = Generator[int, None, "tuple[NewTake, Hearing] | None"]


@dataclass(frozen=True)
class Passage:
    """Sentences that are replaced together: characters [start, end) of the text, samples [first, last) of the take."""

    start: int
    end: int
    first: int
    last: int


def repair(
    take: TakeRecord, sound: bytes, heard: Hearing, *, model: str, speak: SpeakAgain, checker: TakeChecker
) -> Repair:
    """Repair a take. Yields the number of each attempt before it begins, 1 to MAX_ATTEMPTS.

    sound: the take's audio, FLAC. heard: the take's hearing. model: the loaded model; a take of another one is spoken
    again as a whole. speak: speaks a text like the take, with another seed; None ends the attempts, as does EngineBusy
    once a passage has improved, and a passage of another model than the take. Returns the repaired take and its
    hearing; None if no attempt is better.
    """
    samples, rate = _decoded(sound)
    whole = Passage(0, len(take.text), 0, len(samples))
    passages = [whole]
    if model == take.model and heard.marks and not _tagged(take.text) and len(list(sentence_spans(take.text))) > 1:
        words = take.words or checker.word_times(take.text, sound)
        found = passages_of(take.text, words, samples, rate)
        passages = found if len(found) > 1 else passages
    errors = {passage: _error(take.text, heard, passage) for passage in passages}
    better: dict[Passage, tuple[NewTake, Hearing]] = {}
    best: tuple[NewTake, Hearing] | None = None
    for attempt in range(1, MAX_ATTEMPTS + 1):
        wrong = [passage for passage, error in errors.items() if error > 0]
        if not wrong:
            break
        yield attempt
        goes_on = _try(take.text, wrong, errors, better, speak, checker, None if passages == [whole] else take.model)
        if better and (attempt == MAX_ATTEMPTS or not goes_on or not any(errors.values())):
            made = better[whole] if passages == [whole] else _heard_joined(take, samples, rate, better, checker)
            if made[1].word_error < (best[1] if best else heard).word_error:
                best = made
            errors = {passage: _error(take.text, made[1], passage) for passage in passages}  # in the joined take
        if not goes_on:
            break
    return best


def _try(
    text: str,
    wrong: Sequence[Passage],
    errors: dict[Passage, float],
    better: dict[Passage, tuple[NewTake, Hearing]],
    speak: SpeakAgain,
    checker: TakeChecker,
    model: str | None,
) -> bool:
    """Speak each wrong passage again and keep the better attempts. Returns whether to continue.

    model: the one that has to speak, because passages are joined; None for any. It may be switched at any time.
    """
    for passage in wrong:
        passage_text = text[passage.start : passage.end]
        try:
            spoken = speak(passage_text)
        except EngineBusy:
            if not better:
                raise
            return False
        if spoken is None or model not in (None, spoken.model):
            return False
        hearing = checker.check(passage_text, spoken.audio)
        if hearing.word_error < errors[passage]:
            errors[passage], better[passage] = hearing.word_error, (spoken, hearing)
    return True


def passages_of(text: str, words: Sequence[TimedWord], samples: Samples, rate: int) -> list[Passage]:
    """Return the passages of a text, in order; none for a text without words or for silence.

    words: the known word times.
    """
    groups = _sentences(text)
    sound = _sound_of(samples, rate)
    if not groups or sound is None:
        return []
    cuts = [(0, sound[0])]
    joined = [groups[0]]
    for left, right in pairwise(groups):
        gap = _silence(left, right, words, samples, rate, within=(cuts[-1][1], sound[1]))
        if gap is None or gap[0] == cuts[-1][1]:  # the rest of the last silence
            joined[-1] = joined[-1][0], right[1]
        else:
            cuts.append(gap)
            joined.append(right)
    cuts.append((sound[1], len(samples)))
    margin = round(_MARGIN * rate)
    return [
        Passage(start, end, max(before[0], before[1] - margin), min(after[1], after[0] + margin))
        for (start, end), before, after in zip(joined, cuts[:-1], cuts[1:], strict=True)
    ]


def _sentences(text: str) -> list[tuple[int, int]]:
    """Return the characters [start, end) of each sentence with words, from its first word to its last."""
    written = word_spans(text)
    found: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        if own := [span for span in written if start <= span[0] < end]:
            found.append((own[0][0], own[-1][1]))
    return found


def _silence(
    left: tuple[int, int],
    right: tuple[int, int],
    words: Sequence[TimedWord],
    samples: Samples,
    rate: int,
    within: tuple[int, int],
) -> tuple[int, int] | None:
    """Return the longest silence between two sentences of the text, as samples [first, last); None if there is none.

    within: the samples [first, last) that are searched, whole steps. Word times may be wrong.
    """
    before = [word for word in words if left[0] <= word.first < left[1]]
    after = [word for word in words if right[0] <= word.first < right[1]]
    if not before or not after:
        return None
    step = step_samples(rate)
    # At most to the middle of each sentence: beyond a short one is the silence at its other end.
    start = max(before[-1].end - _REACH, (before[0].start + before[-1].end) / 2)
    end = min(after[0].start + _REACH, (after[0].start + after[-1].end) / 2)
    first, last = max(within[0], round(start * rate)) // step, min(within[1], round(end * rate)) // step
    quiet = ~sounding(samples[first * step : last * step], rate)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], quiet, [False])).astype(np.int8)))
    runs = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    a, b = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
    if (b - a) * step < _LEAST_SILENCE * rate:
        return None
    return (first + a) * step, (first + b) * step


def _sound_of(samples: Samples, rate: int) -> tuple[int, int] | None:
    """Return the samples [first, last) between the silence at both ends; None if all are silent."""
    steps, size = np.flatnonzero(sounding(samples, rate)), step_samples(rate)
    return (int(steps[0]) * size, (int(steps[-1]) + 1) * size) if len(steps) else None


def _heard_joined(
    take: TakeRecord,
    samples: Samples,
    rate: int,
    better: dict[Passage, tuple[NewTake, Hearing]],
    checker: TakeChecker,
) -> tuple[NewTake, Hearing]:
    joined = _joined(take, samples, rate, {passage: spoken for passage, (spoken, _) in better.items()})
    return joined, checker.check(take.text, joined.audio)


def _joined(take: TakeRecord, samples: Samples, rate: int, exchanged: dict[Passage, NewTake]) -> NewTake:
    """Return the take with new audio for some passages; its length may differ."""
    pieces: list[Samples] = []
    words: list[TimedWord] = []
    at = shift = 0  # samples of the old take that are copied or replaced, and the shift of those after them
    character = 0  # end of that part in the text

    def keep(passage: Passage) -> None:
        """Copy the part before a passage."""
        old = [word for word in take.words if character <= word.first < passage.start]
        words.extend(_moved(word, 0, shift / rate) for word in old)
        pieces.append(samples[at : passage.first])

    for passage, spoken in sorted(exchanged.items(), key=lambda pair: pair[0].first):
        keep(passage)
        new, cut = _trimmed(spoken.audio, rate)
        if take.words:
            words.extend(_moved(word, passage.start, (passage.first + shift - cut) / rate) for word in spoken.words)
        pieces.append(new)
        shift += len(new) - (passage.last - passage.first)
        at, character = passage.last, passage.end
    keep(Passage(len(take.text), len(take.text), len(samples), len(samples)))
    joined = np.concatenate(pieces)
    return NewTake(
        text=take.text,
        audio=encode_audio(joined, rate, "flac"),
        duration=len(joined) / rate,
        seed=take.seed,
        voice_name=take.voice_name,
        voice_id=take.voice_id,
        settings={**take.settings, REPAIRED: _repaired_sentences(take, exchanged)},
        model=take.model,
        words=words,
    )


def _repaired_sentences(take: TakeRecord, exchanged: Iterable[Passage]) -> int:
    """Return the number of a take's sentences that were replaced by this repair and earlier ones, at most all."""
    sentences = _sentences(take.text)
    now = sum(passage.start <= start < passage.end for passage in exchanged for start, _ in sentences)
    before = take.settings.get(REPAIRED)
    return min(len(sentences), now + (before if isinstance(before, int) else 0))


def _trimmed(sound: bytes, rate: int) -> tuple[Samples, int]:
    """Return a file's samples without the silence at both ends, faded in and out, and the number cut at the front."""
    samples, _ = _decoded(sound)
    begin, end = _sound_of(samples, rate) or (0, len(samples))
    margin = round(_MARGIN * rate)
    first = max(0, begin - margin)
    kept = samples[first : end + margin].copy()
    ramp = np.linspace(0, 1, min(round(_FADE * rate), len(kept)), dtype=np.float32)
    kept[: len(ramp)] *= ramp
    kept[len(kept) - len(ramp) :] *= ramp[::-1]
    return kept, first


def _moved(word: TimedWord, characters: int, seconds: float) -> TimedWord:
    start, end = max(0.0, word.start + seconds), max(0.0, word.end + seconds)
    return TimedWord(word.first + characters, word.stop + characters, start, end)


def _error(text: str, heard: Hearing, passage: Passage) -> float:
    """Return the share of a passage's words that were misheard."""
    if (passage.start, passage.end) == (0, len(text)):
        return heard.word_error
    spans = [span for span in word_spans(text) if passage.start <= span[0] < passage.end]
    wrong = {span for span in spans for start, end in heard.marks if start < span[1] and span[0] < end}
    return len(wrong) / len(spans)


def _tagged(text: str) -> bool:
    plain = without_pauses(text)
    return SPEAKER_TAG.search(plain) is not None or STYLE_TAG.search(plain) is not None


def _decoded(sound: bytes) -> tuple[Samples, int]:
    samples, rate = soundfile.read(io.BytesIO(sound), dtype="float32")
    return samples, rate
