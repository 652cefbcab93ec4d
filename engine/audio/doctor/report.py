"""The doctor's report on a clip."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from engine.audio.clip_length import BEST_FROM
from engine.audio.decode import Recording, Source, decode
from engine.audio.doctor import findings
from engine.audio.doctor.bandwidth import bandwidth
from engine.audio.doctor.clipping import clipped_samples, peak_ratio
from engine.audio.doctor.findings import Finding, Light
from engine.audio.doctor.fixes import Fix, parts
from engine.audio.doctor.loudness import clip_loudness
from engine.audio.doctor.noise import remove_rumble, rumble, signal_to_noise
from engine.audio.doctor.spectrum import spectra
from engine.audio.doctor.voices import compare_voices
from engine.audio.excerpt import spoken_duration, total_duration
from engine.audio.reference import SHORTEST_SPEECH, SpeechAnalysis, analyse_speech, crest_factor, speech_samples
from engine.audio.resample import resample
from engine.audio.vad import SAMPLE_RATE, Span
from engine.errors import UnusableReference
from engine.text import speaking_time

_HIGHEST_RATE = 48_000  # Hz: speech has no content above half this rate
_WORST_FIRST: tuple[Light, ...] = ("red", "amber", "green")


@dataclass(frozen=True)
class Report:
    """Findings about a clip.

    findings: one for each measure, in display order: length, speech, pauses, edges, clipping, loudness, noise, rumble,
        bandwidth, voices. Only the first two for a clip without speech.
    duration: in seconds.
    speech: the segments of speech.
    parts: start and end in seconds of the parts that `Fix.EDGES`, `Fix.EXCERPT` and `Fix.TRIM` keep, so that a page can
        move the ends of the clip instead of applying them. Empty without speech; `Fix.EDGES` only if a word is cut off.
    """

    findings: tuple[Finding, ...]
    duration: float
    speech: tuple[Span, ...]
    parts: Mapping[Fix, Span]

    @property
    def light(self) -> Light:
        """The worst light among the findings."""
        lights = {finding.light for finding in self.findings}
        return next(light for light in _WORST_FIRST if light in lights)

    @property
    def best(self) -> Span | None:
        """The best 8 to 15 s for a voice; None if no part is that long, for lack of speech or of a single voice."""
        start, end = self.parts.get(Fix.EXCERPT, (0.0, 0.0))
        return (start, end) if round(end - start, 1) >= BEST_FROM else None

    @property
    def speech_seconds(self) -> float:
        """Seconds of speech including short pauses, for `check_transcript`."""
        return spoken_duration(self.speech)


@torch.no_grad()
def examine(source: Source | NDArray[np.float32], sample_rate: int | None = None) -> Report:
    """Measure how suitable a clip is for cloning. Only the loudness depends on its gain.

    Args:
        source: the bytes of an audio file, or its path, or samples (float32 [n], mono, finite, any scale).
        sample_rate: sampling rate of samples in Hz; not needed for a file.
    Raises UnusableReference only if the file cannot be decoded; a silent clip is a finding.
    """
    recording = _recording(source, sample_rate)
    duration = len(recording.samples) / recording.sample_rate
    length = findings.of_length(duration)
    try:
        analysis = analyse_speech(recording)
    except UnusableReference:
        return Report((length, findings.of_silence()), duration, (), {})
    spoken = total_duration(analysis.spans)
    if spoken < SHORTEST_SPEECH:
        return Report((length, findings.of_little_speech(spoken, spoken / duration)), duration, (), {})
    steady = remove_rumble(analysis.vad_samples.numpy(), SAMPLE_RATE)
    voices = compare_voices(steady, analysis.spans)
    kept = parts(analysis, voices)
    edges = analysis.edges
    if length.what == "long":  # its end is left out
        edges = replace(edges, cut_end=False)
    ends = findings.of_edges(edges, repairable=Fix.EDGES in kept)
    sound = (*_sound(recording, analysis, steady), findings.of_voices(voices.distance))
    judged = (length, *_timing(analysis, duration), ends, *sound)
    report = Report(judged, duration, analysis.spans, kept)
    return report if report.best else replace(report, findings=(replace(length, fix=None), *judged[1:]))


def check_transcript(transcript: str, seconds: float) -> Finding:
    """Judge whether the length of the transcript fits the length of the speech, without recognising words.

    The estimated time of the text at an ordinary pace is compared with the time of the speech. Readers have 0.77 to
    1.31 times that pace (measured: an audiobook, 60 synthetic speakers).

    Args:
        transcript: text in any script.
        seconds: duration of the speech, from `Report.speech_seconds` or `Clip.speech_seconds`; 0 or more.
    """
    words = transcript.strip()
    if words.isupper():  # its capitals are not acronyms, which are spelled
        words = words.lower()
    return findings.of_transcript(speaking_time(words) if words else 0.0, seconds)


def _recording(source: Source | NDArray[np.float32], sample_rate: int | None) -> Recording:
    if not isinstance(source, np.ndarray):
        return decode(source)
    if sample_rate is None:
        raise ValueError("samples need a sample rate")
    return Recording(torch.from_numpy(source), sample_rate)


def _timing(analysis: SpeechAnalysis, duration: float) -> Iterator[Finding]:
    spans = analysis.spans
    spoken = total_duration(spans)
    at_ends = spans[0][0] + duration - spans[-1][1]
    yield findings.of_speech(spoken / duration, at_ends >= (duration - spoken) / 2)
    yield findings.of_pauses(max((later[0] - sooner[1] for sooner, later in pairwise(spans)), default=0.0))


def _sound(recording: Recording, analysis: SpeechAnalysis, steady: NDArray[np.float32]) -> Iterator[Finding]:
    """steady: the clip at 16 kHz without rumble."""
    speech = speech_samples(analysis.recording, analysis.spans)
    yield findings.of_clipping(float(clipped_samples(speech).mean()), crest_factor(speech), peak_ratio(speech))
    samples = recording.samples.numpy()
    yield findings.of_loudness(clip_loudness(samples, recording.sample_rate), _is_rounded(samples))
    # Hum is a separate finding, and would leak into the lowest bands of the noise.
    yield findings.of_noise(signal_to_noise(spectra(steady, SAMPLE_RATE), analysis.spans))
    yield findings.of_rumble(rumble(analysis.vad_samples.numpy(), SAMPLE_RATE))
    yield findings.of_bandwidth(_bandwidth(analysis))


def _is_rounded(samples: NDArray[np.float32]) -> bool:
    """Return whether the samples are those of a file with 16 bits, or the mean of its two channels."""
    steps = samples * np.float32(2 * 32_768)
    return bool((steps == np.round(steps)).all())


def _bandwidth(analysis: SpeechAnalysis) -> float:
    recording = analysis.recording
    rate = min(recording.sample_rate, _HIGHEST_RATE)
    heights = spectra(resample(recording.samples, recording.sample_rate, rate).numpy(), rate)
    return bandwidth(heights, analysis.spans)
