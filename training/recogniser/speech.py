"""Training speech for the phone recogniser: Flite, Festival and espeak-ng, with other speakers and sentences.

Writes shards of five minutes, `speech-NN.npz`. A shard depends only on its number. Existing shards are kept, so a run
can be interrupted, and more minutes add shards.

The recogniser also evaluates models, so it must not share their training data: sentences are drawn with
another seed, and no speaker is in the corpus. One sentence in five, except espeak-ng's, is warped, also with another
seed. The others are only resampled, which changes pitch and spectral envelope together, because WORLD takes most of the
time. The data includes the teacher that is held out from the model, because the recogniser must handle all evaluated
voices.
"""

import itertools
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.text.english.pronunciation import PHONES, Lexicon
from training.speech import teachers
from training.speech.lexicon import LEXICON
from training.speech.resampling import resampled
from training.speech.sentences import training_sentences
from training.speech.speakers import HELD_OUT_TEACHER, Engine, Speaker, speakers
from training.speech.synthesize import token_starts, warp
from training.work import replaced

RATE = 16_000  # Hz
SPEAKERS = "judge"  # the seed of the warps
SHARES: dict[Engine, float] = {"flite": 0.65, "festival": 0.25, "espeak": 0.10}
_SEED = 77_000  # gives the same kinds of sentences as in the corpus, identical only by chance
_SHARD_SECONDS = 300
_BATCH = 60  # sentences rendered at a time
_WARPED = 0.2
_READ = 0.8, 1.3  # range of the playback speed
_LEAD, _TAIL = 0.08, 0.12  # s kept before the first and after the last phone
_LENGTH = 0.8, 6.0  # s
_WORDS_PER_MINUTE = 165  # of espeak-ng


@dataclass(frozen=True)
class LabelledUtterance:
    """Samples float32 `[n]` in [-1, 1] at 16 kHz; phones as indices into `PHONES`, int64 `[P]`, and their starts in
    seconds, float32 `[P]`."""

    samples: NDArray[np.float32]
    phones: NDArray[np.int64]
    starts: NDArray[np.float32]


def recogniser_speakers() -> list[Speaker]:
    """Return the speakers: the warped ones of another seed, without held-out ones except the held-out teacher's."""
    known = [speaker for speaker in speakers(SPEAKERS) if speaker.engine in SHARES]
    warped = [speaker for speaker in known if speaker.engine == "espeak" or speaker.pitch != 1.0]
    return [speaker for speaker in warped if not speaker.held_out or speaker.voice == HELD_OUT_TEACHER]


Line = tuple[str, Speaker]


def lines(shard: int, lexicon: Lexicon) -> Iterator[Line]:
    """Yield sentences and speakers endlessly: synthesizers by their shares, speakers in turn."""
    rng = random.Random(f"recogniser {shard}")
    turns = {}
    for engine in SHARES:
        group = [speaker for speaker in recogniser_speakers() if speaker.engine == engine]
        rng.shuffle(group)
        turns[engine] = itertools.cycle(group)
    for text in training_sentences(_SEED + shard, lexicon):
        [engine] = rng.choices(list(SHARES), list(SHARES.values()))
        yield text, next(turns[engine])


