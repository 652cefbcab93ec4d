"""Word timings of a turn, from an attention head that was trained to follow the phones.

The head's attention at the position before a frame indicates which phone the frame speaks (guided attention as in
Tachibana, Uenoyama and Aihara, arXiv:1710.08969, towards the known phones). The best monotonic path through the
attention assigns frames to phones, and thus to words.
"""

import itertools
import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from engine.families.family import AlignedWord, Alignment
from engine.families.s2.prompt import PromptBuilder
from engine.families.s2.slow_ar import SlowAR
from engine.models.prompt import Prompt
from engine.models.transformer import TransformerBlock
from engine.text.tags import word_spans

MAX_SKIPPED = 4  # phones skipped within one 46 ms frame
_SKIP_COST = 2.0  # nats per skipped phone
_FEW_TOKENS = 5  # of a short text: four phones and a mark
_ATTENTION_FLOOR = 1e-4  # floor of the attention, so that no path is impossible


class AttentionAligner:
    """Aligns turns of one loaded model. Thread-safe: it only reads the weights."""

    def __init__(self, slow: SlowAR, prompts: PromptBuilder, head: tuple[int, int]) -> None:
        """head: layer and query head that were trained to follow the phones."""
        self._slow, self._prompts = slow, prompts
        self._layer, self._head = head

    @torch.inference_mode()
    def align(self, prompt: Prompt, text: str, codes: Tensor) -> Alignment:
        """Return the frames of each word of `text` in `codes [K, T]`, which were generated for `prompt`."""
        attention, spans = self._attention(prompt, text, codes), spoken_spans(self._prompts, text)
        frames, tokens = attention.shape
        if not frames or not tokens or not spans:
            return Alignment((), frames)
        frames = frames_before_repetition(attention.argmax(dim=1).tolist(), tokens, last_word=spans[-1][2])
        states = monotonic_path(attention[:frames].clamp(min=_ATTENTION_FLOOR).log())
        # reached[i]: the first frame that speaks token i or a later one.
        reached = torch.searchsorted(states, torch.arange(tokens + 1)).tolist()
        words = [
            AlignedWord(text[start:end], start, reached[first], reached[last]) for start, end, first, last in spans
        ]
        return Alignment(words, frames)

    def _attention(self, prompt: Prompt, text: str, codes: Tensor) -> Tensor:
        """Return the head's attention from the position before each frame to the text's tokens: fp32 `[T, N]`, CPU."""
        columns = torch.cat((prompt.columns, self._prompts.frames(codes[:, :-1])), dim=1)
        x, rope = self._slow.embed_prompt(columns[None]), self._slow.rope[: columns.shape[1], None]
        for i, block in enumerate(self._slow.layers[: self._layer]):
            x = block(x, rope, None, i)
        block = self._slow.layers[self._layer]
        assert isinstance(block, TransformerBlock)
        q, k = block.attention.project_head(block.attention_norm(x), rope, self._head)
        first, count = self._prompts.place_of(text, prompt)
        scores = q[0, prompt.columns.shape[1] - 1 :] @ k[0, first : first + count].T / math.sqrt(q.shape[-1])
        return scores.float().softmax(-1).cpu()


def frames_before_repetition(tokens: Sequence[int], count: int, last_word: int) -> int:
    """Return the number of frames before the end of the text is spoken again; that of all frames if it is not.

    A model that misses the end of a text, most often one of a single word, may speak the text or its last words again:
    the attention then stays at the last phone or mark, goes back, and comes through the last phone to the mark again.
    In a text of few phones it wavers before the mark, and after it while the last sound fades.

    Args:
        tokens: index of the token that each frame attends to most. count: number of tokens of the text, the last of
            which is a mark.
        last_word: index of its last word's first token.
    """
    mark, back = count - 1, min(last_word + 1, max(0, count - 4))
    last_phone, is_short = mark - 1, count <= _FEW_TOKENS
    steps = list(itertools.pairwise(tokens))
    reached = next((at for at, pair in enumerate(steps) if min(pair) >= (mark if is_short else last_phone)), len(steps))
    for at in range(reached + 2, len(steps)):
        goes_back = tokens[at] <= back and (is_short or tokens[at + 1] < last_phone)
        if goes_back and mark in (rest := tokens[at + 1 :]) and last_phone in rest[: rest.index(mark)]:
            return at - 1  # the frame in whose place the speech should have ended
    return len(tokens)


