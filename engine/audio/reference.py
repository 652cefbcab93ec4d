"""Preparation of reference clips: mono, trimmed, at a known speech level. Unusable clips are refused."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.audio.clip_length import LONGEST_USED
from engine.audio.decode import Recording, Source, decode
from engine.audio.edges import Edges, examine_edges
from engine.audio.excerpt import Excerpt, choose_excerpt, spoken_duration, total_duration
from engine.audio.resample import resample
from engine.audio.vad import SAMPLE_RATE as VAD_RATE
from engine.audio.vad import Span, speech_spans
from engine.errors import UnusableReference
from engine.messages import UserMessage
from engine.text import cut_text

SHORTEST_SPEECH = 1.0  # seconds
SHORTEST_WORD = 0.2  # seconds: anything shorter is a knock, not a word
END_SILENCE = 0.2  # seconds after the last word, which tell the model that the speaker has finished
_FADE = 0.005  # seconds at each end, against a click where the background noise stops

# Speech is scaled to -22 dBFS (an RMS of 2,600 in 16 bits), the level of the models' training data, so that a voice has
# the same loudness from any recording. Gain only, no compression. From speech that is 20 dB softer, the bundled model
# clones another pitch and timbre, so a knock does not lower the gain: it is clipped to the ceiling.
SPEECH_LEVEL = 0.0794
_CEILING = 0.99
_BLOCK = 1024  # samples
_LOUDEST = 16.0  # 12 dB: the most that a block may have over the median of blocks with speech, which have up to 11 dB
_LASTING = 3  # blocks; a knock is shorter

_SILENT = 1e-4  # of full scale, -80 dBFS: three steps of 16 bits

# Crest factor of speech: 99.9th percentile over the RMS of the samples limited to it, so that knocks do not count.
# Clean speech has 3.5 to 7; with a fifth of the samples clipped it has 2, with a tenth 2.5. Unlike the number of flat
# samples, it changes little under lossy coding.
CLIPPED_BEYOND_USE, CLIPPED = 1.9, 2.6


@dataclass(frozen=True)
class Clip:
    """A prepared reference clip.

    samples: float32 [n], mono, in [-1, 1], on the requested device, on the 16-bit grid (exact in FLAC).
    sample_rate: Hz.
    notes: messages for the user.
    used: start and end, in seconds, of the used part of the original.
    speech_kept: share of the original's speech in the samples; below 1, the transcript is too long for them.
    speech_seconds: seconds of speech in the samples, including short pauses.
    """

    samples: Tensor
    sample_rate: int
    notes: tuple[UserMessage, ...]
    used: Span
    speech_kept: float = 1.0
    speech_seconds: float = 0.0

    @property
    def duration(self) -> float:
        """Duration in seconds, including added silence."""
        return len(self.samples) / self.sample_rate


@dataclass(frozen=True)
class SpeechAnalysis:
    """A clip and the speech that voice activity detection found in it.

    recording: the clip without DC offset, its loudest sample at about full scale.
    vad_samples: float32 [n], the clip at 16 kHz and at the detector's best level.
    spans: the segments of speech.
    """

    recording: Recording
    vad_samples: Tensor
    spans: tuple[Span, ...]

    @cached_property
    def edges(self) -> Edges:
        """Whether words are cut off at the ends of the clip, which has speech."""
        return examine_edges(self.vad_samples, self.spans)


@torch.no_grad()
def analyse_speech(recording: Recording) -> SpeechAnalysis:
    """Find the speech in a clip; `spans` is empty if there is none. Raises UnusableReference for a silent clip."""
    centred = _centred(recording)
    samples = _evened(resample(centred.samples, centred.sample_rate, VAD_RATE))
    return SpeechAnalysis(centred, samples, speech_spans(samples))


def crest_factor(speech: NDArray[np.float32]) -> float:
    """Return the crest factor of speech, which clipping lowers; see `CLIPPED`."""
    magnitudes = np.abs(speech)
    highest = float(np.quantile(magnitudes, 0.999))
    level = float(np.sqrt(np.mean(np.square(np.minimum(magnitudes, highest)))))
    return highest / max(level, 1e-12)


def speech_samples(recording: Recording, spans: tuple[Span, ...]) -> NDArray[np.float32]:
    """Return only the samples of speech: float32 [n]."""
    return torch.cat([_seconds(recording.samples, recording.sample_rate, span) for span in spans]).numpy()


@torch.no_grad()
def prepare_reference(source: Source, sample_rate: int, *, device: torch.device | str = "cpu") -> Clip:
    """Read a clip and prepare it for cloning: mono, at `sample_rate` Hz, trimmed, at a known level.

    A clip longer than 30 s is cut at a pause; `Clip.notes` reports it and `transcript_for` shortens the transcript. A
    clip that begins with its first word gets silence before it: without, models miss first sounds. Thread-safe.

    Args:
        source: the bytes of an audio file, or its path.
        sample_rate: sampling rate of the result in Hz.
        device: device for resampling and for the result.
    Raises UnusableReference with a message that explains the problem and what to do.
    """
    analysis = analyse_speech(decode(source))
    recording, spans = analysis.recording, analysis.spans
    _require_speech(spans)
    excerpt = choose_excerpt(analysis.vad_samples, spans, LONGEST_USED - END_SILENCE)
    used = _seconds(recording.samples, recording.sample_rate, (excerpt.start, excerpt.end))
    notes = (*_judge_clipping(recording, excerpt), *_edges_note(analysis, excerpt), *_cut_note(excerpt, spans))
    share = total_duration(excerpt.spans) / (excerpt.end - excerpt.start)
    speech = _levelled(resample(used.to(device), recording.sample_rate, sample_rate), share)
    samples = _on_16_bits(_ended(speech, sample_rate, excerpt.lead))
    spoken = spoken_duration(excerpt.spans)
    return Clip(samples, sample_rate, notes, (excerpt.start, excerpt.end), excerpt.speech_kept, spoken)


def transcript_for(clip: Clip, transcript: str) -> tuple[str, UserMessage | None]:
    """Return the part of a transcript that belongs to a prepared clip, and a note for the user if it is a guess.

    If only silence was removed, the transcript stays whole. If speech was cut off, the last words are removed in
    proportion to their speaking time: at the end of a sentence if one is near, else between two words. The clip is not
    transcribed, so the note asks the user to compare.
    """
    transcript = transcript.strip()
    if clip.speech_kept >= 1:
        return transcript, None
    kept = cut_text(transcript, clip.speech_kept)
    if kept == transcript:
        return kept, None
    return kept, UserMessage("reference.words_cut", {"words": _ending(kept)})


def _ending(text: str) -> str:
    """Return the last few words, for a message."""
    tail = text[-40:]
    return tail if tail == text else "…" + tail.partition(" ")[2] if " " in tail else "…" + tail


def _centred(recording: Recording) -> Recording:
    """Remove the DC offset and scale the loudest sample to full scale (float files may have any scale)."""
    if not len(recording.samples) or (peak := recording.samples.abs().max()) < _SILENT:
        raise UnusableReference("doctor.speech_silent")
    samples = recording.samples / peak
    samples = samples - samples.mean()
    if samples.abs().max() * peak < _SILENT:
        raise UnusableReference("doctor.speech_silent")
    return Recording(samples, recording.sample_rate)


def _require_speech(spans: tuple[Span, ...]) -> None:
    spoken = total_duration(spans)
    if spoken < SHORTEST_WORD:
        raise UnusableReference("doctor.speech_none")
    if spoken < SHORTEST_SPEECH:
        raise UnusableReference("reference.little_speech", seconds=round(spoken - 0.05, 1))


def _evened(samples: Tensor) -> Tensor:
    """Scale to the detector's best level, since it misses the first words of a quiet clip."""
    loud = max(float(np.quantile(np.abs(samples.numpy()), 0.99)), 0.01)  # torch's quantile sorts, which takes longer
    return samples * (0.3 / loud)


