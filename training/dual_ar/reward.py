"""Reward optimisation: the dual AR learns which residual codes make its own takes clearer, and closer to the voice.

    python -m training.dual_ar.reward --work DIR --from RELEASE [--rounds N] [--takes N]

In each round the release speaks texts in voices of the training speech. A take's reward is the log-likelihood of its
phones for the frozen recogniser, plus the similarity of its voice to the speaker's for the frozen speaker encoder
(training/speaker), less the distance to the speaker's pitch for the frozen pitch estimator (training/pitch). All these
networks and the decoder are differentiable, so that one backward pass tells, to first order, what every other code at
any place would have gained. The Fast AR learns to raise the expected gain of each of its codes, and the Slow AR what
the Fast AR needs to know for that. This is differentiable reward optimisation (CosyVoice 3; Du et al., 2025) with an
expectation over all codes of a codebook in the place of a sampled relaxation. A penalty on the distance to the round's
first model keeps the codes likely. Encoder, codebooks and decoder stay.

Writes `DIR/reward/round-N`, a release each, and copies the last one to `DIR/reward/release`. A round that was
interrupted begins anew, and more rounds can be added. `DIR/reward/recipe.json` has the recipe and the release
that the rounds were begun with; others are refused.

Shapes: N targets, K codebooks, F frames, D latent width.
"""

import argparse
import math
import random
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training.device import bf16_autocast, threads, training_device
from training.dual_ar.conversations import Batch, ConversationBuilder, Example, collate
from training.dual_ar.encode import CodeFormat
from training.dual_ar.model import DualAR, load_release, new_model, release_from, save_release
from training.dual_ar.own_takes import OwnTake, TakeOptimiser, TakeRates, TakeSampler, similar_batches
from training.dual_ar.take_reward import Judgement, TakeReward
from training.dual_ar.voice_reward import VoiceReward
from training.work import (
    DEFAULT_WORK,
    TrainingError,
    cores,
    exit_with_message,
    origin_of,
    positive_int,
    read_json,
    write_json,
)

Gains = Callable[[Tensor, Tensor, int], Tensor]  # `TakeReward.gains`

_FINAL_RATE = 0.1  # fraction of the learning rates at the end of a round
_REPORT_STEPS = 25
_BEGUN = "recipe.json"


@dataclass(frozen=True)
class RewardRecipe:
    rounds: int = 4
    takes: int = 900  # a round
    passes: float = 2.0  # over the takes of a round
    slow_rate: float = 5e-5  # learning rates of Slow AR and Fast AR
    fast_rate: float = 3e-4
    warmup_steps: int = 15
    positions: int = 6000  # per batch
    similarity_weight: float = 0.2  # reward in nats per frame for a voice with a cosine of 1 to the speaker's
    pitch_weight: float = 0.005  # reward in nats per frame for a pitch that is a semitone nearer to the speaker's
    largest_gain: float = 1.0  # nats of one code: a first-order estimate holds for small changes
    # Of the distances of log-probabilities, squared below 1 nat and linear above.
    semantic_penalty: float = 0.0075
    residual_penalty: float = 0.07
    clip_gradient: float = 0.05
    seed: int = 0

    @property
    def rates(self) -> TakeRates:
        return TakeRates(self.slow_rate, self.fast_rate, self.warmup_steps, _FINAL_RATE, self.clip_gradient)


@dataclass(frozen=True)
class RewardedTake:
    """A take as an example whose only targets are its own, and the gradient of its reward (`Judgement`) `[F, D]`."""

    example: Example
    gradient: Tensor


@dataclass(frozen=True)
class RoundResult:
    """Over a round's takes, before its training: the mean error in nats per phone, the mean similarity, and the median
    distance in pitch, in semitones."""

    error: float
    similarity: float
    pitch: float


@dataclass(frozen=True)
class LogProbs:
    """Log-probabilities at the temperature of the takes.

    semantic: of the targets `[N]`. residual: of all residual codes `[F, K - 1, size]`. codes: the takes' `[F, K]`.
    """

    semantic: Tensor
    residual: Tensor
    codes: Tensor

    @property
    def taken(self) -> Tensor:
        """Log-probabilities of the takes' residual codes `[F, K - 1]`."""
        return self.residual.gather(2, self.codes[:, 1:, None])[..., 0]


def rewarded_take(take: OwnTake, gradient: Tensor, builder: ConversationBuilder) -> RewardedTake:
    example = builder.build([take.reference], [take.utterance], reference_is_target=False)
    return RewardedTake(example, gradient)


