"""Make the training speech: sentences spoken by the teachers, warped into many speakers, with the times of all
tokens.

    python -m training.speech.synthesize --work DIR --hours 5 --seed 1

Writes `DIR/data/audio-NNN.npy` (int16 at 22,050 Hz, utterances concatenated), `index-NNN.jsonl` and `speakers.json`,
which `training/speech/corpus.py` reads. Shard 000 holds the test renderings, the others about 20 minutes of training
speech each. A shard depends only on the seed and its number. Existing shards are kept, so a run can be interrupted,
and more hours add shards. Flite and espeak-ng keep the state of their noise generators for the life of a process, so
each shard is rendered in its own process.

The warps use WORLD (Morise, Yokomori and Ozawa, 2016) through `pyworld`.
"""

import argparse
import itertools
import json
import multiprocessing
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.text.english.pronunciation import MARKS, WORD_BREAK, Lexicon
from training.speech.corpus import SAMPLE_RATE
from training.speech.lexicon import LEXICON
from training.speech.resampling import resampled
from training.speech.sample_voices import sample_speakers
from training.speech.sentences import held_out_sentences, training_sentences
from training.speech.speakers import SHARES, WOMEN, Engine, Speaker, speakers
from training.speech.teachers import Espeak, Festival, Flite, SynthesizedUtterance
from training.work import DEFAULT_WORK, cores, exit_with_message, positive, positive_int, replaced

if TYPE_CHECKING:
    from training.speech.kokoro import Kokoro


_SHORTEST, _LONGEST = 0.8, 5.5  # seconds
_SILENT = 150.0  # mean magnitude up to which samples are silence
_LEAD, _TAIL = 0.06, 0.12  # seconds of silence left at either end
_LEVEL = 2600  # target RMS of the louder samples, full scale is 32,767
_PEAK = 30000
_WORDS_PER_MINUTE = 165
_BATCH = 48  # sentences for one Festival process


@dataclass(frozen=True)
class CorpusSpec:
    """Speech of a corpus: its amount and its speakers.

    hours: training speech, in shards of `shard_seconds`, rendered in batches of `at_once` jobs.
    references, tests: utterances of each held-out speaker. seen_tests: test sentences by all other speakers together.
    trained, held_out: number of speakers per synthesizer, in order; None uses all.
    shares: share of the training utterances by synthesizer.
    sample_voices: share of the training utterances by the sample voices' speakers. Women's voices, which are harder for
        a small codec, are twice as frequent as men's.
    """

    hours: float = 11.0
    shard_seconds: int = 1200
    at_once: int = 100
    references: int = 14
    tests: int = 20
    seen_tests: int = 100
    trained: int | None = None
    held_out: int | None = None
    shares: Mapping[Engine, float] = field(default_factory=lambda: SHARES)
    sample_voices: float = 0.0

    @property
    def shards(self) -> int:
        """Number of training shards, at least one, without the test shard 000."""
        return max(1, round(self.hours * 3600 / self.shard_seconds))

    def speakers_of(self, engine: Engine, *, held_out: bool) -> list[Speaker]:
        """Return the held-out or the other speakers of a synthesizer."""
        group = [each for each in speakers() if each.engine == engine and each.held_out == held_out]
        return group[: self.held_out if held_out else self.trained]


@dataclass(frozen=True)
class Job:
    """One sentence and its speaker."""

    text: str
    speaker: Speaker
    test_sentence: bool


@dataclass(frozen=True)
class Rendered:
    """A finished utterance: int16 samples at 22,050 Hz, tokens and their starts in seconds."""

    job: Job
    samples: np.ndarray
    tokens: list[str]
    times: list[float]


