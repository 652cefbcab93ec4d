"""Policy optimisation: the dual AR learns from its own takes, those that a phone recogniser understands best.

    python -m training.dual_ar.policy --work DIR --from RELEASE [--rounds N] [--texts N]

In each round the release speaks many texts several times in voices of the training speech. A candidate's advantage is
how much clearer it is than the others of its text, as in group-relative policy optimisation (GRPO; Shao et al., 2024),
which S2-Pro was trained with after pretraining, too (Fish Audio, 2026). Half of it is that of the whole take, the other
half that of each phone, which tells the frames of a clear word from those of an unclear one. The objective is the
clipped one of proximal policy optimisation (Schulman et al., 2017) with a penalty on the distance to the round's first
policy. Encoder, codebooks and decoder stay.

Writes `DIR/policy/round-N`, a release each, and copies the last one to `DIR/policy/release`. A round that was
interrupted begins anew.

Shapes: N targets, K codebooks, L positions, P phones, F frames.
"""

import argparse
import math
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from engine.engine import Engine
from training.device import halved, training_device
from training.dual_ar.candidates import Candidate, CandidateSampler, Group, without_times
from training.dual_ar.conversations import Batch, ConversationBuilder, Example, collate
from training.dual_ar.encode import CodeFormat
from training.dual_ar.model import DualAR, load_release, new_model, save_release
from training.work import DEFAULT_WORK, TrainingError, messages_only, positive_int

_NOT_ENDED = 1.0  # added to the error of a candidate that did not end by itself
_LEAST_DEVIATION = 0.1  # of the errors of a group, nats per phone: smaller differences are noise
_LARGEST = 3.0  # absolute advantage, in deviations
# Frames after the one that a code belongs to, in which the recogniser's judgement of it is looked up.
_HEARD = (0.0, 0.75, 1.5, 2.25)
_REPORT_TEXTS, _REPORT_STEPS = 50, 25


@dataclass(frozen=True)
class Recipe:
    rounds: int = 3
    texts: int = 300  # a round
    candidates: int = 8  # of a text
    kept: int = 4  # of these, half of them the clearest and half the least clear
    passes: float = 1.5  # over the candidates of a round
    slow_rate: float = 6e-5  # learning rates of Slow AR and Fast AR
    fast_rate: float = 2e-4
    warmup_steps: int = 15
    positions: int = 6000  # per batch
    phone_share: float = 0.5  # of the advantage
    fast_weight: float = 3.0  # of the mean over residual codebooks, to the semantic tokens' 1
    clip: float = 0.2  # of the ratio of the probabilities
    penalty: float = 0.05  # of half the squared difference of the log-probabilities, linear above 1
    clip_gradient: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Rollout:
    """A candidate as an example whose only targets are its own, with their advantages `[N]`."""

    example: Example
    advantages: Tensor


