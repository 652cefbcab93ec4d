"""Word recognition with CMU Sphinx's US English acoustic model (pocketsphinx, offline, models in the wheel).

Word error rates name the language model that was used: "domain" (bigrams over the kind of sentences that the bundled
model was trained on, without the test sentences) or "general" (the model that comes with pocketsphinx).
"""

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.judges.sound import at_rate
from benchmarks.judges.words import words, write_bigram_model

RATE = 16_000  # Hz, the rate of the acoustic model
_LEVEL = 0.1  # RMS
_LEAD, _TAIL = 3000, 4000  # samples of near-silence around the utterance
_HISS = 1e-4  # noise level that avoids the logarithm of zero in digital silence


class SphinxRecogniser:
    """CMU Sphinx as a word recogniser, without state between utterances. Not thread-safe."""

    def __init__(self, language_model: Path, name: str) -> None:
        from pocketsphinx import Decoder  # needs a compiler for some versions of Python; not every machine has one

        self.name = name
        models = _models()
        self._decoder = Decoder(
            hmm=str(models / "en-us"),
            lm=str(language_model),
            dict=str(models / "cmudict-en-us.dict"),
            loglevel="FATAL",
        )

    @classmethod
    def general(cls) -> "SphinxRecogniser":
        """Return a recogniser with the language model that comes with pocketsphinx."""
        return cls(_models() / "en-us.lm.bin", "general")

    @classmethod
    def domain(cls, sentences: Iterable[str], vocabulary: Iterable[str]) -> "SphinxRecogniser":
        """Return a recogniser with bigrams over `sentences`, for those words of `vocabulary` in the dictionary."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "domain.arpa"
            write_bigram_model(path, sentences, vocabulary)
            return cls(path, "domain")

    def knows(self, word: str) -> bool:
        """Return whether the dictionary has the word; other words cannot be recognised."""
        return self._decoder.lookup_word(word) is not None

    def hear(self, samples: NDArray[np.float32], sample_rate: int) -> str:
        """Recognise the words in mono samples [n] in [-1, 1] at `sample_rate` Hz; "" for none."""
        if len(samples) == 0:
            return ""
        self._decoder.start_utt()
        # Process the whole utterance at once, so that its cepstral mean is not carried over from the previous one.
        self._decoder.process_raw(_prepared(samples, sample_rate), no_search=False, full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return "" if found is None else " ".join(words(re.sub(r"\(\d+\)", "", found.hypstr)))


def _models() -> Path:
    from pocketsphinx import get_model_path

    return Path(get_model_path("en-us"))


def _prepared(samples: NDArray[np.float32], sample_rate: int) -> bytes:
    wave = at_rate(samples, sample_rate, RATE)
    wave = wave * (_LEVEL / (wave.square().mean().sqrt() + 1e-6))
    wave = torch.nn.functional.pad(wave, (_LEAD, _TAIL))
    hiss = np.random.default_rng(0).normal(0.0, _HISS, len(wave)).astype(np.float32)
    pcm = np.clip(wave.numpy() + hiss, -1.0, 1.0) * 32767
    return pcm.astype("<i2").tobytes()