def expected_gain(found: LogProbs, gradient: Tensor, gains: Gains, largest: float) -> Tensor:
    """Return the gain in reward that the residual codes' distributions promise, nats per frame.

    gradient: of the reward, `[F, D]`. largest: gain or loss of one code.
    """
    expected = [
        (probabilities * gains(gradient, found.codes, codebook).clamp(-largest, largest)).sum(-1).mean()
        for codebook, probabilities in enumerate(found.residual.exp().unbind(1), 1)
    ]
    return torch.stack(expected).sum()


def penalty(found: LogProbs, semantic: Tensor, residual: Tensor, recipe: RewardRecipe) -> Tensor:
    """Return the penalty on the distance to earlier log-probabilities, of the targets `[N]` and of the takes' residual
    codes `[F, K - 1]`."""
    moved = F.smooth_l1_loss(found.semantic, semantic), F.smooth_l1_loss(found.taken, residual)
    return recipe.semantic_penalty * moved[0] + recipe.residual_penalty * moved[1]


def log_probs(model: DualAR, batch: Batch, temperature: float) -> LogProbs:
    forced = model.teacher_force(batch)
    semantic = (forced.logits / temperature).log_softmax(-1).gather(1, forced.tokens[:, None])[:, 0]
    residual = (model.residual_logits(forced.hidden, forced.codes) / temperature).log_softmax(-1)
    return LogProbs(semantic, residual, forced.codes)


def learn(model: DualAR, made: Sequence[RewardedTake], gains: Gains, temperature: float, recipe: RewardRecipe) -> None:
    """Train a model on the takes that it has spoken in one round."""
    rng = random.Random(recipe.seed)
    model.eval()  # as when it spoke
    before = _log_probs_before(model, made, _batches(made, recipe.positions, rng), temperature)
    planned = [batch for _ in range(math.ceil(recipe.passes)) for batch in _batches(made, recipe.positions, rng)]
    steps = max(1, round(len(planned) * recipe.passes / math.ceil(recipe.passes)))
    optimiser = TakeOptimiser(model, recipe.rates, steps)
    for step, chosen in enumerate(planned[:steps]):
        found = _log_probs(model, made, chosen, temperature)
        gradient = torch.cat([made[i].gradient for i in chosen]).to(found.semantic.device)
        semantic, residual = (torch.cat(parts) for parts in zip(*(before[i] for i in chosen), strict=True))
        gain = expected_gain(found, gradient, gains, recipe.largest_gain)
        optimiser.minimise(penalty(found, semantic, residual, recipe) - gain)
        if (step + 1) % _REPORT_STEPS == 0:
            moved = (found.semantic - semantic).abs().mean().item(), (found.taken - residual).abs().mean().item()
            print(
                f"step {step + 1} of {steps}: expected gain {gain.item():.2f} nats per frame, log-probabilities change "
                f"by {moved[0]:.2f}, {moved[1]:.2f}",
                flush=True,
            )


def _log_probs_before(
    model: DualAR, made: Sequence[RewardedTake], batches: list[list[int]], temperature: float
) -> dict[int, tuple[Tensor, Tensor]]:
    """Return the log-probabilities of each take before the training: of its targets, and of its residual codes."""
    known: dict[int, tuple[Tensor, Tensor]] = {}
    for chosen in batches:
        with torch.no_grad():
            found = _log_probs(model, made, chosen, temperature)
        frames = [len(made[i].gradient) for i in chosen]
        targets = found.semantic.split([count + 1 for count in frames])  # the end of a take is a target, too
        known |= dict(zip(chosen, zip(targets, found.taken.split(frames), strict=True), strict=True))
    return known


def _log_probs(model: DualAR, made: Sequence[RewardedTake], chosen: Sequence[int], temperature: float) -> LogProbs:
    device = next(model.parameters()).device.type
    with bf16_autocast(device):
        return log_probs(model, collate([made[i].example for i in chosen]).to(device), temperature)


def _batches(made: Sequence[RewardedTake], positions: int, rng: random.Random) -> list[list[int]]:
    return similar_batches([each.example.columns.shape[1] for each in made], positions, rng)


