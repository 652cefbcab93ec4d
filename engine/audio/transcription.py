"""The words of a clip, written down by faster-whisper where somebody has installed it; nothing needs it.

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

_RATE = 16_000  # Hz, that it hears at
MODEL = "small"  # 240 M parameters: good words in many languages, at about the clip's own time on a laptop
_running = threading.Lock()  # one clip at a time: each would take all cores


def can_transcribe() -> bool:
    """Whether faster-whisper is there. It is not loaded for asking."""
    return importlib.util.find_spec("faster_whisper") is not None


def transcribe(source: Source) -> str:
    """The words that are spoken in a clip, in whatever language; "" where there are none.

    The first call downloads the model and takes long. Any number of threads may call.

    Args:
        source: the bytes of an audio file, or its path.
    Raises UnusableReference for what cannot be decoded, EngineFailed where there is no faster-whisper or its model
    cannot be had.
    """
    if not can_transcribe():
        raise EngineFailed("Nothing here can write words down: install faster-whisper, or type them.")
    heard = decode_audio(source, _RATE).numpy()
    try:
        with _running:
            segments, _ = _model().transcribe(heard, beam_size=5)
            return " ".join(str(segment.text).strip() for segment in segments).strip()
    except Exception as error:  # it has no errors of its own
        raise EngineFailed(f"The words could not be written down: {first_line(error)} Type them instead.") from error


@cache
def _model() -> Any:
    return importlib.import_module("faster_whisper").WhisperModel(MODEL, device="auto", compute_type="auto")
