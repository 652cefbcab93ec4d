"""Forced alignment of known phones by the phone recogniser (CTC segmentation, Kürzinger et al., 2020)."""

from collections.abc import Sequence

import numpy as np
import torch
import torchaudio.functional as AF
from numpy.typing import NDArray
from torch import Tensor

from engine.text.english.pronunciation import PHONES
from training.recogniser.model import BLANK, FRAME_SECONDS, RATE, WEIGHTS, LogMel, Recogniser

_MIN_LOG_PROB = -2.5  # mean log-probability of the phones below which the speech has other phones


class Aligner:
    """Aligner of phones for teachers that do not report phone times."""

    def __init__(self) -> None:
        self._model, self._mel = Recogniser.load(WEIGHTS), LogMel()

    @torch.inference_mode()
    def segments(self, samples: NDArray[np.float32], sample_rate: int, phones: list[str]) -> list[tuple[str, float]]:
        """Align `phones` to mono samples [n] in [-1, 1]. Return (phone, end in seconds), with `pau` at both ends.

        The list is empty when the speech is too short for the phones or has other phones.
        """
        wave = AF.resample(torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32)), sample_rate, RATE)
        found = _best_path(self._model(self._mel(wave)[None]).log_softmax(-1), phones)
        if found is None:
            return []
        labels, log_probs = found
        spans = AF.merge_tokens(labels, log_probs.exp(), blank=BLANK)
        if float(np.mean([np.log(max(span.score, 1e-9)) for span in spans])) < _MIN_LOG_PROB:
            return []
        return _with_ends(phones, [span.start for span in spans], spans[-1].end, len(labels))


def _best_path(log_probs: Tensor, phones: Sequence[str]) -> tuple[Tensor, Tensor] | None:
    """Find the likeliest path of `phones` through the recogniser's log-probabilities `[1, T, 41]`.

    Returns: its labels and their log-probabilities, both `[T]`; None when the speech is too short for the phones, or
    there are none.
    """
    wanted = torch.tensor([[PHONES.index(phone) for phone in phones]])
    repeated = int((wanted[0, 1:] == wanted[0, :-1]).sum())
    if not phones or log_probs.shape[1] < wanted.shape[1] + repeated:
        return None
    labels, found = AF.forced_align(log_probs, wanted, blank=BLANK)
    return labels[0], found[0]


def _with_ends(phones: list[str], starts: list[int], last: int, frames: int) -> list[tuple[str, float]]:
    """Convert CTC spans to phone ends. A phone lasts from one frame before its span to the start of the next phone."""
    begins = [max(0, start - 1) * FRAME_SECONDS for start in starts]
    ends = [*begins[1:], min(frames, last + 2) * FRAME_SECONDS]
    return [("pau", begins[0]), *zip(phones, ends, strict=True), ("pau", frames * FRAME_SECONDS)]
