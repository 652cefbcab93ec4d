"""Train the phone recogniser, which aligns phones, is a loss of the codec and part of the dual AR's reward.

    python -m training.recogniser.train --work DIR [--minutes 60] [--epochs 30]

Makes its speech under `DIR/recogniser` (`training/recogniser/speech.py`), and writes the weights to
`benchmarks/data/recogniser.safetensors`, where `benchmarks/judges/phones.py` reads them. The same speech and seed
give the same weights on the same machine.

Versions of the bundled model from 2.2 on were trained with it, so its error rates of them are too low.

The teachers' speech is clean, but a model's speech comes from a codec. Therefore half of the utterances get
recording conditions, all are played faster or slower (speed perturbation), and their spectra are roughened, blurred and
masked, so that codec artefacts do not count as phone errors.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from engine.text.english.pronunciation import PHONES
from training.recogniser.edits import edit_distance
from training.recogniser.model import BLANK, FRAME_SECONDS, RATE, WEIGHTS, LogMel, Recogniser, decode
from training.recogniser.speech import LabelledUtterance, load, make
from training.speech.conditions import degraded
from training.work import DEFAULT_WORK, exit_with_message, positive, positive_int

_BATCH = 12
_RATE, _DECAY = 2e-3, 1e-2
_TIMED = 0.5  # weight of the per-frame phone loss, which helps CTC to align early in training
_IGNORED = -100
_LAST_PHONE = 0.1  # s; assumed length of the last phone, whose end is unknown
_CHECKED = 25  # one utterance in this many is held out for checking
_SLOWEST, _FASTEST = 0.88, 1.14
_STRETCHES = 0.86, 0.93, 1.0, 1.07, 1.14  # frequency factors that simulate other vocal tract lengths


@dataclass(frozen=True)
class Batch:
    """A training batch.

    features: `[B, T, 64]`, padded with 0. frames: output frames of each utterance `[B]`. phones: concatenated. counts:
    phones of each utterance `[B]`. timed: the phone of each output frame `[B, T']`, `_IGNORED` where unknown.
    """

    features: Tensor
    frames: Tensor
    phones: Tensor
    counts: Tensor
    timed: Tensor


class Trainer:
    """The network with its optimiser, and an auxiliary head for per-frame phones that is not saved."""

    def __init__(self, steps: int, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = Recogniser()
        self._timed = nn.Linear(self.model.norm.normalized_shape[0], len(PHONES))
        weights = [*self.model.parameters(), *self._timed.parameters()]
        self._optimiser = torch.optim.AdamW(weights, _RATE, weight_decay=_DECAY)
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(self._optimiser, _RATE, total_steps=steps, pct_start=0.15)

    def step(self, batch: Batch) -> float:
        """Run one training step. Return the loss."""
        self.model.train()
        hidden = self.model.hidden(batch.features)
        chances = self.model.output(hidden).log_softmax(-1).transpose(0, 1)
        spelled = F.ctc_loss(chances, batch.phones, batch.frames, batch.counts, blank=BLANK, zero_infinity=True)
        timed = F.cross_entropy(self._timed(hidden).flatten(0, 1), batch.timed.flatten(), ignore_index=_IGNORED)
        loss = spelled + _TIMED * timed
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimiser.step()
        self._schedule.step()
        return float(loss.detach())


class BatchAugmenter:
    """Converter of utterances to batches, with new random conditions each time."""

    def __init__(self, seed: int = 0) -> None:
        self._mel, self._rng = LogMel(), np.random.default_rng(seed)
        self._stretched = [LogMel(stretch) for stretch in _STRETCHES]

    def batch(self, utterances: Sequence[LabelledUtterance]) -> Batch:
        """Return a batch of utterances under random conditions."""
        disturbed = [self._disturbed(each) for each in utterances]
        return _collated(disturbed, [self._roughened(self._through_any(each)) for each in disturbed])

    def plain(self, utterances: Sequence[LabelledUtterance]) -> Batch:
        """Return a batch of unchanged utterances."""
        return _collated(utterances, [self._mel(torch.from_numpy(each.samples)) for each in utterances])

    def _through_any(self, each: LabelledUtterance) -> Tensor:
        mel: LogMel = self._stretched[self._rng.integers(len(_STRETCHES))]
        features: Tensor = mel(torch.from_numpy(each.samples))
        return features

    def _disturbed(self, each: LabelledUtterance) -> LabelledUtterance:
        pace = self._rng.uniform(_SLOWEST, _FASTEST)
        places = np.arange(0, len(each.samples) - 1, pace)
        samples = np.interp(places, np.arange(len(each.samples)), each.samples).astype(np.float32)
        if self._rng.random() < 0.5:
            samples = degraded(samples, RATE, self._rng)
        return LabelledUtterance(samples, each.phones, (each.starts / pace).astype(np.float32))

    def _roughened(self, features: Tensor) -> Tensor:
        """Simulate vocoder artefacts: noisy and blurred features, with a band and a moment masked."""
        rng, out = self._rng, features
        if rng.random() < 0.5:
            noise = torch.from_numpy(rng.standard_normal(out.shape).astype(np.float32))
            out = out + rng.uniform(0.0, 0.35) * noise
        if rng.random() < 0.3:
            out = F.avg_pool1d(out[:, None], 3, 1, 1, count_include_pad=False)[:, 0]
        if rng.random() < 0.2:
            out = F.avg_pool1d(out.T[:, None], 3, 1, 1, count_include_pad=False)[:, 0].T
        out = out.clone()
        band, moment = rng.integers(0, features.shape[1] - 8), rng.integers(0, max(1, len(features) - 8))
        out[:, band : band + rng.integers(0, 8)] = 0.0
        out[moment : moment + rng.integers(0, 6)] = 0.0
        return out


def _collated(utterances: Sequence[LabelledUtterance], features: list[Tensor]) -> Batch:
    frames = [(len(each) + 1) // 2 for each in features]
    timed = [torch.from_numpy(timed_phones(each, count)) for each, count in zip(utterances, frames, strict=True)]
    return Batch(
        pad_sequence(features, batch_first=True),
        torch.tensor(frames),
        torch.from_numpy(np.concatenate([each.phones for each in utterances])),
        torch.tensor([len(each.phones) for each in utterances]),
        pad_sequence(timed, batch_first=True, padding_value=_IGNORED),
    )


def timed_phones(utterance: LabelledUtterance, frames: int) -> NDArray[np.int64]:
    """Return the phone of each output frame `[frames]`, `_IGNORED` before the first and after the last one."""
    times = np.arange(frames) * FRAME_SECONDS
    places = np.searchsorted(utterance.starts, times, side="right") - 1
    named = utterance.phones[places.clip(0)]
    known = (places >= 0) & (times < utterance.starts[-1] + _LAST_PHONE)
    return np.where(known, named, _IGNORED)


def batches(utterances: Sequence[LabelledUtterance], augmenter: BatchAugmenter, rng: random.Random) -> Iterator[Batch]:
    """Yield every utterance once, in batches of similar length and random order."""
    ranked = sorted(utterances, key=lambda each: len(each.samples) * rng.uniform(0.9, 1.1))
    groups = [ranked[at : at + _BATCH] for at in range(0, len(ranked), _BATCH)]
    rng.shuffle(groups)
    for group in groups:
        yield augmenter.batch(group)


@torch.inference_mode()
def error_rate(model: Recogniser, utterances: Sequence[LabelledUtterance]) -> float:
    """Return the phone error rate on unchanged utterances."""
    model.eval()
    augmenter, errors = BatchAugmenter(), 0
    for each in utterances:
        heard = decode(model(augmenter.plain([each]).features)[0])
        errors += edit_distance([PHONES[phone] for phone in each.phones], heard)
    return errors / sum(len(each.phones) for each in utterances)


def train(utterances: Sequence[LabelledUtterance], epochs: int, seed: int = 0) -> Recogniser:
    """Train a recogniser, with one in 25 utterances held out for checking."""
    checked = utterances[::_CHECKED]
    training = [each for at, each in enumerate(utterances) if at % _CHECKED]
    trainer = Trainer(epochs * -(-len(training) // _BATCH), seed)
    augmenter, rng, began = BatchAugmenter(seed), random.Random(seed), time.monotonic()
    for epoch in range(1, epochs + 1):
        losses = [trainer.step(batch) for batch in batches(training, augmenter, rng)]
        rate = error_rate(trainer.model, checked)
        took = time.monotonic() - began
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}, phone error {rate:.3f}, {took:.0f} s", flush=True)
    return trainer.model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK, help="folder for everything that training makes")
    parser.add_argument("--minutes", type=positive, default=60.0, help="speech to learn from")
    parser.add_argument("--epochs", type=positive_int, default=30)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    with exit_with_message():
        shards = make(options.work.expanduser() / "recogniser", options.minutes)
        model = train([each for shard in shards for each in load(shard)], options.epochs)
        model.save(options.out)
    print(f"{options.out.name}: {options.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