def token_starts(tokens: list[str], segments: list[tuple[str, float]]) -> list[float]:
    """Find the start of every token, in seconds.

    Where the teacher's phones differ from the lexicon's, times are interpolated between matching phones.

    Args:
        tokens: tokens of `Lexicon.phones`.
        segments: (phone, end in seconds), `pau` for silence.

    Returns:
        One start per token, non-decreasing. A word break starts with the next phone, a mark at the end of the
        previous phone.
    """
    starts = [0.0] + [end for _, end in segments[:-1]]
    spoken = [(phone, start, end) for (phone, end), start in zip(segments, starts, strict=True) if phone != "pau"]
    wanted = [at for at, token in enumerate(tokens) if token != WORD_BREAK and token not in MARKS]
    matcher = SequenceMatcher(None, [tokens[at] for at in wanted], [phone for phone, _, _ in spoken], autojunk=False)
    pairs = [(block.a + step, block.b + step) for block in matcher.get_matching_blocks() for step in range(block.size)]
    pairs = [(-1, -1), *pairs, (len(wanted), len(spoken))]
    bounds = [start for _, start, _ in spoken] + [spoken[-1][2]]
    mine, theirs = zip(*pairs, strict=True)
    # Interpolate in units of the teacher's phones, so that tokens between two matching phones share their time
    # evenly.
    places = np.interp(np.arange(len(wanted) + 1), mine, theirs)
    phone_starts = np.interp(places, np.arange(len(bounds)), bounds)
    ends = [spoken[int(min(place, len(spoken) - 1))][2] for place in places]
    times, count = [], 0
    for token in tokens:
        if token in MARKS:
            times.append(ends[count - 1] if count else 0.0)
        else:
            times.append(float(phone_starts[count]))
            count += token != WORD_BREAK
    return [float(moment) for moment in np.maximum.accumulate(times)]


def warp(samples: np.ndarray, sample_rate: int, speaker: Speaker, tempo: float) -> np.ndarray:
    """Convert the teacher's speech to the speaker's voice by WORLD analysis and synthesis. Float64, same rate."""
    import pyworld  # needs a compiler; a machine that only trains has none

    signal = samples.astype(np.float64)
    rough, times = pyworld.dio(signal, sample_rate, f0_floor=60.0, f0_ceil=400.0, speed=2)
    f0 = pyworld.stonemask(signal, rough, times, sample_rate)
    envelope = pyworld.cheaptrick(signal, f0, times, sample_rate)
    aperiodicity = pyworld.d4c(signal, f0, times, sample_rate)
    aperiodicity = 1 - (1 - _stretched(aperiodicity, speaker.tract)) * (1 - speaker.breath)
    return np.asarray(
        pyworld.synthesize(
            _pitched(f0, speaker), _stretched(envelope, speaker.tract), aperiodicity, sample_rate, 5.0 / tempo
        )
    )


def _pitched(f0: np.ndarray, speaker: Speaker) -> np.ndarray:
    voiced = f0 > 0
    if not voiced.any():
        return f0
    median = np.median(f0[voiced])
    excursion = np.zeros_like(f0)
    excursion[voiced] = np.clip(f0[voiced] / median, 0.5, 2.0) ** speaker.depth
    return np.asarray(excursion * median * speaker.pitch)


def _stretched(spectrum: np.ndarray, factor: float) -> np.ndarray:
    """Multiply the frequencies of a spectrum [frames, bins] by `factor`."""
    bins = spectrum.shape[1]
    source = np.minimum(np.arange(bins) / factor, bins - 1.001)
    low = source.astype(int)
    part = source - low
    return np.ascontiguousarray(spectrum[:, low] * (1 - part) + spectrum[:, low + 1] * part)


def level(samples: np.ndarray) -> np.ndarray:
    """Scale samples to the corpus's level, as int16."""
    loud = samples[np.abs(samples) > 200]
    scale = _LEVEL / np.sqrt((loud**2).mean() + 1) if len(loud) else 1.0
    scale = min(scale, _PEAK / max(1.0, float(np.abs(samples).max())))
    return (samples * scale).astype(np.int16)


def trimmed(samples: np.ndarray) -> tuple[np.ndarray, float]:
    """Trim silence at both ends to a short margin. Return the samples (none if all is silent) and the seconds removed
    at the start."""
    envelope = np.convolve(np.abs(samples), np.full(220, 1 / 220), "same")
    loud = np.flatnonzero(envelope > _SILENT)
    if not len(loud):
        return samples[:0], 0.0
    first = max(0, int(loud[0] - _LEAD * SAMPLE_RATE))
    return samples[first : int(loud[-1] + _TAIL * SAMPLE_RATE)], first / SAMPLE_RATE


