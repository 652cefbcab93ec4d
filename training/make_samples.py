"""Make the sample voices in `assets/samples/`: a reference and its codes for each.

    python -m training.make_samples --codec FOLDER

The references are rendered like the training speech, by the speakers of `training/speech/sample_voices.py`. Requires
the packages of `make data`, and the codec for the stored codes; with another codec, the engine encodes the clip again.
The same installation produces the same files.
"""

import argparse
import io
import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from engine.audio import encode_audio, prepare_reference
from engine.codec.codec import CodecEncoder
from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec_encoder
from engine.release.hub import BUNDLED
from engine.serving.clips.clip_encoder import ClipEncoder
from engine.voice import VOICE_FILE_SUFFIX, Reference, Voice
from training.speech.corpus import SAMPLE_RATE
from training.speech.sample_voices import DESIGNS, Design
from training.speech.synthesize import CorpusRenderer, Job
from training.work import exit_with_message

FOLDER = BUNDLED.with_name("samples")
INDEX = "index.json"

_PAUSE = 0.25  # s, between the sentences of a reference
_WARP = ("pitch", "depth", "tract", "tempo", "breath")  # the warp's fields in `Speaker`


def main() -> None:
    """Render the samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codec", type=Path, default=BUNDLED, help="folder with the codec to encode with")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    with exit_with_message():
        make(options.codec, options.out)


def make(codec: Path, out: Path) -> None:
    """Write a voice file for each design, and the index. Earlier voice files are replaced once all are rendered."""
    voices = list(_voices(load_codec_encoder(*codec_files(codec))))
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"*{VOICE_FILE_SUFFIX}"):
        old.unlink()
    entries = [_write(out, design, voice) for design, voice in voices]
    (out / INDEX).write_text(json.dumps({"voices": entries}, indent=1) + "\n", "utf-8")
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{len(entries)} voices, {size / 1e6:.2f} MB")


def rendered(renderer: CorpusRenderer, design: Design) -> np.ndarray:
    """Render the sentences of a design with pauses between them, int16 at 22,050 Hz.

    Raises ValueError when a sentence is too long or too short.
    """
    jobs = [Job(text, design.speaker, True) for text in design.sentences]
    spoken = [each.samples for each in renderer.render(jobs, random.Random(f"samples {design.name}"))]
    if len(spoken) != len(jobs):
        raise ValueError(f"a sentence of {design.name} is too long or too short to be spoken")
    pause = np.zeros(int(_PAUSE * SAMPLE_RATE), dtype=np.int16)
    return np.concatenate([part for samples in spoken for part in (samples, pause)][:-1])


def _voices(codec: CodecEncoder) -> Iterator[tuple[Design, Voice]]:
    """Yield the voices, created as the app creates them from an uploaded clip."""
    fingerprint, sample_rate = codec_fingerprint(codec), codec.config.sample_rate
    encoder = ClipEncoder(lambda: codec, torch.device("cpu"))
    renderer = CorpusRenderer()
    for design in DESIGNS:
        file = io.BytesIO()
        soundfile.write(file, rendered(renderer, design), SAMPLE_RATE, format="FLAC", subtype="PCM_16")
        clip = prepare_reference(file.getvalue(), sample_rate)
        samples = clip.samples.numpy()
        kept = encode_audio(samples, sample_rate, "flac")
        codes = encoder.encode(clip.samples, kept)
        reference = Reference(" ".join(design.sentences), codes, kept, sample_rate, len(samples) / sample_rate)
        yield design, Voice(design.name, (reference,), fingerprint, "en", design.description)


def _write(out: Path, design: Design, voice: Voice) -> dict[str, Any]:
    """Write the voice file. Return its index entry, with the data that the voice file does not contain."""
    file = design.name.lower() + VOICE_FILE_SUFFIX
    (out / file).write_bytes(voice.to_bytes())
    speaker = asdict(design.speaker)
    teacher = f"{design.speaker.engine} {design.speaker.voice}"
    print(f"{file}: {voice.references[0].duration:.1f} s", flush=True)
    return {"file": file, "demo": design.demo, "teacher": teacher, "warp": {name: speaker[name] for name in _WARP}}


if __name__ == "__main__":
    main()
