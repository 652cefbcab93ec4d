"""Transcription of clips with faster-whisper, an optional package.

Source: faster-whisper, https://github.com/SYSTRAN/faster-whisper (`pip install -r requirements-extra.txt`).
"""

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from engine.audio import decode_audio
from engine.audio.decode import Source
from engine.audio.vad import speech_spans
from engine.errors import EngineFailed, InvalidOption, first_line
from engine.files.hub_connection import hub_answers

PACKAGE = "faster-whisper>=1.1,<2"  # as in requirements-extra.txt
PACKAGE_MB = 70  # with the dependencies that Reprise does not have
# Models and their sizes in MB. Smaller models make more errors.
MODELS = {"tiny": 75, "base": 145, "small": 480, "medium": 1_530, "large-v3-turbo": 1_620, "large-v3": 3_090}
MODEL = "small"  # 240 M parameters: good in many languages, at about real time on a laptop
_RATE = 16_000  # Hz of the model's input
_DOUBTED = 0.6  # probability that nobody speaks, Whisper's own threshold
_running = threading.Lock()  # one clip at a time, because each uses all cores


class HeardWord(NamedTuple):
    """A word with its start and end in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class HeardSegment:
    """A passage, as the recogniser divides a clip.

    text: usually with a space before it. start, end: seconds. words: empty unless they were asked for. seek: frame of
    10 ms at which its window of up to 30 s begins. tokens: its tokens, including those of times. temperature: of the
    softmax. avg_logprob, compression_ratio, no_speech_prob: by which Whisper judges it.
    """

    text: str
    start: float
    end: float
    words: tuple[HeardWord, ...]
    seek: int
    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


@dataclass(frozen=True)
class TranscribedClip:
    """A transcribed clip. language: code of the language that was given or detected. duration: seconds of the clip."""

    language: str
    duration: float
    segments: tuple[HeardSegment, ...]

    @property
    def text(self) -> str:
        """The words; "" if there are none."""
        return " ".join(segment.text.strip() for segment in self.segments).strip()

    @property
    def words(self) -> list[HeardWord]:
        """The words of all segments with their times; empty unless they were asked for."""
        return [word for segment in self.segments for word in segment.words]


def can_transcribe() -> bool:
    """Whether faster-whisper is installed. Does not load it."""
    return importlib.util.find_spec("faster_whisper") is not None


def model_is_here(model: str) -> bool:
    """Whether a model is a folder, or was downloaded from the Hub. Does not load it."""
    if model not in MODELS:
        return (Path(model) / "model.bin").is_file()
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(_repository(model), "model.bin"), str)


def check_model(model: str) -> None:
    """Raise InvalidOption unless `model` is one of MODELS or a folder with a CTranslate2 model."""
    if model not in MODELS and not (Path(model) / "model.bin").is_file():
        raise InvalidOption("engine.recogniser_unknown", model=model[:80], known=tuple(MODELS))


def load_model(model: str) -> None:
    """Load a model, downloading it from the Hub if needed. Raises EngineFailed."""
    if not can_transcribe():
        raise EngineFailed("engine.no_transcriber")
    try:
        with _running:
            _model(model)
    except Exception as error:  # the package has no error class
        raise EngineFailed("engine.no_recogniser_model", model=model, why=first_line(error)) from error


def transcribe(source: Source, model: str = MODEL, language: str = "") -> str:
    """Transcribe a clip; return "" if it has no words. Arguments and errors as for `transcript_of`."""
    return transcript_of(source, model, language).text


def transcribe_words(source: Source, model: str = MODEL, language: str = "") -> list[HeardWord]:
    """Transcribe a clip word by word. Arguments and errors as for `transcript_of`."""
    return transcript_of(source, model, language, word_times=True).words


def transcript_of(
    source: Source, model: str = MODEL, language: str = "", *, prompt: str = "", word_times: bool = False
) -> TranscribedClip:
    """Transcribe a clip, with the times of its segments.

    The first call downloads the model. Thread-safe.

    Args:
        source: the bytes of an audio file, or its path.
        model: one of MODELS, or a folder.
        language: code such as "en". It is detected if "" or not supported by the model.
        prompt: text as if spoken before the clip, in whose spelling and style the model goes on, such as names; the
            model reads about the last 220 tokens.
        word_times: whether segments have their words, which takes longer.
    Raises UnusableReference if the file cannot be decoded, EngineFailed without faster-whisper or its model.
    """
    if not can_transcribe():
        raise EngineFailed("engine.no_transcriber")
    samples = decode_audio(source, _RATE).numpy()
    seconds = len(samples) / _RATE
    load_model(model)
    try:
        with _running:
            recogniser = _model(model)
            known = language if language in recogniser.supported_languages else None
            segments, info = recogniser.transcribe(
                samples, beam_size=5, language=known, initial_prompt=prompt or None, word_timestamps=word_times
            )
            found = [_heard(segment, seconds) for segment in segments]
    except Exception as error:
        raise EngineFailed("engine.not_transcribed", why=first_line(error)) from error
    return TranscribedClip(info.language, seconds, tuple(_without_inventions(found, samples)))


def _without_inventions(segments: Sequence[HeardSegment], samples: NDArray[np.float32]) -> list[HeardSegment]:
    """Leave out the words that Whisper invents for silence, clicks and music, such as “Thank you.”: segments in which
    both it and the detector of speech doubt that anyone speaks. samples: [n] at _RATE.
    """
    if all(segment.no_speech_prob <= _DOUBTED for segment in segments):
        return list(segments)
    spans = speech_spans(torch.from_numpy(samples))
    return [
        segment
        for segment in segments
        if segment.no_speech_prob <= _DOUBTED
        or any(start < segment.end and segment.start < end for start, end in spans)
    ]


def _heard(segment: Any, seconds: float) -> HeardSegment:
    """Return a segment of faster-whisper within a clip of so many seconds, since times can be later than its end."""
    words = (
        HeardWord(word.word.strip(), min(word.start, seconds), min(word.end, seconds)) for word in segment.words or ()
    )
    return HeardSegment(
        segment.text,
        min(segment.start, seconds),
        min(segment.end, seconds),
        tuple(words),
        segment.seek,
        tuple(segment.tokens),
        segment.temperature,
        segment.avg_logprob,
        segment.compression_ratio,
        segment.no_speech_prob,
    )


@lru_cache(1)
def _model(model: str) -> Any:
    """Load a model on the CPU, in int8 where the CPU computes in it.

    On a GPU, CTranslate2 needs CUDA 12's cuBLAS while torch installs that of CUDA 13 (SYSTRAN/faster-whisper#1431), and
    its memory would be no part of the engine's plan. The Hub is asked only for a model that is not here, and only if it
    answers: the download itself has no time limit, neither to begin nor to end.
    """
    load = partial(importlib.import_module("faster_whisper").WhisperModel, model, device="cpu", compute_type="auto")
    try:
        return load(local_files_only=True)
    except Exception as error:  # the package has no error class for a model that is missing or incomplete here
        if model in MODELS and not hub_answers(_repository(model)):
            raise ConnectionError("The Hugging Face Hub does not answer.") from error
        return load()


def _repository(model: str) -> str:
    """Return the repository on the Hub from which faster-whisper downloads one of MODELS."""
    owner = "mobiuslabsgmbh" if model == "large-v3-turbo" else "Systran"
    return f"{owner}/faster-whisper-{model}"
