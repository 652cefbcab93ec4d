"""The speakers of the training speech: warps of seven Flite and Festival voices, and espeak-ng's and Kokoro's voices.

A warp changes the features that distinguish speakers: height and range of the pitch, length of the vocal tract
(spectral envelope), tempo and breathiness. Kokoro's voices, which sound human, are mixed first. Some mixtures are only
played faster or slower; the others are warped to the pitches of most people, which Kokoro's own voices do not have.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Engine = Literal["flite", "festival", "espeak", "kokoro"]

# Median pitch in Hz of the unchanged teachers.
FLITE = {"slt": 172.0, "rms": 102.0, "awb": 127.0, "kal16": 100.0}
FESTIVAL = {"cmu_us_slt_arctic_hts": 174.0, "kal_diphone": 100.0, "ked_diphone": 100.0}
KOKORO = {"jf_alpha": 275.0, "jf_gongitsune": 236.0, "jf_nezumi": 223.0, "jf_tebukuro": 330.0, "jm_kumo": 94.0}
WOMEN = frozenset({"slt", "cmu_us_slt_arctic_hts", *(name for name in KOKORO if name.startswith("jf"))})
ESPEAK = (
    "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2",
    "f3", "f4", "f5", "Andy", "Annie", "Alicia", "adam", "anika", "Mike", "Michael",
    "Lee", "Denis", "Hugo", "linda", "ed", "rob", "robert", "steph", "victor", "zac",
    "quincy", "paul", "david", "edward", "john", "max", "belinda", "pablo", "shelby", "marcelo",
)  # fmt: skip

SHARES: dict[Engine, float] = {"flite": 0.52, "festival": 0.10, "espeak": 0.08, "kokoro": 0.30}
_PER_FLITE_VOICE = 26
_PER_FESTIVAL_VOICE = 8
_KOKORO_MIXTURES = 30
_KOKORO_WARPS = 45
_KOKORO_MAN = "jm_kumo"
_LOWEST, _HIGHEST = 68.0, 320.0  # Hz
_LOWEST_KOKORO, _LOWEST_WOMAN, _HIGHEST_KOKORO = 70.0, 140.0, 220.0  # Hz, of its warps
_MIN_PITCH_FACTOR, _MAX_PITCH_FACTOR = 0.6, 1.8  # limits of the factor on the teacher's pitch
HELD_OUT_TEACHER = "ked_diphone"  # all its speakers are held out, so this teacher is not in training
HELD_OUT_KOKORO = "jf_nezumi"  # also held out, and part of no mixture
# Number of further held-out speakers, spread over each synthesizer's pitch range and voices.
_HELD_OUT: dict[Engine, int] = {"flite": 7, "festival": 1, "espeak": 2, "kokoro": 2}


@dataclass(frozen=True)
class Speaker:
    """One synthetic speaker.

    Attributes:
        id: number, the same for the same list of speakers.
        engine: the synthesizer. voice: the synthesizer's voice.
        pitch: factor on the teacher's F0 (for espeak-ng: 1; its own pitch setting is used).
        depth: factor on the excursions of F0 around its median, in octaves.
        tract: factor on the frequencies of the spectral envelope; above 1 is a shorter vocal tract. For espeak-ng, and
            for Kokoro with a pitch of 1, factor on all frequencies.
        tempo: factor on the speaking rate. 1 for espeak-ng, which speaks every voice at one rate.
        breath: 0 to 1, share of the voiced sound replaced by noise.
        setting: espeak-ng's pitch setting (0 to 99), else 0.
        hertz: expected median F0, 0 when unknown (espeak-ng).
        held_out: used for testing only.
    """

    id: int
    engine: Engine
    voice: str
    pitch: float
    depth: float
    tract: float
    tempo: float
    breath: float
    setting: int
    hertz: float
    held_out: bool


@dataclass(frozen=True)
class _Draft:
    engine: Engine
    voice: str
    pitch: float
    depth: float
    tract: float
    tempo: float
    breath: float
    setting: int
    height: float  # sort key of a synthesizer's speakers: Hz, or espeak-ng's setting


def speakers(seed: str = "speakers") -> list[Speaker]:
    """Return all speakers, deterministically, with ids from 0. Another seed gives other warps of the same teachers."""
    rng = random.Random(seed)
    drafts = [_warped("flite", voice, hertz, at, _PER_FLITE_VOICE, rng)
              for voice, hertz in FLITE.items() for at in range(_PER_FLITE_VOICE)]  # fmt: skip
    drafts += [_warped("festival", voice, hertz, at, _PER_FESTIVAL_VOICE, rng)
               for voice, hertz in FESTIVAL.items() for at in range(_PER_FESTIVAL_VOICE)]  # fmt: skip
    drafts += [_espeak(voice, rng) for voice in ESPEAK]
    drafts += _kokoro(random.Random(f"{seed} kokoro"))
    kept = set().union(*(_spread(drafts, engine, count) for engine, count in _HELD_OUT.items()))
    kept |= {at for at, draft in enumerate(drafts) if draft.voice in (HELD_OUT_TEACHER, HELD_OUT_KOKORO)}
    drafts += _kokoro_warps(random.Random(f"{seed} kokoro warps"))  # after the choice of those held out
    return [_numbered(draft, at, at in kept) for at, draft in enumerate(drafts)]


def _warped(engine: Engine, voice: str, hertz: float, at: int, count: int, rng: random.Random) -> _Draft:
    """Return speaker `at` of a voice; the first one is the unchanged voice. Pitches are spread out, with jitter."""
    if at == 0:
        return _Draft(engine, voice, 1.0, 1.0, 1.0, 1.0, 0.0, 0, hertz)
    place = min(0.999, max(0.001, (at - 1 + rng.random()) / (count - 1)))
    # The exponent concentrates pitches around the teacher's, where warped speech is cleanest.
    centred = 2 * place - 1
    lowest, highest = max(_MIN_PITCH_FACTOR, _LOWEST / hertz), min(_MAX_PITCH_FACTOR, _HIGHEST / hertz)
    pitch = (highest if centred > 0 else lowest) ** abs(centred) ** 1.25
    tract = min(max(pitch**0.2 * rng.gauss(1.0, 0.08), 0.82), 1.22)
    breath = rng.uniform(0.05, 0.3) if rng.random() < 0.3 else 0.0
    return _Draft(engine, voice, pitch, rng.uniform(0.8, 1.6), tract, rng.uniform(0.88, 1.12), breath, 0, hertz * pitch)


def _espeak(voice: str, rng: random.Random) -> _Draft:
    setting, tract = rng.randint(12, 85), rng.uniform(0.9, 1.12)
    rng.random()  # was a tempo that espeak-ng did not use; without the draw the next speakers would change
    return _Draft("espeak", voice, 1.0, 1.0, tract, 1.0, 0.0, setting, setting)


def _kokoro(rng: random.Random) -> list[_Draft]:
    """Return each unchanged voice, and mixtures of two voices played faster or slower, without the held-out voice."""
    drafts = [_Draft("kokoro", voice, 1.0, 1.0, 1.0, 1.0, 0.0, 0, hertz) for voice, hertz in KOKORO.items()]
    known = [voice for voice in KOKORO if voice != HELD_OUT_KOKORO]
    for _ in range(_KOKORO_MIXTURES):
        first, second = rng.sample(known, 2)
        share, tract = round(rng.uniform(0.2, 0.8), 2), rng.uniform(0.86, 1.16)
        voice, hertz = _mixture(first, second, share)
        drafts.append(_Draft("kokoro", voice, 1.0, 1.0, tract, rng.uniform(0.9, 1.1), 0.0, 0, hertz * tract))
    return drafts


def _kokoro_warps(rng: random.Random) -> list[_Draft]:
    """Return mixtures of Kokoro's voices warped to pitches that are spread over those of men and women."""
    women = [voice for voice in KOKORO if voice not in (HELD_OUT_KOKORO, _KOKORO_MAN)]
    drafts = []
    for at in range(_KOKORO_WARPS):
        wanted = _LOWEST_KOKORO * (_HIGHEST_KOKORO / _LOWEST_KOKORO) ** ((at + rng.random()) / _KOKORO_WARPS)
        first, second = rng.sample(women, 2)
        if wanted < _LOWEST_WOMAN:
            voice, hertz = _mixture(_KOKORO_MAN, first, round(rng.uniform(0.7, 0.95), 2))
        else:
            voice, hertz = _mixture(first, second, round(rng.uniform(0.2, 0.8), 2))
        tract, breath = rng.uniform(0.88, 1.1), rng.uniform(0.05, 0.3) if rng.random() < 0.3 else 0.0
        pitch = wanted / hertz
        drafts.append(_Draft("kokoro", voice, pitch, rng.uniform(0.8, 1.4), tract, 1.0, breath, 0, wanted))
    return drafts


