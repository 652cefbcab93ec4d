"""A straightforward implementation of an S2-like model, and the engine's speed relative to it on this machine.

    python -m benchmarks.speed.reference_baseline [--model FOLDER] [--device cpu] [--threads N] [--runs 5]

`ReferenceBaseline` shares the release's weights, precision, prompts and text normalisation with the engine, and does
everything else like a plain port of the published reference:

- requests run one after another, without batches and with nothing compiled or captured;
- every request encodes its reference clip again and prefills its whole prompt in one pass; every further segment of a
  text prefills the whole conversation again;
- keys and values are allocated for all positions of the model (`max_seq_len`), and every step attends to all of them
  with a mask, with the key/value heads repeated for each of their queries;
- the logits of the whole vocabulary are computed for each semantic token, and of the Fast AR's whole vocabulary for
  each residual code; invalid codes are masked afterwards;
- the Fast AR processes a frame position by position, in ten passes for ten codebooks;
- sampling sorts the whole vocabulary, and each sample is fetched to the host before the next one;
- audio is sent every 20 frames, by decoding the whole take again from its start.

It has no other waits or copies, and its greedy codes equal the engine's.

A request's time counts from the call to the last sample. The engine uses a saved voice, encoded once; the part of the
baseline's first audio that is encoding has a column of its own. Both speak the same texts with the same seeds in turn,
but their noise and so their takes differ, so ratios are between medians.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks._report import Cell
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.speed._shared import Table, engine_parser, keep, model_name
from benchmarks.speed.plain_model import PlainModel
from engine.audio import prepare_reference, transcript_for
from engine.codec.codec import CodecDecoder, CodecEncoder
from engine.families.family import PromptReference
from engine.families.s2.codec import codec_files, load_codec_decoder, load_codec_encoder
from engine.families.s2.dual_ar import DualAR, load_dual_ar, read_config
from engine.families.s2.prompt import PromptBuilder
from engine.families.s2.release import S2Architecture
from engine.models.sampling import SamplingOptions
from engine.release.hub import find_release
from engine.release.profile import Profile
from engine.serving.memory import activation_dtype, choose_precision
from engine.text import clean_text, frame_budget
from training.work import exit_with_message

CHUNK_FRAMES = 20
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Figures:
    """Figures of one request. Times are in seconds from the call.

    seconds: length of the audio. first_frames: frames in the first chunk. encoding: time until the reference clip was
    encoded; 0 if it was encoded before.
    """

    frames: int
    seconds: float
    first_frames: int
    first_audio: float
    elapsed: float
    encoding: float = 0.0

    @property
    def frames_per_second(self) -> float:
        return self.frames / self.elapsed

    @property
    def frames_per_second_after(self) -> float:
        """Frames per second after the first chunk, or of the whole request if there was only one chunk."""
        if self.frames == self.first_frames:
            return self.frames_per_second
        return (self.frames - self.first_frames) / (self.elapsed - self.first_audio)

    @property
    def real_time_factor(self) -> float:
        return self.elapsed / self.seconds


class ReferenceBaseline:
    """A loaded release with the plain implementation, for one request at a time. Create it with `load`.

    last: the figures of the last finished request.
    """

    def __init__(
        self, model: DualAR, encoder: CodecEncoder, decoder: CodecDecoder, *, profile: Profile | None = None
    ) -> None:
        self._model = PlainModel(model, decoder.config.quantizer.codebook_size)
        self._encoder, self._decoder = encoder, decoder
        self._prompt = PromptBuilder(model.tokenizer, model.config.num_codebooks)
        self._codec, self._profile = decoder.config, profile or Profile()
        self.last: Figures | None = None

    @classmethod
    def load(cls, model: str | Path = "bundled", device: str = "cpu") -> "ReferenceBaseline":
        """Load a release in the precision that the engine chooses for the device. Raises ReleaseError."""
        folder = find_release(model)
        precision = choose_precision(device, S2Architecture(read_config(folder), codec_files(folder)[1]))
        dual_ar = load_dual_ar(folder, dtype=activation_dtype(precision, device), device=device)
        path, config = codec_files(folder)
        views = load_codec_encoder(path, config, device), load_codec_decoder(path, config, device)
        return cls(dual_ar, *views, profile=Profile.load(folder))

    def speak(
        self,
        text: str,
        reference: tuple[bytes | Path, str],
        *,
        seed: int,
        max_frames: int | None = None,
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the take in chunks of samples, float32 mono at the codec's rate.

        Args:
            reference: a clip, as a file's bytes or its path, and its transcript.
            max_frames: limit for the whole take.

        Raises UnusableReference, InvalidText, and ValueError for a conversation longer than the model's positions.
        """
        began, sent, first = time.perf_counter(), 0, (0, 0.0)
        prompt = self._system(*reference)
        encoding = time.perf_counter() - began
        codes: list[list[int]] = []
        for _ in self._codes(text, prompt, codes, seed, max_frames, SamplingOptions()):
            if len(codes) - sent == CHUNK_FRAMES:
                chunk, sent = self._decode(codes, sent), len(codes)
                first = first if first[0] else (sent, time.perf_counter() - began)
                yield chunk
        if len(codes) > sent:
            chunk = self._decode(codes, sent)
            first = first if first[0] else (len(codes), time.perf_counter() - began)
            yield chunk
        self.last = Figures(
            len(codes), len(codes) / self._codec.frame_rate, *first, time.perf_counter() - began, encoding
        )

    def _system(self, source: bytes | Path, transcript: str) -> Tensor:
        """Return the system turn's columns, encoding the clip again for each request."""
        clip = prepare_reference(source, self._codec.sample_rate, device=self._model.device)
        spoken, _note = transcript_for(clip, clean_text(transcript))
        codes = self._encoder.encode(clip.samples[None, None])[0]
        return self._prompt.system([PromptReference(spoken, codes.cpu())])

    def _codes(
        self,
        text: str,
        prompt: Tensor,
        codes: list[list[int]],
        seed: int,
        most: int | None,
        options: SamplingOptions,
    ) -> Iterator[None]:
        """Append one frame to `codes` per iteration. Every segment is a turn after all previous ones."""
        generator = torch.Generator(self._model.device).manual_seed(seed)
        for segment in self._profile.segmentation.plan(text):
            prompt = torch.cat((prompt, self._prompt.user(segment.text)), dim=1)
            if (room := self._model.positions - prompt.shape[1]) < 1:
                raise ValueError(f"The model has {self._model.positions} positions; the text needs more.")
            begun = len(codes)
            budget = min(frame_budget(segment.text, self._codec.frame_rate), room)
            budget = budget if most is None else min(budget, most - begun)
            for frame in self._model.frames(prompt, budget, options, generator):
                codes.append(frame)
                yield
            said = torch.tensor(codes[begun:]).view(-1, self._codec.num_codebooks).T
            prompt = torch.cat((prompt, self._prompt.frames(said), self._prompt.turn_end()), dim=1)

    def _decode(self, codes: list[list[int]], sent: int) -> NDArray[np.float32]:
        """Decode the whole take again, and return the samples of the frames that were not sent yet."""
        audio = self._decoder.decode(torch.tensor(codes, device=self._model.device).T[None])[0, 0]
        samples: NDArray[np.float32] = audio[sent * self._codec.frame_length :].float().cpu().numpy()
        return samples