class CorpusRenderer:
    """The synthesizers, and the lexicon of their phones. One per process."""

    def __init__(self) -> None:
        self.lexicon = Lexicon.load(LEXICON)
        self._flite, self._festival, self._espeak = Flite(), Festival(), Espeak()

    @cached_property
    def _kokoro(self) -> "Kokoro":
        """Kokoro, imported and loaded on first use because it and PyTorch take seconds."""
        from training.recogniser.alignment import Aligner
        from training.speech.kokoro import Kokoro

        return Kokoro(self._espeak, Aligner())

    def render(self, jobs: list[Job], rng: random.Random) -> Iterator[Rendered]:
        """Render the jobs, omitting results that are too short or too long or have fewer than three phones."""
        for job, utterance in self._spoken(jobs, rng):
            rendered = self._finished(job, utterance, job.speaker.tempo * rng.uniform(0.96, 1.04))
            if rendered is not None:
                yield rendered

    def _spoken(self, jobs: list[Job], rng: random.Random) -> Iterator[tuple[Job, SynthesizedUtterance]]:
        batches: defaultdict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            voice = job.speaker.voice
            if job.speaker.engine == "festival":
                batches[voice].append(job)
            elif job.speaker.engine == "flite":
                yield job, self._flite.say(job.text, voice)
            elif job.speaker.engine == "kokoro":
                yield job, self._kokoro.say(job.text, voice, self.lexicon.phone_list(job.text), job.speaker.tempo)
            else:
                accent = "en-us" if rng.random() < 0.9 else "en-gb-x-rp"
                yield (
                    job,
                    self._espeak.say(job.text, f"{accent}+{voice}", pitch=job.speaker.setting, rate=_WORDS_PER_MINUTE),
                )
        for voice, batch in batches.items():
            for part in (batch[at : at + _BATCH] for at in range(0, len(batch), _BATCH)):
                yield from zip(part, self._festival.say_all([job.text for job in part], voice), strict=True)

    def _finished(self, job: Job, utterance: SynthesizedUtterance, tempo: float) -> Rendered | None:
        tokens = self.lexicon.phones(job.text).split()
        if len([1 for phone, _ in utterance.segments if phone != "pau"]) < 3:
            return None
        samples, pace = self._voiced(job.speaker, utterance, tempo)
        times = np.array(token_starts(tokens, utterance.segments)) / pace
        samples, cut = trimmed(samples)
        if not _SHORTEST * SAMPLE_RATE <= len(samples) <= _LONGEST * SAMPLE_RATE:
            return None
        length = len(samples) / SAMPLE_RATE
        return Rendered(job, level(samples), tokens, [round(float(t), 3) for t in np.clip(times - cut, 0, length)])

    @staticmethod
    def _voiced(speaker: Speaker, utterance: SynthesizedUtterance, tempo: float) -> tuple[np.ndarray, float]:
        """Return the utterance in the speaker's voice at 22,050 Hz, and its speed factor."""
        if speaker.engine == "espeak" or (speaker.engine == "kokoro" and speaker.pitch == 1.0):
            # Playing the samples faster raises pitch and envelope together; nothing else is changed here.
            target = round(SAMPLE_RATE / speaker.tract / 50) * 50
            samples = resampled(utterance.samples.astype(np.float64), utterance.sample_rate, target)
            return samples, SAMPLE_RATE / target
        rate = min(utterance.sample_rate, SAMPLE_RATE)
        samples = resampled(utterance.samples.astype(np.float64), utterance.sample_rate, rate)
        return resampled(warp(samples, rate, speaker, tempo), rate, SAMPLE_RATE), tempo


def training_jobs(shard: int, seed: int, lexicon: Lexicon, spec: CorpusSpec) -> Iterator[Job]:
    """Yield up to 100,000 jobs of a training shard: synthesizers by their shares, speakers in turn."""
    rng = random.Random(f"jobs {seed} {shard}")
    turns = {}
    for engine in spec.shares:
        group = spec.speakers_of(engine, held_out=False)
        rng.shuffle(group)
        turns[engine] = itertools.cycle(group)
    engines = rng.choices(list(spec.shares), list(spec.shares.values()), k=100_000)
    samples = sample_speakers()
    weights = [2 if speaker.voice in WOMEN else 1 for speaker in samples]
    for engine, text in zip(engines, training_sentences(seed * 1000 + shard, lexicon), strict=False):
        if spec.sample_voices and rng.random() < spec.sample_voices:
            yield Job(text, rng.choices(samples, weights)[0], False)
        else:
            yield Job(text, next(turns[engine]), False)


