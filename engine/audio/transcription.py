"""Transcription of clips by faster-whisper, an optional package.

Source: faster-whisper, https://github.com/SYSTRAN/faster-whisper (`pip install -r requirements-extra.txt`).
"""

import importlib
import importlib.util
import threading
from functools import cache
from typing import Any

from engine.audio import decode_audio
from engine.audio.decode import Source
from engine.errors import EngineFailed, first_line

_RATE = 16_000  # Hz, of its input
MODEL = "small"  # 240 M parameters: good in many languages, at about real time on a laptop
_running = threading.Lock()  # one clip at a time: each would take all cores


def can_transcribe() -> bool:
    """Whether faster-whisper is installed. It is not loaded."""
    return importlib.util.find_spec("faster_whisper") is not None


def transcribe(source: Source) -> str:
    """Transcribe a clip in any language; "" where it has no words.

    The first call downloads the model. Thread-safe.

    Args:
        source: the bytes of an audio file, or its path.
    Raises UnusableReference for a file that cannot be decoded, EngineFailed without faster-whisper or its model.
    """
    if not can_transcribe():
        raise EngineFailed("engine.no_transcriber")
    heard = decode_audio(source, _RATE).numpy()
    try:
        with _running:
            segments, _ = _model().transcribe(heard, beam_size=5)
            return " ".join(str(segment.text).strip() for segment in segments).strip()
    except Exception as error:  # the package has no error class
        raise EngineFailed("engine.not_transcribed", why=first_line(error)) from error


@cache
def _model() -> Any:
    return importlib.import_module("faster_whisper").WhisperModel(MODEL, device="auto", compute_type="auto")