def optimise(work: Path, release: Path, recipe: RewardRecipe) -> list[RoundResult]:
    """Run all rounds that are not finished, from `release` on. Returns the results of the rounds that were run.

    Raises TrainingError when the folder has no encoded speech, speaker encoder or pitch estimator, when the release has
    other sizes or another codec, or when the rounds were begun with another release or recipe.
    """
    folder = work / "reward"
    begun = {name: value for name, value in asdict(recipe).items() if name != "rounds"}
    begun["release"] = origin_of(release, work)
    _check_begun(folder / _BEGUN, begun)
    releases = [release, *(folder / f"round-{number}" for number in range(1, recipe.rounds + 1))]
    unfinished = [n for n in range(1, len(releases)) if not (releases[n] / "model.safetensors").exists()]
    results = []
    if unfinished:
        trainer = RewardTrainer(work, recipe)
        folder.mkdir(exist_ok=True)
        write_json(folder / _BEGUN, begun)
        results = [trainer.run_round(number, releases[number - 1], releases[number]) for number in unfinished]
    shutil.copytree(releases[-1], folder / "release", dirs_exist_ok=True)
    return results


def _check_begun(file: Path, begun: dict[str, object]) -> None:
    """Raise TrainingError when the rounds were begun with another release or recipe than `begun`."""
    known = read_json(file) if file.exists() else {}
    differing = [name for name, value in begun.items() if known.get(name, value) != value]
    if differing:
        raise TrainingError(
            f"The rounds in {file.parent} were begun with another release or recipe ({', '.join(differing)}): give "
            "that again, or remove the folder to start over."
        )


class RewardTrainer:
    """Runs single rounds, with the speech and the networks of a working folder."""

    def __init__(self, work: Path, recipe: RewardRecipe) -> None:
        """Raises TrainingError when the folder has no encoded speech, speaker encoder or pitch estimator."""
        self._codes, self._recipe, self._device = CodeFormat.load(work / "codes"), recipe, training_device()
        self._voice = VoiceReward.load(
            work, similarity_weight=recipe.similarity_weight, pitch_weight=recipe.pitch_weight
        )
        self._sampler = TakeSampler(work, self._voice.speakers)

    def run_round(self, number: int, before: Path, after: Path) -> RoundResult:
        """Let the release `before` speak, train it, and write it to `after`.

        Raises TrainingError when the release has another codec or speaks no text long enough to be judged.
        """
        began, recipe = time.monotonic(), self._recipe
        takes, temperature = self._sampler.spoken_by(before, self._device, recipe.takes, recipe.seed + number)
        print(f"{len(takes)} takes spoken, {(time.monotonic() - began) / 60:.1f} min", flush=True)
        with release_from(before, after) as folder:
            model, builder = new_model(folder, self._codes)
            load_release(model, before)
            reward = TakeReward(before, self._device, self._voice)
            judged = self._judged(reward, takes)
            if not judged:
                raise TrainingError(f"The release in {before} speaks no text long enough to be judged.")
            result = RoundResult(
                float(np.mean([found.error for _, found in judged])),
                float(np.mean([found.similarity for _, found in judged])),
                float(np.median([abs(found.pitch) for _, found in judged])),
            )
            print(
                f"round {number}: error {result.error:.3f} nats per phone, similarity {result.similarity:.3f}, "
                f"pitch {result.pitch:.2f} semitones off, {(time.monotonic() - began) / 60:.1f} min",
                flush=True,
            )
            made = [rewarded_take(take, found.gradient, builder) for take, found in judged]
            with threads(cores()):  # the engine leaves fewer
                learn(model.to(self._device), made, reward.gains, temperature, recipe)
            save_release(model.state_dict(), folder)
        print(f"{after}: {(time.monotonic() - began) / 60:.1f} min", flush=True)
        return result

    def _judged(self, reward: TakeReward, takes: list[OwnTake]) -> list[tuple[OwnTake, Judgement]]:
        """Judge all takes. On a CPU a take for each core is faster than all cores for each take."""
        with threads(1), ThreadPoolExecutor(1 if self._device == "cuda" else cores()) as pool:
            found = pool.map(
                lambda take: reward.judge(take.utterance.codes, take.phones, take.reference.speaker), takes
            )
            return [(take, judgement) for take, judgement in zip(takes, found, strict=True) if judgement is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--from", dest="source", type=Path, required=True, metavar="RELEASE")
    parser.add_argument("--rounds", type=positive_int, default=RewardRecipe.rounds)
    parser.add_argument("--takes", type=positive_int, default=RewardRecipe.takes, help="a round")
    args = parser.parse_args()
    with exit_with_message():
        optimise(args.work, args.source, RewardRecipe(rounds=args.rounds, takes=args.takes))


if __name__ == "__main__":
    main()