def jobs_of_test(seed: int, lexicon: Lexicon, spec: CorpusSpec) -> list[Job]:
    """Return the test shard's jobs: references and test sentences by held-out speakers, test sentences by others."""
    rng = random.Random(f"test {seed}")
    tests = held_out_sentences(lexicon)
    held = [speaker for engine in spec.shares for speaker in spec.speakers_of(engine, held_out=True)]
    seen = [speaker for engine in spec.shares for speaker in spec.speakers_of(engine, held_out=False)]
    references = training_sentences(seed * 1000, lexicon)
    jobs = [Job(next(references), speaker, False) for speaker in held for _ in range(spec.references)]
    for at, speaker in enumerate(held):
        jobs += [Job(tests[(at * spec.tests + step) % len(tests)], speaker, True) for step in range(spec.tests)]
    return jobs + [Job(tests[at % len(tests)], rng.choice(seen), True) for at in range(spec.seen_tests)]


def write_shard(shard: int, *, folder: Path, seed: int, spec: CorpusSpec) -> tuple[int, float, float]:
    """Make one shard unless it exists. Return its number, seconds of speech and seconds of work."""
    index = folder / f"index-{shard:03d}.jsonl"
    if index.exists():
        lines = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()]
        return shard, sum(line["samples"] for line in lines) / SAMPLE_RATE, 0.0
    began = time.monotonic()
    renderer, rng = CorpusRenderer(), random.Random(f"render {seed} {shard}")
    if shard == 0:
        made = list(renderer.render(jobs_of_test(seed, renderer.lexicon, spec), rng))
    else:
        made = _training_shard(renderer, training_jobs(shard, seed, renderer.lexicon, spec), rng, spec)
    _write(folder, shard, made)
    return shard, sum(len(item.samples) for item in made) / SAMPLE_RATE, time.monotonic() - began


def _training_shard(
    renderer: CorpusRenderer, jobs: Iterator[Job], rng: random.Random, spec: CorpusSpec
) -> list[Rendered]:
    made: list[Rendered] = []
    while sum(len(item.samples) for item in made) < spec.shard_seconds * SAMPLE_RATE:
        made += renderer.render(list(itertools.islice(jobs, spec.at_once)), rng)
    rng.shuffle(made)
    return made


def _write(folder: Path, shard: int, made: list[Rendered]) -> None:
    """Write the audio, then the index atomically, because an index marks a complete shard."""
    np.save(folder / f"audio-{shard:03d}.npy", np.concatenate([item.samples for item in made]))
    lines, offset = [], 0
    for item in made:
        lines.append(json.dumps({
            "text": item.job.text, "tokens": item.tokens, "times": item.times, "speaker": item.job.speaker.id,
            "shard": shard, "offset": offset, "samples": len(item.samples),
            "test_sentence": item.job.test_sentence, "held_out_speaker": item.job.speaker.held_out,
        }))  # fmt: skip
        offset += len(item.samples)
    with replaced(folder / f"index-{shard:03d}.jsonl") as unfinished:
        unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")


def synthesize(work: Path, spec: CorpusSpec, seed: int, workers: int) -> None:
    """Make the test shard and the training speech under `work/data`, in parallel processes."""
    folder = work.expanduser() / "data"
    folder.mkdir(parents=True, exist_ok=True)
    everyone = [asdict(speaker) for speaker in (*speakers(), *sample_speakers())]
    (folder / "speakers.json").write_text(json.dumps(everyone, indent=1), encoding="utf-8")
    render = partial(write_shard, folder=folder, seed=seed, spec=spec)
    began, total = time.monotonic(), 0.0
    processes = multiprocessing.get_context("forkserver")
    # Each process imports this module and what it uses, which takes seconds: do it only once.
    processes.set_forkserver_preload(["training.speech.synthesize", "scipy.signal"])
    # Inherited by the processes: if this module is the program, they run it again, and runpy warns that it is imported.
    sys.warnoptions.append("ignore::RuntimeWarning:runpy")
    with processes.Pool(workers, maxtasksperchild=1) as pool:
        for shard, seconds, took in pool.imap_unordered(render, range(1 + spec.shards)):
            total += seconds
            speed = f"{seconds / took:.0f} x real time" if took else "kept"
            print(f"shard {shard:03d}: {seconds / 60:.1f} min, {speed}", flush=True)
    print(f"{total / 3600:.2f} h in {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK, help="folder for everything that training makes")
    parser.add_argument("--hours", type=positive, default=CorpusSpec.hours, help="training speech to make, in hours")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=positive_int, default=cores(), help="processes")
    options = parser.parse_args()
    with exit_with_message():
        synthesize(options.work, CorpusSpec(options.hours), options.seed, options.workers)


if __name__ == "__main__":
    main()