def spoken_spans(prompts: PromptBuilder, text: str) -> list[tuple[int, int, int, int]]:
    """Return start and end of each spoken word of a text, and its first token and the one after its last phone."""
    turn = prompts.speech_ids(text)
    found, first, before = list[tuple[int, int, int, int]](), 0, list[int]()
    for start, end in word_spans(text):
        read = prompts.speech_ids(text[:end])[:-1]  # without the mark at the end
        if read in (before, turn[:first][: len(read)]) or first >= len(turn):  # a dash adds no phones
            continue
        digits = " ".join(sign for sign in text[start:end] if sign.isdigit() or sign == "+")
        one_by_one = prompts.speech_ids(digits)[:-1] if len(digits) > 1 else []
        last = _end_of_word(turn, read, prompts.speech_ids(text[end:]), one_by_one, first, prompts.word_ends)
        found.append((start, end, first, last))
        first, before = last + 1, read  # after the word break or mark
    return found


def _end_of_word(
    turn: list[int], read: list[int], rest: list[int], digits: list[int], first: int, ends: Collection[int]
) -> int:
    """Return where a word ends among the tokens of its turn: always at a word break or mark.

    The words up to here and those after it are also read on their own. Either reading may differ from the turn, because
    how a word is read depends on its neighbours: "$5" and "million", "Jan" and "5". Both do within a telephone number,
    "555 123 4567".

    Args:
        read: tokens up to here, read on their own. rest: tokens after it. digits: tokens of the word's digits, read one
            by one. first: the word's first token. ends: tokens that end a word.
    """
    same = next((at for at, (one, other) in enumerate(zip(turn, read, strict=False)) if one != other), len(read))
    if same == len(read) < len(turn) and turn[same] in ends:
        return same
    after = len(turn) - len(rest)
    if first < after - 1 and turn[after:] == rest and turn[after - 1] in ends:
        return after - 1
    spelled = first + len(digits)
    if digits and turn[first:spelled] == digits and spelled < len(turn) and turn[spelled] in ends:
        return spelled
    return next((at for at in range(max(same - 1, first + 1), len(turn)) if turn[at] in ends), len(turn))


def monotonic_path(scores: Tensor) -> Tensor:
    """Return the best path that never goes back (Viterbi).

    scores: `[T, N]`, the log-probability of token n at frame t. Returns: the token of each frame, int64 `[T]`. Skipped
    tokens have a cost, also before the first frame's token and after the last frame's.
    """
    frames, tokens = scores.shape
    best = scores[0] - _SKIP_COST * torch.arange(tokens, dtype=torch.float32)
    steps = torch.zeros(frames, tokens, dtype=torch.long)
    by_step = [0.0, *(_SKIP_COST * skipped for skipped in range(1 + MAX_SKIPPED))]
    costs = torch.tensor(by_step, dtype=torch.float32)[:tokens]
    for frame in range(1, frames):
        before = torch.cat((best.new_full((len(costs) - 1,), -math.inf), best))
        arrivals = torch.stack([before[len(costs) - 1 - step :][:tokens] - costs[step] for step in range(len(costs))])
        best, steps[frame] = arrivals.max(dim=0)
        best = best + scores[frame]
    unsaid = torch.arange(tokens, dtype=torch.float32).flip(0)
    token = int((best - _SKIP_COST * unsaid).argmax())
    path = torch.empty(frames, dtype=torch.long)
    for frame in range(frames - 1, -1, -1):
        path[frame] = token
        token -= int(steps[frame, token])
    return path
