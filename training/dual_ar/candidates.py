"""Candidates for policy optimisation: several takes of one text in one voice, and how clear each of their phones is.

Shapes: K codebooks, T frames, P phones.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import torchaudio.functional as AF
from numpy.typing import NDArray

from engine.engine import MAX_SEED, Engine, SpeakOptions
from engine.release.hub import BUNDLED
from engine.text.english.pronunciation import PHONES, Lexicon
from engine.text.tokenizer import LEXICON_FILE
from engine.voice import Reference, Voice
from training.dual_ar.conversations import LEAST_UTTERANCES, EncodedUtterance
from training.dual_ar.encode import read_codes
from training.recogniser.alignment import Aligner, best_path
from training.recogniser.model import BLANK, FRAME_SECONDS
from training.speech.corpus import Corpus
from training.whole_take import whole_take
from training.work import TrainingError

_Spoken = tuple[str, EncodedUtterance]  # text and codes
# Numbers of utterances that are joined to a reference, equally likely.
_REFERENCE_PARTS = (1, 2, 2, 3)
_DEGRADED_SHARE = 0.3  # of the references: their codes under recording conditions are used


@dataclass(frozen=True)
class Clarity:
    """How clear the phones of a text are to the phone recogniser.

    error: negative log-likelihood of the text per phone, of CTC, in nats. phones: fp32 `[P]`, for each phone the
    log-probability of the best path since the end of the phone before it. ends: of these stretches, seconds `[P]`.
    """

    error: float
    phones: NDArray[np.float32]
    ends: NDArray[np.float32]


class ClarityJudge:
    """The frozen phone recogniser of the benchmarks and of the codec's training."""

    def __init__(self) -> None:
        self._aligner = Aligner()

    @torch.inference_mode()
    def judge(self, samples: NDArray[np.float32], sample_rate: int, phones: list[str]) -> Clarity | None:
        """Judge mono samples [n] that should contain the phones; None when they are too short for them."""
        log_probs = self._aligner.log_probs(samples, sample_rate)
        found = best_path(log_probs, phones)
        if found is None:
            return None
        labels, on_path = found
        ends = np.array([span.end for span in AF.merge_tokens(labels, on_path, blank=BLANK)])
        ends[-1] = len(labels)
        sums = np.concatenate([[0.0], np.cumsum(on_path.numpy())])[np.concatenate([[0], ends])]
        wanted = torch.tensor([[PHONES.index(phone) for phone in phones]])
        lengths = torch.tensor([len(labels)]), torch.tensor([len(phones)])
        error = F.ctc_loss(log_probs.transpose(0, 1), wanted, *lengths, blank=BLANK, reduction="sum")
        return Clarity(
            float(error) / len(phones), np.diff(sums).astype(np.float32), (ends * FRAME_SECONDS).astype(np.float32)
        )


@dataclass(frozen=True)
class Candidate:
    """One take. codes: `[K, T]`. ended: whether the model ended it by itself."""

    codes: NDArray[np.int16]
    ended: bool
    clarity: Clarity


@dataclass(frozen=True)
class Group:
    """Candidates of one text, as phones, in the voice of one reference."""

    reference: EncodedUtterance
    phones: str
    candidates: list[Candidate]


class CandidateSampler:
    """Draws voices and texts from the encoded training speech of a folder, and lets an engine speak them.

    codes: the folder of the codes.
    """

    def __init__(self, work: Path, candidates: int) -> None:
        """candidates: the number of takes of each text.

        Raises TrainingError when the folder has no training speech with codes.
        """
        corpus, self.codes = Corpus.load(work / "data"), work / "codes"
        self._count, self._judge, self._lexicon = candidates, ClarityJudge(), Lexicon.load(BUNDLED / LEXICON_FILE)
        self._by_speaker: dict[int, list[_Spoken]] = defaultdict(list)
        for path in sorted(self.codes.glob("codes-*-0.npz")):
            utterances = corpus.of_shard(int(path.stem.split("-")[1]))
            for utterance, (coded, held_out) in zip(utterances, read_codes(path), strict=True):
                if not held_out:
                    self._by_speaker[utterance.speaker].append((utterance.text, coded))
        # A speaker is drawn as often as it speaks: sample voices often, where they have most of the speech.
        self._speech = [spoken for own in self._by_speaker.values() if len(own) >= LEAST_UTTERANCES for spoken in own]
        if not self._speech:
            raise TrainingError(f"No speaker has {LEAST_UTTERANCES} encoded utterances for training in {self.codes}.")

    def sample(self, engine: Engine, texts: int, seed: int) -> Iterator[Group]:
        """Yield a group for each of `texts` texts, except those of which fewer than two takes can be judged.

        Raises the errors of `Engine.speak`.
        """
        rng = random.Random(seed)
        drawn = [(self._draw_voice(rng, engine), rng.choice(self._speech)[0]) for _ in range(texts)]
        seeds = [rng.randrange(MAX_SEED) for _ in range(texts * self._count)]
        with ThreadPoolExecutor(self._count) as pool:
            asked = ((voice, text) for (_, voice), text in drawn for _ in range(self._count))
            takes = pool.map(lambda ask, seed: self._take(engine, ask[0], ask[1], seed), asked, seeds)
            for (reference, _), text in drawn:
                candidates = [take for take in islice(takes, self._count) if take is not None]
                if len(candidates) > 1:
                    yield Group(reference, self._lexicon.phones(text), candidates)

    def _draw_voice(self, rng: random.Random, engine: Engine) -> tuple[EncodedUtterance, Voice]:
        """Draw some utterances of one speaker, as a reference in an example and as a voice."""
        _, spoken = rng.choice(self._speech)
        parts = rng.sample(self._by_speaker[spoken.speaker], rng.choice(_REFERENCE_PARTS))
        transcript, degraded = " ".join(text for text, _ in parts), rng.random() < _DEGRADED_SHARE
        utterances = [coded.as_recorded() if degraded else coded for _, coded in parts]
        codes = np.concatenate([each.codes for each in utterances], axis=1)
        clip = Reference(transcript, codes, b"", engine.sample_rate, codes.shape[1] / engine.frame_rate)
        voice = Voice(f"speaker {spoken.speaker}", (clip,), engine.codec_fingerprint)
        return without_times(spoken.speaker, self._lexicon.phones(transcript), codes), voice

    def _take(self, engine: Engine, voice: Voice, text: str, seed: int) -> Candidate | None:
        """Speak a text; None when the engine divides it, or when the take cannot be judged."""
        speech = engine.speak(text, voice, SpeakOptions(seed=seed))
        whole = whole_take(speech)
        if len(speech.spoken) != 1:
            return None
        (spoken,) = speech.spoken
        phones = [token for token in self._lexicon.phones(text).split() if token in PHONES]
        clarity = self._judge.judge(whole, engine.sample_rate, phones)
        if clarity is None:
            return None
        return Candidate(spoken.codes.astype(np.int16), spoken.result.stop_reason == "end", clarity)


def without_times(speaker: int, phones: str, codes: NDArray[np.int16]) -> EncodedUtterance:
    """Return an utterance of which it is unknown when each phone is spoken, for examples without a guide loss."""
    return EncodedUtterance(speaker, phones, codes, np.zeros(codes.shape[1], dtype=np.int16))