def speak_plainly(baseline: ReferenceBaseline, text: str, reference: tuple[bytes | Path, str], seed: int) -> Figures:
    """Run one request with the baseline. Return its figures."""
    for _ in baseline.speak(text, reference, seed=seed):
        pass
    assert baseline.last is not None
    return baseline.last


def speak_with_engine(engine: Any, text: str, voice: Any, options: Any) -> Figures:
    """Run the same request with an `Engine`, timed from outside like the baseline. Return its figures."""
    began, first_frames, first_audio = time.perf_counter(), 0, 0.0
    speech = engine.speak(text, voice, options)
    for chunk in speech:
        if not first_frames:
            first_frames, first_audio = chunk.frames, time.perf_counter() - began
    elapsed, result = time.perf_counter() - began, speech.result
    if result is None or not result.frames:
        raise RuntimeError("the engine said nothing")
    return Figures(result.frames, result.seconds, first_frames, first_audio, elapsed)


def medians(runs: list[Figures]) -> dict[str, float]:
    """Return the medians of the reported figures over the runs."""
    return {
        "audio_s": statistics.median(run.seconds for run in runs),
        "frames_per_second": statistics.median(run.frames_per_second for run in runs),
        "frames_per_second_after": statistics.median(run.frames_per_second_after for run in runs),
        "real_time_factor": statistics.median(run.real_time_factor for run in runs),
        "first_audio_s": statistics.median(run.first_audio for run in runs),
        "encoding_s": statistics.median(run.encoding for run in runs),
    }


# Compared figures, and whether higher is better.
COMPARED = {
    "frames_per_second": True,
    "frames_per_second_after": True,
    "real_time_factor": False,
    "first_audio_s": False,
}


def ratios(baseline: dict[str, float], engine: dict[str, float]) -> dict[str, float]:
    """Return the engine's advantage as a factor, by figure."""
    return {
        name: engine[name] / baseline[name] if more_is_better else baseline[name] / engine[name]
        for name, more_is_better in COMPARED.items()
    }


def in_turn(count: int, *programs: Callable[[int], Measured]) -> list[list[Measured]]:
    """Alternate runs of the implementations with seeds 1 to `count`, so that load on the machine affects all."""
    found: list[list[Measured]] = [[] for _ in programs]
    for seed in range(1, count + 1):
        for runs, program in zip(found, programs, strict=True):
            runs.append(program(seed))
    return found


