"""The utterances to judge: the teachers' recordings, reversed, after the codec alone, and the model's speech."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torchaudio.functional as AF

from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.quality.takes import Run, Samples, take
from engine.engine import Engine
from engine.families.s2.codec import codec_files, load_codec_decoder, load_codec_encoder
from engine.models.sampling import SamplingOptions


@dataclass(frozen=True)
class Utterance:
    """Samples [n] at `rate` Hz in which `speaker` should say the text of `clip`. copy: of the clip's audio itself."""

    speaker: Speaker
    clip: Clip
    samples: Samples
    rate: int
    copy: bool = False
    run: Run | None = None  # for the model's speech only


def teachers(data: EvaluationSet) -> Iterator[Utterance]:
    """Yield the teachers' recordings."""
    for speaker in data.speakers:
        for clip in speaker.sentences:
            yield Utterance(speaker, clip, *clip.read())


def backwards(data: EvaluationSet) -> Iterator[Utterance]:
    """Yield the recordings in reverse."""
    for spoken in teachers(data):
        yield Utterance(spoken.speaker, spoken.clip, spoken.samples[::-1].copy(), spoken.rate)


def codec_alone(data: EvaluationSet, folder: Path, device: str) -> Iterator[Utterance]:
    """Yield the recordings, encoded and decoded by the codec in a release's folder."""
    path, config = codec_files(folder)
    encoder = load_codec_encoder(path, config, device=device)
    decoder = load_codec_decoder(path, config, device=device)
    for spoken in teachers(data):
        wave = AF.resample(torch.from_numpy(spoken.samples), spoken.rate, config.sample_rate).to(device)
        audio = decoder.decode(encoder.encode(wave[None, None]))[0, 0, : len(wave)]
        yield Utterance(spoken.speaker, spoken.clip, audio.cpu().numpy(), config.sample_rate, copy=True)


def speech(data: EvaluationSet, engine: Engine, options: SamplingOptions) -> Iterator[Utterance]:
    """Yield the model's speech in voices cloned from the references. The seed is the number of the utterance."""
    seed = 0
    for speaker in data.speakers:
        pair = (speaker.reference.path, speaker.reference.text)
        voice = engine.encode_voice(speaker.name, [pair]).voice
        for clip in speaker.sentences:
            samples, run = take(engine, clip.text, voice, seed, options)
            seed += 1
            yield Utterance(speaker, clip, samples, engine.info.sample_rate, run=run)
