"""Training examples for the dual AR: conversations of one speaker in the engine's prompt layout.

A conversation is a system turn with at most one reference (up to seven utterances joined), then one to six turns of
text and speech, since a long text is spoken turn by turn with the previous turns as context. All speech frames are
targets, including those of the reference, and so is the end of each stretch of speech. References under recording
conditions or with wrong transcripts are input only, never targets.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from engine.families.family import PromptReference
from engine.families.s2.prompt import PromptBuilder
from training.device import prefetched
from training.dual_ar.transcripts import damaged

IGNORED = -100
LEAST_UTTERANCES = 6  # of a speaker, for conversations
# Probabilities of the number of utterances in the reference (from 0) and the number of turns (from 1).
REFERENCE_SHARES = (0.04, 0.44, 0.22, 0.14, 0.06, 0.04, 0.03, 0.03)
TURN_SHARES = (0.55, 0.20, 0.09, 0.06, 0.05, 0.05)
DEGRADED_SHARE = 0.4  # of the references with degraded codes: these codes are used
DAMAGED_SHARE = 0.15  # of the references: the transcript is damaged


@dataclass(frozen=True)
class EncodedUtterance:
    """One encoded utterance: phone tokens as one string, codes `[K, T]`, and for each frame the index of its phone.

    degraded: codes `[K, T]` of the same speech under recording conditions. Used in references, never as a target.
    """

    speaker: int
    phones: str
    codes: np.ndarray
    phone_of_frame: np.ndarray  # [T] index into phones.split()
    degraded: np.ndarray | None = None

    def as_recorded(self) -> "EncodedUtterance":
        """Return it under recording conditions, if there are such codes."""
        return self if self.degraded is None else replace(self, codes=self.degraded)


@dataclass(frozen=True)
class Example:
    columns: Tensor  # [K + 1, L] input of the model
    targets: Tensor  # [L] semantic index (or the semantic size for the end) of the next column, else IGNORED
    guide: Tensor  # [L] position of the phone spoken in the next frame, or -1


@dataclass(frozen=True)
class Batch:
    columns: Tensor  # [B, K + 1, L]
    targets: Tensor  # [B, L]
    guide: Tensor  # [B, L]

    def to(self, device: str) -> "Batch":
        return Batch(self.columns.to(device), self.targets.to(device), self.guide.to(device))


class ConversationBuilder:
    def __init__(self, prompt: PromptBuilder, semantic_start_id: int, semantic_size: int, end_id: int) -> None:
        self._prompt = prompt
        self._start, self._size, self._end = semantic_start_id, semantic_size, end_id

    def build(
        self,
        reference: Sequence[EncodedUtterance],
        turns: Sequence[EncodedUtterance],
        *,
        degraded_reference: bool = False,
        transcript: str | None = None,
        reference_is_target: bool = True,
    ) -> Example:
        """Build one example from the utterances of the reference and of the turns, all of one speaker.

        degraded_reference: use the reference's codes under recording conditions, which are not targets.
        transcript: wrong transcript of the reference, in phones. The reference's codes are not targets then.
        reference_is_target: whether they are otherwise.
        """
        if degraded_reference:
            reference = [u.as_recorded() for u in reference]
        pieces: list[Tensor] = []
        spoken: list[EncodedUtterance | None] = []  # None where the transcript does not match the speech
        if reference:
            joined = PromptReference(
                " ".join(u.phones for u in reference) if transcript is None else transcript,
                torch.from_numpy(np.concatenate([u.codes for u in reference], axis=1).astype(np.int64)),
            )
            pieces.append(self._prompt.system([joined]))
            spoken.append(_join(reference) if transcript is None else None)
        else:
            pieces.append(self._prompt.system([]))
        for turn in turns:
            pieces += [
                self._prompt.user(turn.phones),
                self._prompt.frames(torch.from_numpy(turn.codes.astype(np.int64))),
                self._prompt.turn_end(),
            ]
            spoken.append(turn)
        columns = torch.cat(pieces, dim=1)
        targets, guide = self._targets(columns[0]), self._guide(columns[0], spoken)
        if degraded_reference or transcript is not None or not reference_is_target:
            targets[: pieces[0].shape[1]] = IGNORED
        return Example(columns, targets, guide)

    def _targets(self, tokens: Tensor) -> Tensor:
        is_frame = (tokens >= self._start) & (tokens < self._start + self._size)
        following = torch.roll(tokens, -1)
        targets = torch.full_like(tokens, IGNORED)
        next_is_frame = torch.roll(is_frame, -1)
        targets[next_is_frame] = following[next_is_frame] - self._start
        targets[is_frame & ~next_is_frame] = self._size
        targets[-1] = IGNORED
        return targets

    def _guide(self, tokens: Tensor, spoken: Sequence[EncodedUtterance | None]) -> Tensor:
        """Return, for each column, the position of the phone spoken in the next frame, or -1."""
        guide = torch.full_like(tokens, -1)
        is_frame = ((tokens >= self._start) & (tokens < self._start + self._size)).numpy()
        edges = np.flatnonzero(np.diff(is_frame.astype(np.int8), prepend=0))
        starts = edges[::2]
        for begin, utterance in zip(starts, spoken, strict=True):
            if utterance is None:
                continue
            words = utterance.phones.split()
            text_at = self._find_text(tokens, words, int(begin))
            positions = torch.from_numpy(utterance.phone_of_frame.astype(np.int64)) + text_at
            guide[begin - 1 : begin - 1 + len(positions)] = positions
        return guide

    def _find_text(self, tokens: Tensor, words: list[str], before: int) -> int:
        ids = self._prompt.speech_ids(" ".join(words))
        row = tokens[:before].tolist()
        for at in range(before - len(ids), -1, -1):
            if row[at : at + len(ids)] == ids:
                return at
        raise ValueError("the text of an utterance is not in its conversation")


def _join(parts: Sequence[EncodedUtterance]) -> EncodedUtterance:
    offsets = np.cumsum([0] + [len(u.phones.split()) for u in parts[:-1]])
    return EncodedUtterance(
        parts[0].speaker,
        " ".join(u.phones for u in parts),
        np.concatenate([u.codes for u in parts], axis=1),
        np.concatenate([u.phone_of_frame + offset for u, offset in zip(parts, offsets, strict=True)]),
    )


def collate(examples: Sequence[Example]) -> Batch:
    """Collate examples with right padding. Attention is causal and padded targets are ignored, so it has no effect."""
    longest = max(e.columns.shape[1] for e in examples)

    def pad(x: Tensor, value: int) -> Tensor:
        return torch.nn.functional.pad(x, (0, longest - x.shape[-1]), value=value)

    return Batch(
        torch.stack([pad(e.columns, 0) for e in examples]),
        torch.stack([pad(e.targets, IGNORED) for e in examples]),
        torch.stack([pad(e.guide, -1) for e in examples]),
    )


def fit_for_conversations(utterances: Sequence[EncodedUtterance]) -> list[EncodedUtterance]:
    """Return the utterances of speakers who have enough of them for a conversation."""
    counts = Counter(each.speaker for each in utterances)
    return [each for each in utterances if counts[each.speaker] >= LEAST_UTTERANCES]


class ConversationSampler:
    """Endless sampler of batches of at most about `positions` positions, with examples of similar length."""

    def __init__(
        self, utterances: Sequence[EncodedUtterance], builder: ConversationBuilder, positions: int, seed: int
    ) -> None:
        self._builder, self._positions = builder, positions
        self._rng = np.random.default_rng(seed)
        self._by_speaker: dict[int, list[EncodedUtterance]] = defaultdict(list)
        for utterance in utterances:
            self._by_speaker[utterance.speaker].append(utterance)
        self._utterances = fit_for_conversations(utterances)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            pool = sorted((self._draw() for _ in range(96)), key=lambda e: e.columns.shape[1])
            batches, current = [], [pool[0]]
            for example in pool[1:]:
                if (len(current) + 1) * example.columns.shape[1] > self._positions:
                    batches.append(current)
                    current = []
                current.append(example)
            batches.append(current)
            for i in self._rng.permutation(len(batches)):
                yield collate(batches[i])

    def _draw(self) -> Example:
        target = self._utterances[self._rng.integers(len(self._utterances))]
        same = self._by_speaker[target.speaker]
        parts = int(self._rng.choice(len(REFERENCE_SHARES), p=REFERENCE_SHARES))
        turns = 1 + int(self._rng.choice(len(TURN_SHARES), p=TURN_SHARES))
        count = min(len(same), parts + turns)  # one more than needed, because the target may be among them
        chosen = [same[i] for i in self._rng.choice(len(same), count, replace=False)]
        others = [u for u in chosen if u is not target][: parts + turns - 1]
        reference, before = others[:parts], others[parts:]
        degraded = all(u.degraded is not None for u in reference) and self._rng.random() < DEGRADED_SHARE
        wrong = self._wrong_transcript(reference) if reference and self._rng.random() < DAMAGED_SHARE else None
        degraded = bool(reference) and degraded
        return self._builder.build(reference, [*before, target], degraded_reference=degraded, transcript=wrong)

    def _wrong_transcript(self, reference: Sequence[EncodedUtterance]) -> str:
        unsaid = self._utterances[self._rng.integers(len(self._utterances))]
        return damaged(" ".join(u.phones for u in reference), unsaid.phones, self._rng)


class _Batches(IterableDataset[Batch]):
    """The batches of a sampler; each process of a loader draws different ones."""

    def __init__(
        self, utterances: Sequence[EncodedUtterance], builder: ConversationBuilder, positions: int, seed: int
    ) -> None:
        self._utterances, self._builder, self._positions, self._seed = utterances, builder, positions, seed

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        seed = self._seed if worker is None else 1_000_003 * (worker.id + 1) + self._seed
        return iter(ConversationSampler(self._utterances, self._builder, self._positions, seed))


def conversation_batches(
    utterances: Sequence[EncodedUtterance], builder: ConversationBuilder, positions: int, *, seed: int, workers: int
) -> Iterator[Batch]:
    """Yield the batches of a `ConversationSampler`, or in turn those of one in each of `workers` processes."""
    return prefetched(_Batches(utterances, builder, positions, seed), workers)