LISTENERS = 4


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure baseline and engine in turn, by text; then four requests in turn, sequential with the baseline and
    concurrent with the engine.

    Each uses its own number of PyTorch threads. The engine chooses a smaller one, because it generates frames and
    decodes audio at the same time.
    """
    # Imported here because these modules import the engine, which the baseline does not need.
    from benchmarks.random_release import random_weights
    from benchmarks.speed.speaking import TEXTS
    from engine.engine import Engine
    from engine.options import SpeakOptions

    speaker = EvaluationSet.load().speakers[0]
    reference = (speaker.reference.path, speaker.reference.text)
    threads = torch.get_num_threads()
    with random_weights(options.model):
        baseline = ReferenceBaseline.load(options.model, options.device)
        engine = Engine.load(options.model, options.device)
    engine_threads = torch.get_num_threads()
    voice = engine.encode_voice(speaker.name, [reference]).voice

    def plainly(text: str, seed: int) -> Figures:
        torch.set_num_threads(threads)
        return speak_plainly(baseline, text, reference, seed)

    def engaged(text: str, seed: int) -> Figures:
        torch.set_num_threads(engine_threads)
        return speak_with_engine(engine, text, voice, SpeakOptions(seed=seed))

    found: dict[str, Any] = {"threads": threads, "engine_threads": engine_threads, "texts": {}}
    for name, text in TEXTS.items():
        programs = [partial(program, text) for program in (plainly, engaged)]
        for program in programs:
            program(0)  # warm-up
        plain, ours = map(medians, in_turn(options.runs, *programs))
        found["texts"][name] = {"baseline": plain, "engine": ours, "ratios": ratios(plain, ours)}
    found["listeners"] = many(partial(plainly, text), partial(engaged, text), options.runs)
    engine.close()
    return found


def many(plainly: Callable[[int], Figures], engaged: Callable[[int], Figures], runs: int) -> dict[str, float]:
    """Measure the total frames per second of LISTENERS requests in turn, sequential with the baseline and concurrent
    with the engine. Return the medians over the runs, each of which has its own seeds."""

    def seeds(run: int) -> range:
        return range(run * LISTENERS, (run + 1) * LISTENERS)

    def one_by_one(run: int) -> float:
        began = time.perf_counter()
        return sum(plainly(seed).frames for seed in seeds(run)) / (time.perf_counter() - began)

    def at_once(run: int) -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(LISTENERS) as pool:
            return sum(each.frames for each in pool.map(engaged, seeds(run))) / (time.perf_counter() - began)

    plain, ours = map(statistics.median, in_turn(runs, one_by_one, at_once))
    return {"requests": LISTENERS, "runs": runs, "baseline": plain, "engine": ours, "ratio": ours / plain}


def _parse() -> argparse.Namespace:
    made = engine_parser(__doc__)
    made.add_argument("--threads", type=int, help="of torch, for the plain port; as the machine has cores by default")
    made.add_argument("--runs", type=int, default=5)
    return made.parse_args()


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    title = f"{found['model']} on {found['device']}, medians of {found['runs']} runs"
    columns = ["", "audio", "frames/s", "real-time factor", "first audio", "of it encoding the clip"]
    rows = [row for name, of in found["texts"].items() for row in _rows(name, of)]
    all_ = found["listeners"]
    for who, value in (
        ("plain port, one by one", f"{all_['baseline']:.1f}"),
        ("engine, at once", f"{all_['engine']:.1f}"),
        ("engine ahead", f"× {all_['ratio']:.2f}"),
    ):
        rows.append([f"{all_['requests']} requests, {who}", None, value, None, None, None])
    return Table(title, columns, rows, list(_notes(found)))


def _rows(name: str, of: Mapping[str, Any]) -> Iterator[list[Cell]]:
    for who, key in (("plain port", "baseline"), ("engine", "engine")):
        figures = of[key]
        yield [
            f"{name}, {who}",
            f"{figures['audio_s']:.1f} s",
            f"{figures['frames_per_second']:.1f}",
            f"{figures['real_time_factor']:.3f}",
            f"{figures['first_audio_s'] * 1000:.0f} ms",
            f"{figures['encoding_s'] * 1000:.0f} ms" if figures["encoding_s"] else None,
        ]
    ahead = [f"× {of['ratios'][key]:.2f}" for key in ("frames_per_second", "real_time_factor", "first_audio_s")]
    yield [f"{name}, engine ahead", None, *ahead, None]


def _notes(found: Mapping[str, Any]) -> Iterator[str]:
    yield "The plain port encodes its clip in each request; the engine's voice is saved."
    all_ = found["listeners"]
    runs = all_.get("runs", 1)
    yield f"{all_['requests']} requests: {f'medians of {runs} runs' if runs > 1 else 'one run'}."
    if "engine_threads" in found:
        yield f"Threads of torch: {found['threads']} in the plain port, {found['engine_threads']} in the engine."


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    if options.threads:
        torch.set_num_threads(options.threads)
    about = {"model": model_name(options.model), "device": options.device, "runs": options.runs}
    found = {**about, **measure(options)}
    table(found).show()
    keep("reference_baseline", found)


if __name__ == "__main__":
    with exit_with_message():
        main()
