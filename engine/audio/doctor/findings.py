"""Findings of the doctor: the light, message and fix of each measure.

Each threshold is stated with its source. "Measured" means measured for this project, on joined sentences of synthetic
speech, telephone prompts and audiobooks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.audio.clip_length import LONGEST_USED, SHORTEST_ADVISED
from engine.audio.doctor.fixes import LONG_PAUSE, Fix
from engine.audio.doctor.voices import TWO_VOICES, UNLIKE
from engine.audio.edges import Edges
from engine.audio.reference import CLIPPED, CLIPPED_BEYOND_USE, SHORTEST_WORD
from engine.messages import UserMessage

Light = Literal["green", "amber", "red"]
Measure = Literal[
    "length",
    "speech",
    "pauses",
    "edges",
    "clipping",
    "loudness",
    "noise",
    "rumble",
    "bandwidth",
    "voices",
    "transcript",
]

# Decimals shown of each measure's value, and its unit.
_DECIMALS: dict[Measure, int] = {
    "length": 1,  # s
    "speech": 0,  # %
    "pauses": 1,  # s
    "edges": 0,  # dB
    "clipping": 1,  # %
    "loudness": 0,  # LUFS
    "noise": 0,  # dB
    "rumble": 0,  # dB
    "bandwidth": 1,  # kHz
    "voices": 1,  # standard deviations
    "transcript": 1,  # expected time over time of speech
}

_TOO_SHORT = 3.0  # seconds: VALL-E and its followers clone from 3 s
# Share of speech in the clip. Readers have 0.8 to 1.0 (measured); below a third, a clip is mostly pauses.
_MUCH_SPEECH, _LITTLE_SPEECH = 0.55, 0.33
# Seconds of the longest pause between words. Readers stay under 0.7 (measured); spontaneous speech does not.
_PAUSE, _LONG_PAUSE = LONG_PAUSE, 3.0
# Share of speech samples that lie on a flat top. Clean speech has up to 1 in 5,000 (measured); raised 6 dB above full
# scale it has 1 in 100, 12 dB 1 in 15.
_SOME_CLIPPED, _MUCH_CLIPPED = 0.001, 0.01
# `clipping.peak_ratio`: 1.10 to 1.9 for 1,371 clean clips of 2.5 to 30 s, less than 1.09 for 97 of 100 clips that were
# clipped by 12 dB and coded as mp3, which hides flat tops (measured).
_ROUND_TOP = 1.09
# LUFS. Broadcasts have -23 (EBU R 128), podcasts -16, a distant microphone -40. The level alone changes no voice, since
# references are scaled to a fixed one. At -70, 16 bits, whose rounding has -101 dBFS, leave 30 dB.
_FAINT, _SOFT, _LOUD = -70.0, -35.0, -5.0
# dB of speech over noise. LibriTTS (Zen et al., 2019) counts recordings of 20 dB or more as clean.
_CLEAN, _NOISY = 20.0, 10.0
# dB of the power below 65 Hz relative to the rest. Speech has less than -14 (measured: audiobooks -14 to -19, synthetic
# speech -21 to -36); equal power of hum and voice is 0.
_STEADY, _RUMBLING = -12.0, -6.0
# Hz. Telephones end at 3,400 (ITU-T G.712), wideband calls at 7,000 (ITU-T G.722); s and f lie at 4,000 to 8,000.
# Clips at 16 kHz measure 6,750 to 7,750.
_WIDE, _NARROW = 6_250.0, 5_000.0
# Estimated time of the text at an ordinary pace over the time of the speech. Readers have 0.77 to 1.31 (measured: an
# audiobook, 60 synthetic speakers); a text twice too long or too short is outside for any reader.
_SLOWEST, _SLOW, _FAST, _FASTEST = 0.35, 0.6, 1.6, 2.2


@dataclass(frozen=True)
class Finding:
    """Result of one measure.

    measure: the measure.
    what: key of the result within the measure; each has its own message.
    value: the measured number; None if there is too little to measure.
    fix: the repair to offer; None if only another recording helps.
    more: further values of the message's placeholders.
    """

    measure: Measure
    what: str
    light: Light
    value: float | None
    fix: Fix | None = None
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def message(self) -> UserMessage:
        """Description of the result and what to do. `value` is rounded for display."""
        value = {} if self.value is None else {"value": round(self.value, _DECIMALS[self.measure])}
        return UserMessage(f"doctor.{self.measure}_{self.what}", {**value, **self.more})


def of_length(seconds: float) -> Finding:
    """Judge the duration of the whole clip in seconds, as it is displayed: 30.04 s are 30 s."""
    shown = round(seconds, _DECIMALS["length"])
    if shown < _TOO_SHORT:
        return Finding("length", "too_short", "red", seconds)
    if shown < SHORTEST_ADVISED:
        return Finding("length", "short", "amber", seconds)
    if shown > LONGEST_USED:
        return Finding("length", "long", "amber", seconds, Fix.EXCERPT)
    return Finding("length", "good", "green", seconds)


def of_silence() -> Finding:
    """Return the finding for a silent clip."""
    return Finding("speech", "silent", "red", 0.0)


def of_little_speech(spoken: float, share: float) -> Finding:
    """Judge a clip with less than a second of speech. `spoken`: its seconds. `share`: its share of the clip."""
    return Finding("speech", "none" if spoken < SHORTEST_WORD else "little", "red", 100 * share)


def of_speech(share: float, at_ends: bool) -> Finding:
    """Judge the share of speech in the clip. `at_ends`: whether most of the silence is at the two ends."""
    if share >= _MUCH_SPEECH:
        return Finding("speech", "good", "green", 100 * share)
    light: Light = "red" if share < _LITTLE_SPEECH else "amber"
    if at_ends:
        return Finding("speech", "silence_around", light, 100 * share, Fix.TRIM)
    return Finding("speech", "silence_inside", light, 100 * share, Fix.PAUSES)


def of_pauses(longest: float) -> Finding:
    """Judge the longest pause between two segments of speech, in seconds."""
    if longest <= _PAUSE:
        return Finding("pauses", "good", "green", longest)
    return Finding("pauses", "long", "red" if longest > _LONG_PAUSE else "amber", longest, Fix.PAUSES)


def of_edges(edges: Edges, *, repairable: bool) -> Finding:
    """Judge the ends of the clip. `repairable`: whether enough speech remains without the words that are cut off."""
    fix = Fix.EDGES if repairable else None
    if edges.cut_start and edges.cut_end:
        return Finding("edges", "both", "amber", edges.level, fix)
    if edges.cut_start or edges.cut_end:
        return Finding("edges", "start" if edges.cut_start else "end", "amber", edges.level, fix)
    return Finding("edges", "good", "green", edges.level)


def of_clipping(share: float, crest: float, peaks: float) -> Finding:
    """Judge clipping. `share`: share of clipped samples in speech. `crest`: crest factor. `peaks`: the highest peaks
    over those nearly as high (`peak_ratio`)."""
    percent = 100 * share
    if crest < CLIPPED_BEYOND_USE:
        return Finding("clipping", "beyond_use", "red", percent)
    if share > _MUCH_CLIPPED:
        return Finding("clipping", "much", "red", percent)
    if share > _SOME_CLIPPED or crest < CLIPPED or peaks < _ROUND_TOP:
        return Finding("clipping", "some", "amber", percent)
    return Finding("clipping", "good", "green", percent)


def of_loudness(lufs: float, rounded: bool) -> Finding:
    """Judge the integrated loudness in LUFS. `rounded`: whether the samples have at most 16 bits."""
    if lufs > _LOUD:
        return Finding("loudness", "loud", "amber", lufs, Fix.LEVEL)
    if lufs < _SOFT:
        if rounded and lufs < _FAINT:
            return Finding("loudness", "faint", "red", lufs)  # leveling would level the rounding, too
        return Finding("loudness", "quiet", "amber", lufs, Fix.LEVEL)
    return Finding("loudness", "good", "green", lufs)


def of_noise(snr: float) -> Finding:
    """Judge the ratio of speech to noise in dB."""
    if snr >= _CLEAN:
        return Finding("noise", "good", "green", snr)
    if snr >= _NOISY:
        return Finding("noise", "audible", "amber", snr)
    return Finding("noise", "loud", "red", snr)


def of_rumble(level: float) -> Finding:
    """Judge the level below the frequencies of the voice, in dB relative to the rest."""
    if level < _STEADY:
        return Finding("rumble", "good", "green", level)
    return Finding("rumble", "present", "red" if level > _RUMBLING else "amber", level, Fix.RUMBLE)


def of_bandwidth(hertz: float) -> Finding:
    """Judge the highest frequency of the speech in Hz."""
    if hertz >= _WIDE:
        return Finding("bandwidth", "good", "green", hertz / 1_000)
    if hertz >= _NARROW:
        return Finding("bandwidth", "dull", "amber", hertz / 1_000)
    return Finding("bandwidth", "telephone", "red", hertz / 1_000)


def of_voices(distance: float | None) -> Finding:
    """Judge the distance of the most different parts of the speech, in standard deviations; None for too little speech.

    Never red: a lively reader may exceed the threshold, and two people of equal pitch may not.
    """
    if distance is None:
        return Finding("voices", "unknown", "green", None)
    if distance < UNLIKE:
        return Finding("voices", "good", "green", distance)
    if distance < TWO_VOICES:
        return Finding("voices", "unlike", "amber", distance)
    return Finding("voices", "two", "amber", distance, Fix.EXCERPT)


def of_transcript(expected: float, spoken: float) -> Finding:
    """Judge a transcript by its seconds at an ordinary pace (0 if empty) and those of the speech."""
    pace = expected / max(spoken, 0.1)
    seconds = {"expected": _for_display(expected), "spoken": _for_display(spoken)}
    if expected == 0:
        return Finding("transcript", "empty", "red", 0.0)
    if pace > _FAST:
        return Finding("transcript", "long", "red" if pace > _FASTEST else "amber", pace, more=seconds)
    if pace < _SLOW:
        return Finding("transcript", "short", "red" if pace < _SLOWEST else "amber", pace, more=seconds)
    return Finding("transcript", "good", "green", pace)


def _for_display(seconds: float) -> float:
    return round(seconds) if seconds >= 10 else round(seconds, 1)