def _mixture(first: str, second: str, share: float) -> tuple[str, float]:
    """Return the mixture of two of Kokoro's voices, with the share of the first, and its median pitch in Hz."""
    hertz = KOKORO[first] ** share * KOKORO[second] ** (1 - share)
    return f"{first} {share:.2f} + {second} {1 - share:.2f}", hertz


def _spread(drafts: list[_Draft], engine: Engine, count: int) -> set[int]:
    """Return the indices of `count` warped speakers of a synthesizer, spread over its pitch range and voices."""
    places = [at for at, draft in enumerate(drafts) if draft.engine == engine and _is_warped(draft)]
    heights = sorted(drafts[at].height for at in places)
    chosen: list[int] = []
    for step in range(count):
        wanted = heights[int((step + 0.5) * len(heights) / count)]
        used = Counter(drafts[at].voice for at in chosen)
        costs = {at: abs(math.log2(drafts[at].height / wanted)) + 0.15 * used[drafts[at].voice] for at in places}
        chosen.append(min(set(places) - set(chosen), key=lambda at: (costs[at], at)))
    return set(chosen)


def _is_warped(draft: _Draft) -> bool:
    return draft.pitch != 1.0 or draft.tract != 1.0 or bool(draft.setting)


def _numbered(draft: _Draft, number: int, held_out: bool) -> Speaker:
    hertz = 0.0 if draft.engine == "espeak" else draft.height
    return Speaker(
        id=number,
        engine=draft.engine,
        voice=draft.voice,
        pitch=round(draft.pitch, 4),
        depth=round(draft.depth, 4),
        tract=round(draft.tract, 4),
        tempo=round(draft.tempo, 4),
        breath=round(draft.breath, 4),
        setting=draft.setting,
        hertz=round(hertz, 1),
        held_out=held_out,
    )
