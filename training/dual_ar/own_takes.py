"""The dual AR's own takes of training texts in training voices, to learn from, and how a model learns from them.

Shapes: K codebooks, T frames.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from engine.engine import Engine
from engine.options import MAX_SEED, SpeakOptions
from engine.text.english.pronunciation import Lexicon, only_phones
from engine.voice import Reference, Voice
from training.dual_ar.conversations import LEAST_UTTERANCES, EncodedUtterance
from training.dual_ar.encode import CodeFormat, read_codes
from training.dual_ar.model import DualAR
from training.schedule import warmup_cosine
from training.speech.corpus import Corpus
from training.speech.lexicon import LEXICON
from training.work import TrainingError

_Spoken = tuple[str, EncodedUtterance]  # text and codes
_Asked = tuple[EncodedUtterance, Voice, str]  # a reference, as an example and as a voice, and a text
# Numbers of utterances that are joined to a reference, equally likely.
_REFERENCE_PARTS = (1, 2, 2, 3)
_SLOTS = 8  # takes that are spoken at once
_DEGRADED_SHARE = 0.3  # of the references: their codes under recording conditions are used


@dataclass(frozen=True)
class OwnTake:
    """One take of a text in the voice of a reference. utterance: its phones and codes."""

    reference: EncodedUtterance
    utterance: EncodedUtterance

    @property
    def phones(self) -> list[str]:
        """The phones alone, without the marks between them."""
        return only_phones(self.utterance.phones)


class TakeSampler:
    """Draws voices and texts from the encoded training speech of a folder, and lets an engine speak them.

    codes: the folder of the codes.
    """

    def __init__(self, work: Path, speakers: Collection[int] | None = None) -> None:
        """Use the speech of these speakers, or of all. Raises TrainingError when the folder has none with codes."""
        corpus, self.codes = Corpus.load(work / "data"), work / "codes"
        self._lexicon = Lexicon.load(LEXICON)
        self._by_speaker: dict[int, list[_Spoken]] = defaultdict(list)
        for path in sorted(self.codes.glob("codes-*-0.npz")):
            utterances = corpus.of_shard(int(path.stem.split("-")[1]))
            for utterance, (coded, held_out) in zip(utterances, read_codes(path), strict=True):
                if not held_out and (speakers is None or utterance.speaker in speakers):
                    self._by_speaker[utterance.speaker].append((utterance.text, coded))
        self._speakers = [speaker for speaker, own in self._by_speaker.items() if len(own) >= LEAST_UTTERANCES]
        self._texts = [text for speaker in self._speakers for text, _ in self._by_speaker[speaker]]
        if not self._texts:
            raise TrainingError(f"No speaker has {LEAST_UTTERANCES} encoded utterances for training in {self.codes}.")

    def spoken_by(self, release: Path, device: str, takes: int, seed: int) -> tuple[list[OwnTake], float]:
        """Return what `sample` yields for the engine of a release, and the temperature of the takes.

        Raises TrainingError when the release has another codec than the speech.
        """
        engine = Engine.load(release, device, slots=_SLOTS)
        try:
            CodeFormat.load(self.codes).check(self.codes, engine.info.codec_fingerprint, release)
            return list(self.sample(engine, takes, seed)), engine.info.default_options.temperature
        finally:
            engine.close()

    def sample(self, engine: Engine, takes: int, seed: int) -> Iterator[OwnTake]:
        """Yield `takes` takes, less those of texts that the engine divides.

        Raises the errors of `Engine.speak`.
        """
        rng = random.Random(seed)
        asked = [(*self._draw_voice(rng, engine), rng.choice(self._texts)) for _ in range(takes)]
        seeds = [rng.randrange(MAX_SEED) for _ in asked]
        with ThreadPoolExecutor(engine.info.slots) as pool:
            spoken = pool.map(partial(self._speak, engine), asked, seeds)
            yield from (take for take in spoken if take is not None)

    def _draw_voice(self, rng: random.Random, engine: Engine) -> tuple[EncodedUtterance, Voice]:
        """Draw some utterances of one speaker, as a reference in an example and as a voice.

        All speakers are equally likely, because the voices that are cloned later are others.
        """
        speaker = rng.choice(self._speakers)
        parts = rng.sample(self._by_speaker[speaker], rng.choice(_REFERENCE_PARTS))
        transcript, degraded = " ".join(text for text, _ in parts), rng.random() < _DEGRADED_SHARE
        utterances = [coded.as_recorded() if degraded else coded for _, coded in parts]
        codes = np.concatenate([each.codes for each in utterances], axis=1)
        clip = Reference(transcript, codes, b"", engine.info.sample_rate, codes.shape[1] / engine.info.frame_rate)
        voice = Voice(f"speaker {speaker}", (clip,), engine.info.codec_fingerprint)
        return _without_times(speaker, self._lexicon.phones(transcript), codes), voice

    def _speak(self, engine: Engine, asked: _Asked, seed: int) -> OwnTake | None:
        """Speak a text; None when the engine divides it."""
        reference, voice, text = asked
        speech = engine.speak(text, voice, SpeakOptions(seed=seed))
        for _ in speech:
            pass  # only the codes are needed
        if len(speech.spoken) != 1:
            return None
        codes = speech.spoken[0].codes.astype(np.int16)
        return OwnTake(reference, _without_times(reference.speaker, self._lexicon.phones(text), codes))


def similar_batches(lengths: Sequence[int], positions: int, rng: random.Random) -> list[list[int]]:
    """Divide examples with these numbers of positions into batches of similar length, in random order.

    positions: maximum of a batch with its padding. Returns the examples' indices.
    """
    batches: list[list[int]] = [[]]
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], rng.random())):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[i] > positions:
            batches.append([])
        batches[-1].append(i)
    rng.shuffle(batches)
    return batches


@dataclass(frozen=True)
class TakeRates:
    """Learning rates of Slow AR and Fast AR for a model that learns from takes, at their peak.

    warmup_steps: steps until then. final: fraction of the rates at the end. clip_gradient: largest norm.
    """

    slow: float
    fast: float
    warmup_steps: int
    final: float
    clip_gradient: float


class TakeOptimiser:
    """The optimiser of a model that learns from takes for some steps."""

    def __init__(self, model: DualAR, rates: TakeRates, steps: int) -> None:
        self._model, self._rates, self._steps, self._step = model, rates, steps, 0
        stacks = (model.slow, rates.slow), (model.fast, rates.fast)
        self._adam = torch.optim.AdamW(
            [{"params": list(stack.parameters()), "peak": peak} for stack, peak in stacks],
            betas=(0.9, 0.98),
            weight_decay=0.0,
        )

    def minimise(self, loss: torch.Tensor) -> None:
        """Do one step."""
        rates = self._rates
        rate = warmup_cosine(self._step, rates.warmup_steps, self._step / self._steps, rates.final)
        for group in self._adam.param_groups:
            group["lr"] = rate * group["peak"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), rates.clip_gradient)
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        self._step += 1


def _without_times(speaker: int, phones: str, codes: NDArray[np.int16]) -> EncodedUtterance:
    """Return an utterance of which it is unknown when each phone is spoken, for examples without a guide loss."""
    return EncodedUtterance(speaker, phones, codes, np.zeros(codes.shape[1], dtype=np.int16))
