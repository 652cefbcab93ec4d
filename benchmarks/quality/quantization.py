"""Compare a release with quantized weights to the unquantized one, and check that the figures stay within bounds.

    python -m benchmarks.quality.quantization [--model FOLDER] [--precision int8] [--device cpu] [--turns 32] [--words]

The unquantized model speaks held-out sentences in held-out voices, sampled with fixed seeds. Both models are then
teacher-forced on these frames and their next codes are compared, so that errors do not accumulate. The quantized model
also speaks the same sentences with the same seeds, to compare the share of turns that end and, with `--words`, the word
error rate of a recogniser (for models that speak English).

Both compute in the same dtype: bf16 on GPUs (fp16 on those without it), fp32 on CPUs.

Exits with 1 when a figure is outside its bounds:

| precision | greedy codes equal | turns that end, against unquantized | word error, against unquantized |
|---|---|---|---|
| int8 | at least 95 % | within 5 points | at most 10 points more |
| fp8 | at least 92 % | within 5 points | at most 10 points more |
| int4 | at least 90 % | within 5 points | at most 10 points more |

The bounds leave some margin to the figures for 32 turns of the bundled model: 98.3 % for int8, 95.3 % for fp8, 95.0 %
for int4 (groups of 64, Fast AR int8, without its GPU kernel). fp32 against bf16 gives 97.6 %, so int8 changes no more
than the choice of dtype. The word error of 32 turns differed by 4 points between two sets of seeds of the same model,
so a bound much below 10 points would reject good weights by chance.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
import torchaudio.functional as AF
from torch import Tensor

from benchmarks import _report
from benchmarks.evaluation_set import EvaluationSet, Speaker
from benchmarks.speed._shared import engine_parser, model_name
from engine.families.family import PromptReference
from engine.families.s2.codec import codec_files, load_codec_decoder, load_codec_encoder
from engine.families.s2.dual_ar import DualAR, load_dual_ar
from engine.families.s2.prompt import PromptBuilder
from engine.models.kv_cache import ContiguousView
from engine.models.quantization import QUANTIZED, Precision
from engine.release.hub import find_release
from engine.serving.memory import activation_dtype, held_bytes
from training.work import exit_with_message

TEMPERATURE, TOP_K = 0.7, 30
MOST_FRAMES = 256  # per turn


@dataclass(frozen=True)
class Bounds:
    """Bounds of a precision.

    codes: least share of equal greedy codes. ends: greatest difference in the share of turns that end. words: greatest
    increase of the word error rate.
    """

    codes: float
    ends: float = 0.05
    words: float = 0.10


BOUNDS: dict[Precision, Bounds] = {"int8": Bounds(0.95), "fp8": Bounds(0.92), "int4": Bounds(0.90)}


@dataclass(frozen=True)
class Turn:
    """A turn to speak: the prompt's columns int64 `[K + 1, P]`, its text and the seed."""

    prompt: Tensor
    text: str
    seed: int


@dataclass(frozen=True)
class Take:
    """A spoken turn: codes int64 `[T, K]`, and whether the model ended it."""

    codes: Tensor
    ended: bool


@dataclass(frozen=True)
class Figures:
    """Figures as shares of 1.

    semantic: equal semantic codes; the end of a turn counts as a code. ends, words: of the unquantized and the
    quantized model. words: word error rates, nan when not measured.
    """

    semantic: float
    residual: float
    codes: float
    ends: tuple[float, float]
    words: tuple[float, float]