def whole_advantages(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return how much clearer each take is than the mean of its group, in deviations of the group."""
    errors = np.array([each.clarity.error + (0.0 if each.ended else _NOT_ENDED) for each in candidates])
    found: NDArray[np.float64] = (errors.mean() - errors) / max(errors.std(), _LEAST_DEVIATION)
    return found.clip(-_LARGEST, _LARGEST)


def relative_scores(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return how much clearer each phone of each take is than the mean of its group, in nats `[candidates, P]`."""
    scores = np.stack([each.clarity.phones for each in candidates]).astype(np.float64)
    found: NDArray[np.float64] = scores - scores.mean(0)
    return found


def rollouts(groups: Sequence[Group], builder: ConversationBuilder, frame_rate: float, recipe: Recipe) -> list[Rollout]:
    """Return the kept candidates of all groups. Their advantages have mean 0 and deviation 1."""
    relative = [relative_scores(group.candidates) for group in groups]
    deviation = float(np.concatenate([scores.ravel() for scores in relative]).std()) or 1.0
    made = []
    for group, scores in zip(groups, relative, strict=True):
        whole, phones = whole_advantages(group.candidates), (scores / deviation).clip(-_LARGEST, _LARGEST)
        order = np.argsort(-whole)
        for i in {*order[: recipe.kept // 2].tolist(), *order[-(recipe.kept // 2) :].tolist()}:
            candidate = group.candidates[i]
            # Of each frame, then of the end.
            at = (np.arange(candidate.codes.shape[1])[:, None] + np.array(_HEARD)) / frame_rate
            spoken = np.searchsorted(candidate.clarity.ends, at, side="right").clip(max=len(candidate.clarity.ends) - 1)
            local = phones[i][spoken].mean(1)
            advantages = (1 - recipe.phone_share) * whole[i] + recipe.phone_share * np.append(local, whole[i])
            take = without_times(group.reference.speaker, group.phones, candidate.codes)
            example = builder.build([group.reference], [take], reference_is_target=False)
            made.append(Rollout(example, torch.from_numpy(advantages).float()))
    every = torch.cat([each.advantages for each in made])
    mean, spread = every.mean(), every.std().clamp(min=1e-3)
    return [Rollout(each.example, (each.advantages - mean) / spread) for each in made]


def policy_loss(new: Tensor, old: Tensor, advantages: Tensor, recipe: Recipe) -> Tensor:
    """Return the negative clipped objective plus the penalty, from log-probabilities and advantages of one shape."""
    difference = new - old
    ratio = difference.exp()
    clipped = ratio.clamp(1 - recipe.clip, 1 + recipe.clip)
    objective = torch.minimum(ratio * advantages, clipped * advantages)
    penalty = F.smooth_l1_loss(new, old, reduction="none")
    return (recipe.penalty * penalty - objective).mean()


def log_probs(model: DualAR, batch: Batch, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities of the semantic targets `[N]` and of the residual codes `[F, K - 1]`, at the temperature
    of the takes, and which targets are frames `[N]`."""
    forced = model.force(batch)
    semantic = (forced.logits / temperature).log_softmax(-1).gather(1, forced.tokens[:, None])[:, 0]
    residual = (model.residual_logits(forced.hidden, forced.codes) / temperature).log_softmax(-1)
    return semantic, residual.gather(2, forced.codes[:, 1:, None])[..., 0], forced.is_frame


def learn(model: DualAR, made: Sequence[Rollout], temperature: float, recipe: Recipe) -> None:
    """Train a model on the candidates that it has spoken in one round."""
    rng = random.Random(recipe.seed)
    model.eval()  # as when it spoke
    old = _old_log_probs(model, made, _batches(made, recipe.positions, rng), temperature)
    planned = [batch for _ in range(math.ceil(recipe.passes)) for batch in _batches(made, recipe.positions, rng)]
    steps = max(1, round(len(planned) * recipe.passes / math.ceil(recipe.passes)))
    stacks = (model.slow, recipe.slow_rate), (model.fast, recipe.fast_rate)
    optimiser = torch.optim.AdamW(
        [{"params": list(stack.parameters()), "peak": peak} for stack, peak in stacks],
        betas=(0.9, 0.98),
        weight_decay=0.0,
    )
    for step, chosen in enumerate(planned[:steps]):
        rate = min(1.0, (step + 1) / recipe.warmup_steps) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimiser.param_groups:
            group["lr"] = rate * group["peak"]
        semantic, residual, is_frame = _log_probs(model, made, chosen, temperature)
        advantages = torch.cat([made[i].advantages for i in chosen]).to(semantic.device)
        first, others = (torch.cat(parts) for parts in zip(*(old[i] for i in chosen), strict=True))
        loss = policy_loss(semantic, first, advantages, recipe)
        loss = loss + recipe.fast_weight * policy_loss(residual, others, advantages[is_frame][:, None], recipe)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_gradient)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if (step + 1) % _REPORT_STEPS == 0:
            changes = ((semantic - first).abs().mean().item(), (residual - others).abs().mean().item())
            print(
                f"step {step + 1} of {steps}: log-probabilities change by {changes[0]:.2f}, {changes[1]:.2f}",
                flush=True,
            )


def _old_log_probs(
    model: DualAR, made: Sequence[Rollout], batches: list[list[int]], temperature: float
) -> dict[int, tuple[Tensor, Tensor]]:
    """Return the log-probabilities of each candidate before the training: of its targets, and of its residual codes."""
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for chosen in batches:
        with torch.no_grad():
            semantic, residual, is_frame = _log_probs(model, made, chosen, temperature)
        counts = [len(made[i].advantages) for i in chosen]
        frames = [int(part.sum()) for part in is_frame.split(counts)]
        found |= dict(zip(chosen, zip(semantic.split(counts), residual.split(frames), strict=True), strict=True))
    return found


def _log_probs(
    model: DualAR, made: Sequence[Rollout], chosen: Sequence[int], temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    device = next(model.parameters()).device.type
    with halved(device):
        return log_probs(model, collate([made[i].example for i in chosen]).to(device), temperature)


def _batches(made: Sequence[Rollout], positions: int, rng: random.Random) -> list[list[int]]:
    """Divide the candidates into batches of similar length, in random order."""
    batches: list[list[int]] = [[]]
    for i in sorted(range(len(made)), key=lambda i: (made[i].example.columns.shape[1], rng.random())):
        if batches[-1] and (len(batches[-1]) + 1) * made[i].example.columns.shape[1] > positions:
            batches.append([])
        batches[-1].append(i)
    rng.shuffle(batches)
    return batches


def optimise(work: Path, release: Path, recipe: Recipe) -> list[float]:
    """Run all rounds that are not finished, from `release` on. Returns the mean error of each round's candidates.

    Raises TrainingError when the folder has no encoded speech, or the release other sizes or another codec.
    """
    folder, errors, before = work / "policy", [], release
    codes, sampler = CodeFormat.load(work / "codes"), CandidateSampler(work, recipe.candidates)
    folder.mkdir(exist_ok=True)
    for number in range(1, recipe.rounds + 1):
        after = folder / f"round-{number}"
        if not (after / "model.safetensors").exists():
            errors.append(_round(codes, sampler, before, after, number, recipe))
        before = after
    shutil.copytree(before, folder / "release", dirs_exist_ok=True)
    return errors


def _round(
    codes: CodeFormat, sampler: CandidateSampler, before: Path, after: Path, number: int, recipe: Recipe
) -> float:
    """Let the release `before` speak, train it, and write it to `after`. Returns the mean error of the candidates."""
    began, device = time.monotonic(), training_device()
    engine, groups = Engine.load(before, device, slots=recipe.candidates), []
    try:
        codes.check(sampler.codes, engine.codec_fingerprint, before)
        for group in sampler.sample(engine, recipe.texts, seed=recipe.seed + number):
            groups.append(group)
            if len(groups) % _REPORT_TEXTS == 0:
                print(f"{len(groups)} texts spoken, {(time.monotonic() - began) / 60:.1f} min", flush=True)
        temperature, frame_rate = engine.default_options.temperature, engine.frame_rate
    finally:
        engine.close()
    if not groups:
        raise TrainingError(f"The release in {before} speaks no text long enough to be judged.")
    every = [candidate.clarity.error for group in groups for candidate in group.candidates]
    best = [min(candidate.clarity.error for candidate in group.candidates) for group in groups]
    print(
        f"round {number}: {len(groups)} texts, error {np.mean(every):.3f}, of the best takes {np.mean(best):.3f} nats "
        f"per phone, {(time.monotonic() - began) / 60:.1f} min",
        flush=True,
    )
    unfinished = after.with_name(f"unfinished-{after.name}")
    shutil.copytree(before, unfinished, dirs_exist_ok=True)
    model, builder = new_model(unfinished, codes)
    load_release(model, before)
    learn(model.to(device), rollouts(groups, builder, frame_rate, recipe), temperature, recipe)
    save_release(model.state_dict(), unfinished)
    unfinished.replace(after)
    print(f"{after}: {(time.monotonic() - began) / 60:.1f} min", flush=True)
    return float(np.mean(every))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--from", dest="source", type=Path, required=True, metavar="RELEASE")
    parser.add_argument("--rounds", type=positive_int, default=Recipe.rounds)
    parser.add_argument("--texts", type=positive_int, default=Recipe.texts, help="a round")
    args = parser.parse_args()
    with messages_only():
        optimise(args.work, args.source, Recipe(rounds=args.rounds, texts=args.texts))


if __name__ == "__main__":
    main()
