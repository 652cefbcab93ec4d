"""A training run of a codec: steps, schedules and checkpoints."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.codec.batches import CropBatch, CropSampler, crop_batches
from training.codec.objective import CodecObjective, Reconstruction
from training.codec.quantizer import Lookup
from training.schedule import warmup_cosine
from training.work import TrainingError, replaced

# Purposes of random seeds; each is combined with the step number.
_STEP, _INITIAL_AUDIO, _LAYOUT = range(3)
# Number of latents per entry of the largest codebook when the codebooks are initialised.
_LAYOUT_LATENTS = 4
_UNQUANTIZED_PART = 0.25
# Dead entries are restarted only between this codebook age in steps and this fraction of the run.
_RESTART_AFTER, _RESTART_UNTIL = 100, 0.85
_LEAST_GRADIENT = 1e-9


@dataclass(frozen=True)
class CodecRecipe:
    """Length and schedule of a training run. The run ends after its minutes or its steps, whichever comes first."""

    minutes: float = 90.0
    steps: float = math.inf
    batch: int = 4
    crop_frames: int = 16
    learning_rate: float = 8e-4
    phone_weight: float = 1.0
    warmup_steps: int = 60
    final_rate: float = 0.06  # fraction of the learning rate at the end of the cosine
    weight_decay: float = 0.01
    clip: float = 30.0
    unquantized_steps: int = 500  # at most a quarter of the run
    ramp_steps: int = 300  # from half to all samples quantized; codebook dropout starts after as many steps again
    dropout: float = 0.25
    restart_every: int = 40
    discriminators_rate: float = 4e-4
    discriminators_share: float = 0.25  # of the gradient of the decoder's last layer
    discriminators_every: int = 1  # steps; in the others only the other losses count
    discriminators_lead: int = 200  # steps before their losses reach the codec; as many again until full weight
    seed: int = 0


# Once there are codebooks, the codec trains at half the learning rate, with less codebook dropout.
CONTINUED = CodecRecipe(learning_rate=4e-4, phone_weight=0.5, dropout=0.15)
# With crops of 1.5 s, the decoder has its full context of past frames for most of a crop.
ADVERSARIAL = replace(CONTINUED, learning_rate=2e-4, crop_frames=32, discriminators_share=0.4)
# The whole codec, with discriminators, towards codes that mostly stay.
ANCHORED = replace(ADVERSARIAL, learning_rate=3e-4, dropout=0.05, discriminators_share=0.25, discriminators_every=3)


class CodecRun:
    """State of a run. A step depends on its number and the elapsed time, not on interruptions."""

    def __init__(
        self, objective: CodecObjective, sampler: CropSampler, recipe: CodecRecipe, origin: str, *, workers: int = 0
    ) -> None:
        """Create a run.

        Args:
            origin: names the codec to continue from; "" means a new codec without codebooks.
            workers: processes that prepare the next steps' batches.
        """
        self.objective, self.sampler, self.recipe, self.origin = objective, sampler, recipe, origin
        self._workers = workers
        self.step, self.elapsed, self.finished = 0, 0.0, False
        # Step at which the codebooks were initialised. A codec that starts with codebooks skips the ramps.
        self.quantized_since: int | None = -2 * recipe.ramp_steps if origin else None
        judging = [] if objective.discriminators is None else list(objective.discriminators.parameters())
        others = {id(p) for p in judging}
        self._trained = [p for p in objective.parameters() if p.requires_grad and id(p) not in others]
        groups = [
            {"params": self._trained, "peak": recipe.learning_rate},
            {"params": judging, "peak": recipe.discriminators_rate},
        ]
        self._optimiser = torch.optim.AdamW(
            [group for group in groups if group["params"]], betas=(0.8, 0.99), weight_decay=recipe.weight_decay
        )

    @property
    def progress(self) -> float:
        """Completed fraction of the run, 1 or more at the end."""
        return max(self.step / self.recipe.steps, self.elapsed / (60 * self.recipe.minutes))

    @property
    def rate(self) -> float:
        """Fraction of the peak learning rates."""
        return warmup_cosine(self.step, self.recipe.warmup_steps, self.progress, self.recipe.final_rate)

    def initial_audio(self) -> Tensor:
        """Return crops `[B, 1, n]` for the initialisation of a new codec."""
        return self._batch(_INITIAL_AUDIO, 0).audio

    def generator(self) -> torch.Generator:
        """Return the random generator of the next step."""
        state = np.random.SeedSequence((self.recipe.seed, self.step)).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(state[0]))

    def advance(self) -> dict[str, float]:
        """Run one training step. Return its losses by name, before weighting.

        Raises FloatingPointError when the loss is no longer finite.
        """
        started, generator = time.monotonic(), self.generator()
        if self._codebooks_are_due():
            self._initialise_codebooks(generator)
        for group in self._optimiser.param_groups:
            group["lr"] = group["peak"] * self.rate
        batch = next(self._batches).to(self._device)
        reconstruction = self._reconstruct(batch, generator)
        losses = reconstruction.audio_losses | reconstruction.losses
        total = self.objective.weighted(losses, self.recipe.phone_weight).item()
        if not math.isfinite(total):
            raise FloatingPointError(f"The loss is no longer finite at step {self.step}.")
        judged = self._learn(reconstruction)
        self._update_codebooks(reconstruction.lookups, generator)
        self.step += 1
        self.elapsed += time.monotonic() - started
        return {"total": total, **{name: loss.item() for name, loss in (losses | judged).items()}}

    def save(self, path: Path) -> None:
        """Save the run atomically."""
        state = {"objective": self.objective.state_dict(), "optimiser": self._optimiser.state_dict()}
        plain = {"options": self.objective.options} | {name: getattr(self, name) for name in _PLAIN}
        with replaced(path) as unfinished:
            torch.save(state | plain, unfinished)

    def resume(self, path: Path) -> None:
        """Resume from a checkpoint.

        Raises TrainingError when it is of a run with another origin, other options or other sizes.
        """
        state = torch.load(path, map_location=self._device, weights_only=True)
        if state["origin"] != self.origin:
            raise TrainingError(f"{path} continues {state['origin']}, not {self.origin}. Remove it to start over.")
        before, now = state.get("options", self.objective.options), self.objective.options
        if before != now:
            raise TrainingError(
                f"{path} was begun with other options ({before or 'none'}) than these ({now or 'none'}). Give the same "
                "ones, or remove it to start over."
            )
        try:
            self.objective.load_state_dict(state["objective"])
            self._optimiser.load_state_dict(state["optimiser"])
        except (KeyError, RuntimeError, ValueError) as error:  # names, shapes or parameter groups differ
            raise TrainingError(
                f"{path} holds a codec of other sizes, or is of another version of Reprise. Give the setting that it "
                "was begun with (--setting), or remove it to start over."
            ) from error
        for name in _PLAIN:
            setattr(self, name, state[name])
        self.__dict__.pop("_batches", None)  # those of an earlier step

    @cached_property
    def _batches(self) -> Iterator[CropBatch]:
        """The batches of this and all later steps."""
        return crop_batches(
            self.sampler, self.recipe.batch, (self.recipe.seed, _STEP), first=self.step, workers=self._workers
        )

    @property
    def _device(self) -> torch.device:
        return next(self.objective.parameters()).device

    def _batch(self, purpose: int, number: int) -> CropBatch:
        return self.sampler.batch(self.recipe.batch, self.recipe.seed, purpose, number).to(self._device)

    def _reconstruct(self, batch: CropBatch, generator: torch.Generator) -> Reconstruction:
        if self.objective.decoder_only:
            return self.objective.reconstruct_from_codes(batch, generator)
        if self.quantized_since is None:
            return self.objective.reconstruct(batch, generator, share=0.0, dropout=0.0)
        ramp = (self.step - self.quantized_since) / self.recipe.ramp_steps
        dropout = self.recipe.dropout if ramp >= 2 else 0.0
        return self.objective.reconstruct(batch, generator, share=min(1.0, 0.5 + 0.5 * ramp), dropout=dropout)

    def _learn(self, made: Reconstruction) -> dict[str, Tensor]:
        """Compute gradients and step the optimiser. Return the discriminators' losses, if any."""
        recipe, objective, judged = self.recipe, self.objective, {}
        (gradient,) = torch.autograd.grad(objective.weighted(made.audio_losses, recipe.phone_weight), made.heard)
        if objective.discriminators is not None and self.step % recipe.discriminators_every == 0:
            losses = objective.discriminators.judge(made.heard.detach(), made.target)
            losses.discriminators.backward()
            gradient = gradient + self._discriminators_factor(made.audio, gradient, losses.gradient) * losses.gradient
            judged = {
                "discriminators": losses.discriminators,
                "adversarial": losses.adversarial,
                "features": losses.features,
            }
        others = [objective.weighted(made.losses, recipe.phone_weight)] if made.losses else []
        torch.autograd.backward([made.audio, *others], [gradient, *[None for _ in others]])
        torch.nn.utils.clip_grad_norm_(self._trained, recipe.clip)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        return judged

    def _discriminators_factor(self, audio: Tensor, gradient: Tensor, theirs: Tensor) -> Tensor:
        """Return the factor that gives the discriminators their share of the last layer's gradient, however sure they
        are (as in VQGAN; Esser et al., 2021). gradient, theirs: of the other losses and theirs, at the audio."""
        recipe, last = self.recipe, self.objective.last_weight
        norms = [torch.autograd.grad(audio, last, each, retain_graph=True)[0].norm() for each in (gradient, theirs)]
        share = recipe.discriminators_share / (1 - recipe.discriminators_share)
        ramp = min(1.0, max(0.0, self.step / recipe.discriminators_lead - 1))
        factor: Tensor = ramp * share * norms[0] / norms[1].clamp(min=_LEAST_GRADIENT)
        return factor

    def _codebooks_are_due(self) -> bool:
        if self.quantized_since is not None:
            return False
        return self.step >= self.recipe.unquantized_steps or self.progress >= _UNQUANTIZED_PART

    @torch.no_grad()
    def _initialise_codebooks(self, generator: torch.Generator) -> None:
        needed = _LAYOUT_LATENTS * max(self.objective.codec.config.codebook_sizes)
        batches = math.ceil(needed / (self.recipe.batch * self.recipe.crop_frames))
        z = [self.objective.encoded(self._batch(_LAYOUT, i).audio) for i in range(batches)]
        latents = torch.cat([rows.transpose(0, 1).flatten(1) for rows in z], dim=1)
        self.objective.averages.initialise_by_kmeans(latents[None], generator)
        self.quantized_since = self.step
        print(f"step {self.step}: codebooks laid out over {latents.shape[1]} latents", flush=True)

    def _update_codebooks(self, lookups: list[Lookup], generator: torch.Generator) -> None:
        if not lookups or self.quantized_since is None:
            return
        averages, age = self.objective.averages, self.step - self.quantized_since
        averages.update(lookups)
        due = self.step % self.recipe.restart_every == 0 and age >= _RESTART_AFTER
        if due and self.progress < _RESTART_UNTIL:
            averages.restart_dead_codes(lookups, generator)


_PLAIN = ("origin", "step", "elapsed", "finished", "quantized_since")