class Speech:
    """Frame-by-frame generation and prediction with a loaded release."""

    def __init__(self, model: DualAR, residual_size: int) -> None:
        self._slow, self._fast, self._start = model.slow, model.fast, model.config.semantic_start_id
        self._end, self._size = model.config.semantic_codebook_size, residual_size
        self._device = model.slow.norm.weight.device

    @torch.inference_mode()
    def speak(self, turn: Turn) -> Take:
        """Speak a turn, sampled with its seed, until it ends or for `MOST_FRAMES` frames."""
        generator = torch.Generator().manual_seed(turn.seed)
        cache, start = self._slow.new_cache(1, turn.prompt.shape[1] + MOST_FRAMES), 0
        columns = turn.prompt.to(self._device)
        frames: list[Tensor] = []
        while len(frames) < MOST_FRAMES:
            normed, hidden = self._slow(columns[None], ContiguousView(cache, start))
            start += columns.shape[1]
            semantic = sample(self._slow.logits(normed[:, -1]), generator)
            if int(semantic) == self._end:
                break
            codes = self._fast.generate(
                hidden[:, -1], semantic, lambda logits, _codebook: sample(logits, generator), self._size
            )
            frames.append(codes[0].cpu())
            columns = torch.cat((codes[0, :1] + self._start, codes[0]))[:, None]
        return Take(
            torch.stack(frames) if frames else turn.prompt.new_zeros(0, len(turn.prompt) - 1), len(frames) < MOST_FRAMES
        )

    @torch.inference_mode()
    def predict(self, turn: Turn, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Predict codes teacher-forced on `codes` `[T, K]`.

        Return the likeliest semantic code of each frame and after the last one `[T + 1]`, and the likeliest residual
        codes of each frame `[T, K - 1]`.
        """
        spoken = torch.cat((codes[:, :1] + self._start, codes), dim=1).T
        normed, hidden = self._slow(torch.cat((turn.prompt, spoken), dim=1)[None].to(self._device))
        before = turn.prompt.shape[1] - 1
        semantic = self._slow.logits(normed[0, before:]).argmax(-1)
        residual = self._fast.logits(hidden[0, before:-1], codes.to(self._device), self._size).argmax(-1)
        return semantic.cpu(), residual.cpu()


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Sample a value `[1]` among the `TOP_K` likeliest of logits `[1, V]`.

    The number of random draws does not depend on the logits, so that equal seeds give comparable takes of both models.
    """
    ranked, order = logits.float().topk(min(TOP_K, logits.shape[-1]))
    noise = torch.empty(ranked.shape).exponential_(generator=generator).to(ranked.device)
    drawn = ((ranked / TEMPERATURE).softmax(-1) / noise).argmax(-1, keepdim=True)
    return order.gather(-1, drawn)[:, 0]


def turns(data: EvaluationSet, folder: Path, model: DualAR, device: str) -> Iterator[Turn]:
    """Yield turns with held-out sentences, the voices in turn, each cloned from its reference."""
    path, config = codec_files(folder)
    encoder = load_codec_encoder(path, config, device=device)
    prompts = PromptBuilder(model.tokenizer, model.config.num_codebooks)

    def voice(speaker: Speaker) -> Tensor:
        samples, rate = speaker.reference.read()
        wave = AF.resample(torch.from_numpy(samples), rate, config.sample_rate).to(device)
        return prompts.system([PromptReference(speaker.reference.text, encoder.encode(wave[None, None])[0].cpu())])

    voices = [voice(speaker) for speaker in data.speakers]
    seed = 0
    for clips in zip(*(speaker.sentences for speaker in data.speakers), strict=False):
        for system, clip in zip(voices, clips, strict=True):
            yield Turn(torch.cat((system, prompts.user(clip.text)), dim=1), clip.text, seed)
            seed += 1


def compare(plain: Speech, quantized: Speech, all_turns: Sequence[Turn]) -> tuple[Figures, list[Take], list[Take]]:
    """Return the figures without word error, and both models' takes."""
    plain_takes = [plain.speak(turn) for turn in all_turns]
    quantized_takes = [quantized.speak(turn) for turn in all_turns]
    semantic, residual = [], []
    for turn, take in zip(all_turns, plain_takes, strict=True):
        ours, theirs = plain.predict(turn, take.codes), quantized.predict(turn, take.codes)
        semantic.append(ours[0] == theirs[0])
        residual.append((ours[1] == theirs[1]).flatten())
    ends = (_share([take.ended for take in plain_takes]), _share([take.ended for take in quantized_takes]))
    everything = torch.cat([*semantic, *residual])
    found = Figures(
        _mean(torch.cat(semantic)), _mean(torch.cat(residual)), _mean(everything), ends, (math.nan, math.nan)
    )
    return found, plain_takes, quantized_takes


def word_errors(
    data: EvaluationSet, folder: Path, all_turns: Sequence[Turn], takes: Sequence[Take], device: str
) -> float:
    """Measure the word error rate of takes with CMU Sphinx and the domain language model."""
    from benchmarks.judges.sphinx import SphinxRecogniser
    from benchmarks.judges.words import word_error_rate
    from benchmarks.judges.words import word_errors as errors_of

    path, config = codec_files(folder)
    decoder = load_codec_decoder(path, config, device=device)
    judge = SphinxRecogniser.domain(data.domain, data.vocabulary())

    def heard(take: Take) -> str:
        if not len(take.codes):
            return ""
        return judge.hear(decoder.decode(take.codes.T[None].to(device))[0, 0].cpu().numpy(), config.sample_rate)

    return word_error_rate(errors_of(turn.text, heard(take)) for turn, take in zip(all_turns, takes, strict=True))


def failures(found: Figures, bounds: Bounds) -> list[str]:
    """Return one sentence for each figure outside its bounds."""
    sentences = []
    if found.codes < bounds.codes:
        sentences.append(f"{found.codes:.1%} of the greedy codes are equal; at least {bounds.codes:.0%} must be.")
    if abs(found.ends[1] - found.ends[0]) > bounds.ends:
        sentences.append(
            f"{found.ends[1]:.1%} of the turns end against {found.ends[0]:.1%}; {bounds.ends:.0%} may differ."
        )
    if found.words[1] - found.words[0] > bounds.words:
        sentences.append(
            f"Word error is {found.words[1]:.1%} against {found.words[0]:.1%}; {bounds.words:.0%} may be lost."
        )
    return sentences


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def _mean(equal: Tensor) -> float:
    return float(equal.float().mean())


def _parse() -> argparse.Namespace:
    parser = engine_parser(__doc__, device="cpu")
    parser.add_argument("--precision", choices=QUANTIZED, default="int8")
    parser.add_argument("--turns", type=int, default=32, help="how many sentences")
    parser.add_argument("--words", action="store_true", help="word error too (English, pocketsphinx)")
    return parser.parse_args()


def main() -> None:
    """Compare, print the table, save the figures, and exit with 1 outside the bounds."""
    options = _parse()
    folder, data = find_release(options.model), EvaluationSet.load()
    dtype = activation_dtype(options.precision, options.device)
    plain = load_dual_ar(folder, dtype=dtype, device=options.device)
    quantized = load_dual_ar(folder, dtype=dtype, device=options.device, precision=options.precision)
    residual_size = codec_files(folder)[1].quantizer.codebook_size
    chosen = list(islice(turns(data, folder, plain, options.device), options.turns))
    found, plain_takes, quantized_takes = compare(
        Speech(plain, residual_size), Speech(quantized, residual_size), chosen
    )
    if options.words:
        heard = [word_errors(data, folder, chosen, takes, options.device) for takes in (plain_takes, quantized_takes)]
        found = Figures(**{**asdict(found), "words": tuple(heard)})
    sizes = [held_bytes(model.slow) + held_bytes(model.fast) for model in (plain, quantized)]
    _show(options, found, sizes, str(dtype).removeprefix("torch."), len(chosen))
    if wrong := failures(found, BOUNDS[options.precision]):
        sys.exit("\n".join(wrong))


def _show(options: argparse.Namespace, found: Figures, sizes: Sequence[int], dtype: str, count: int) -> None:
    rows: list[list[_report.Cell]] = [
        ["greedy semantic codes equal", None, found.semantic],
        ["greedy residual codes equal", None, found.residual],
        ["greedy codes equal", None, found.codes],
        ["turns that end", *found.ends],
        ["word error, domain model", *(None if math.isnan(value) else value for value in found.words)],
        ["both transformers, MB", *(size / 1e6 for size in sizes)],
    ]
    model = model_name(options.model)
    _report.print_table(f"{model}: {count} turns", ["", dtype, options.precision], rows)
    figures = asdict(found) | {"words": None if math.isnan(found.words[0]) else found.words}
    _report.save(
        f"quantization-{model}-{options.precision}",
        {"model": model, "precision": options.precision, "dtype": dtype, "turns": count, "bytes": sizes, **figures},
    )


if __name__ == "__main__":
    with exit_with_message():
        main()