class RecogniserCorpusRenderer:
    """The synthesizers, and the lexicon of their phones. One per process."""

    def __init__(self) -> None:
        self.lexicon = Lexicon.load(LEXICON)
        self._flite, self._festival, self._espeak = teachers.Flite(), teachers.Festival(), teachers.Espeak()

    def render(self, shard: int, seconds: float) -> list[LabelledUtterance]:
        """Render at least `seconds` of speech, which depends only on the shard's number."""
        source, rng = lines(shard, self.lexicon), random.Random(f"recogniser rendering {shard}")
        made: list[LabelledUtterance] = []
        while sum(len(each.samples) for each in made) < seconds * RATE:
            batch = list(itertools.islice(source, _BATCH))
            finished = [self._finished(line, said, rng) for line, said in self._spoken(batch)]
            made += [each for each in finished if each is not None]
        return made

    def _spoken(self, batch: list[Line]) -> Iterator[tuple[Line, teachers.SynthesizedUtterance]]:
        at_once: defaultdict[str, list[Line]] = defaultdict(list)
        for line in batch:
            text, speaker = line
            if speaker.engine == "flite":
                yield line, self._flite.say(text, speaker.voice)
            elif speaker.engine == "espeak":
                voice = f"en-us+{speaker.voice}"
                yield line, self._espeak.say(text, voice, pitch=speaker.setting, rate=_WORDS_PER_MINUTE)
            else:
                at_once[speaker.voice].append(line)
        for voice, group in at_once.items():
            yield from zip(group, self._festival.say_all([text for text, _ in group], voice), strict=True)

    def _finished(
        self, line: Line, said: teachers.SynthesizedUtterance, rng: random.Random
    ) -> LabelledUtterance | None:
        """Return the finished utterance, or None when it is too short or too long or has fewer than three phones."""
        text, speaker = line
        tokens = self.lexicon.phones(text).split()
        if len([1 for phone, _ in said.segments if phone != "pau"]) < 3:
            return None
        samples, pace = _voiced(said, speaker, rng)
        times = np.array(token_starts(tokens, said.segments)) / pace
        end = max(end for phone, end in said.segments if phone != "pau") / pace
        first = max(0.0, times[0] - _LEAD)
        samples = samples[int(first * RATE) : int((end + _TAIL) * RATE)]
        if not _LENGTH[0] <= len(samples) / RATE <= _LENGTH[1]:
            return None
        spoken = [at for at, token in enumerate(tokens) if token in PHONES]  # word breaks and marks are silent
        phones = np.array([PHONES.index(tokens[at]) for at in spoken], np.int64)
        return LabelledUtterance(samples, phones, (times[spoken] - first).astype(np.float32))


def _voiced(
    said: teachers.SynthesizedUtterance, speaker: Speaker, rng: random.Random
) -> tuple[NDArray[np.float32], float]:
    """Return the teacher's speech in another voice at 16 kHz, and its speed factor."""
    wave = said.samples.astype(np.float64) / 32768
    if speaker.engine != "espeak" and rng.random() < _WARPED:
        return warp(resampled(wave, said.sample_rate, RATE), RATE, speaker, speaker.tempo).astype(
            np.float32
        ), speaker.tempo
    read = round(said.sample_rate * rng.uniform(*_READ) / 100) * 100
    return resampled(wave, read, RATE).astype(np.float32), read / said.sample_rate


def save(path: Path, made: list[LabelledUtterance]) -> None:
    """Save the utterances concatenated, with their ends. Replace the file atomically."""
    samples = np.concatenate([each.samples for each in made])
    with replaced(path) as unfinished:
        np.savez(
            unfinished,
            samples=(samples * 32767).round().clip(-32768, 32767).astype(np.int16),
            phones=np.concatenate([each.phones.astype(np.uint8) for each in made]),
            starts=np.concatenate([each.starts for each in made]),
            sample_ends=np.cumsum([len(each.samples) for each in made]),
            phone_ends=np.cumsum([len(each.phones) for each in made]),
        )


def load(path: Path) -> list[LabelledUtterance]:
    """Load the utterances of a shard."""
    with np.load(path) as file:
        samples = np.split(file["samples"].astype(np.float32) / 32767, file["sample_ends"][:-1])
        phones = np.split(file["phones"].astype(np.int64), file["phone_ends"][:-1])
        starts = np.split(file["starts"], file["phone_ends"][:-1])
    return [LabelledUtterance(*each) for each in zip(samples, phones, starts, strict=True)]


def make(folder: Path, minutes: float) -> list[Path]:
    """Make the missing shards for `minutes` of speech in `folder`. Return the paths of all shards."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"speech-{shard:02d}.npz" for shard in range(math.ceil(minutes * 60 / _SHARD_SECONDS))]
    renderer: RecogniserCorpusRenderer | None = None
    for shard, path in enumerate(paths):
        if not path.exists():
            began, renderer = time.monotonic(), renderer or RecogniserCorpusRenderer()
            save(path, renderer.render(shard, _SHARD_SECONDS))
            print(f"{path.name}: {_SHARD_SECONDS / (time.monotonic() - began):.1f} x real time", flush=True)
    return paths
