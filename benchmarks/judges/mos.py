"""Opinion scores of listeners, estimated by DNSMOS (Reddy et al., 2021 and 2022; package `speechmos`, MIT).

The networks were trained on what people answered who heard degraded and enhanced speech, so they know buzz, roughness
and noise. A score is from 1 (bad) to 5 (excellent); it says more about sounds of one kind than about different kinds.
Silence has 2.5 for its signal: look at the level, too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.judges.sound import at_rate

RATE = 16_000  # Hz


@dataclass(frozen=True)
class OpinionScores:
    """Mean opinion scores, 1 to 5.

    signal: of the speech itself, without its background, and overall: of both (ITU-T P.835). p808: of the whole by
    another network, trained on listeners who gave one answer (ITU-T P.808).
    """

    signal: float
    overall: float
    p808: float


def opinion_scores(samples: NDArray[np.float32], sample_rate: int) -> OpinionScores:
    """Estimate the scores of mono samples [n] at `sample_rate` Hz. Short sounds are repeated up to nine seconds.

    Raises ValueError for no samples.
    """
    from speechmos import dnsmos  # imports librosa

    if not len(samples):
        raise ValueError("there is no sound to score")
    wave = at_rate(samples, sample_rate, RATE).clamp(-1, 1).numpy()
    found = dnsmos.run(wave, RATE)
    return OpinionScores(float(found["sig_mos"]), float(found["ovrl_mos"]), float(found["p808_mos"]))