def _judge_clipping(recording: Recording, excerpt: Excerpt) -> tuple[UserMessage, ...]:
    found = crest_factor(speech_samples(recording, excerpt.spans))
    if found < CLIPPED_BEYOND_USE:
        raise UnusableReference("doctor.clipping_beyond_use")
    return (UserMessage("doctor.clipping_some"),) if found < CLIPPED else ()


def _edges_note(analysis: SpeechAnalysis, excerpt: Excerpt) -> tuple[UserMessage, ...]:
    edges = analysis.edges
    if edges.cut_end and excerpt.speech_kept >= 1:
        return (UserMessage("doctor.edges_both" if edges.cut_start else "doctor.edges_end"),)
    return (UserMessage("doctor.edges_start"),) if edges.cut_start else ()


def _cut_note(excerpt: Excerpt, spans: tuple[Span, ...]) -> tuple[UserMessage, ...]:
    if excerpt.speech_kept >= 1:
        return ()
    part = {"start": round(excerpt.start, 1), "end": round(excerpt.end, 1), "all": round(spans[-1][1])}
    return (UserMessage("reference.excerpt", part),)


def _levelled(samples: Tensor, share: float) -> Tensor:
    """Apply the gain that gives `SPEECH_LEVEL`, or less if lasting peaks would exceed the ceiling, and clip the others.

    share: of speech in the samples.
    """
    blocks = samples[: len(samples) // _BLOCK * _BLOCK].view(-1, _BLOCK)
    gain = torch.minimum(SPEECH_LEVEL / _active_rms(blocks, share), _CEILING / _lasting_peak(blocks))
    return (samples * gain).clamp(-_CEILING, _CEILING)


def _active_rms(blocks: Tensor, share: float) -> Tensor:
    """Return the RMS of the louder half of the blocks, or of a smaller part if there is less speech.

    Pauses do not count. The power of louder blocks than speech has, because of a knock, counts as `_LOUDEST` times the
    median.
    """
    powers = blocks.square().mean(dim=1)
    active = powers.topk(min(len(powers) // 2, int(share * len(powers))) + 1).values
    return active.clamp(max=_LOUDEST * active.median()).mean().sqrt()


def _lasting_peak(blocks: Tensor) -> Tensor:
    """Return the highest peak that each of `_LASTING` successive blocks reaches, as those of a loud word do."""
    peaks = blocks.abs().amax(dim=1)
    return peaks.unfold(0, min(_LASTING, len(peaks)), 1).amin(dim=1).max()


def _ended(samples: Tensor, sample_rate: int, lead: float) -> Tensor:
    """Fade the ends, and add silence: `lead` seconds before the first word, and after the last one."""
    fade = torch.linspace(0, 1, int(_FADE * sample_rate), dtype=torch.float32, device=samples.device)
    samples[: len(fade)] *= fade
    samples[-len(fade) :] *= fade.flip(0)
    return torch.nn.functional.pad(samples, (int(lead * sample_rate), int(END_SILENCE * sample_rate)))


def _on_16_bits(samples: Tensor) -> Tensor:
    return (samples * 32768).round().clamp(-32768, 32767) / 32768


def _seconds(samples: Tensor, rate: int, span: Span) -> Tensor:
    return samples[int(span[0] * rate) : int(span[1] * rate)]
