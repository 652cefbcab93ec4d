"""Make `assets/samples/`, the sample voices: a reference of each, and its codes.

    python -m training.make_samples --codec FOLDER

Rendered like the training speech, with speakers that are not in training. Requires the packages of `make data`, and
the codec for the stored codes; other codecs make their own from the clip. The same installation makes the same
files.
"""

import argparse
import io
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from engine.audio import encode_audio, prepare_reference
from engine.codec.codec import CodecEncoder
from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec_encoder
from engine.serving.clip_encoder import ClipEncoder
from engine.voice import VOICE_FILE_SUFFIX, Reference, Voice
from training.speech.speakers import FESTIVAL, FLITE, Engine, Speaker
from training.speech.synthesize import SAMPLE_RATE, Job, Studio

FOLDER = Path(__file__).parent.parent / "assets" / "samples"
BUNDLED = FOLDER.parent / "bundled"
INDEX = "index.json"

_PAUSE = 0.25  # s, between the sentences of a reference
_WARP = ("pitch", "depth", "tract", "tempo", "breath")  # what `Speaker` calls it


@dataclass(frozen=True)
class Design:
    """The design of a sample voice. `demo` is its demo sentence."""

    name: str
    description: str
    speaker: Speaker
    sentences: tuple[str, ...]
    demo: str


def _speaker(engine: Engine, voice: str, *, pitch: float, depth: float, tract: float, tempo: float) -> Speaker:
    """A speaker of no training run, near the teacher's pitch, where warped speech is cleanest."""
    hertz = round((FLITE | FESTIVAL)[voice] * pitch, 1)
    return Speaker(0, engine, voice, pitch, depth, tract, tempo, 0.0, 0, hertz, held_out=True)


DESIGNS = (
    Design(
        "Adam",
        "Quick and cheerful, a young man's voice",
        _speaker("flite", "rms", pitch=1.27, depth=1.15, tract=1.06, tempo=1.06),
        (
            "Hello, everybody, this is Adam.",
            "The train leaves at nine, and we are ready.",
            "Bring me the big map, please.",
        ),
        "Did you see the blue bicycle on the bridge? It is mine!",
    ),
    Design(
        "Ben",
        "Calm and low, a man's voice",
        _speaker("flite", "rms", pitch=0.81, depth=1.2, tract=0.96, tempo=0.96),
        ("Good evening, this is Ben speaking.", "The fire is warm, and the house is quiet.", "Tell me a story."),
        "The old man kept a long letter behind the kitchen door.",
    ),
    Design(
        "Clara",
        "Bright and high, a young woman's voice",
        _speaker("festival", "cmu_us_slt_arctic_hts", pitch=1.35, depth=1.1, tract=1.03, tempo=1.02),
        ("Hello, I am Clara.", "What a wonderful day!", "My sister and I danced on the beach last night."),
        "Happy birthday! There are five yellow flowers on the table for you.",
    ),
    Design(
        "Daniel",
        "Warm, with a Scottish touch, a man's voice",
        _speaker("flite", "awb", pitch=0.82, depth=1.1, tract=0.99, tempo=0.93),
        (
            "Welcome, my name is Daniel.",
            "I live near the river, in a house with a red door.",
            "We have plenty of time.",
        ),
        "The last train to London leaves at six, so please be ready.",
    ),
    Design(
        "Emma",
        "Soft and slow, a woman's low voice",
        _speaker("festival", "cmu_us_slt_arctic_hts", pitch=0.9, depth=1.2, tract=0.94, tempo=0.93),
        ("Nice to meet you, I am Emma.", "In the evening I sat beside the lake and read a book.", "It was very good."),
        "It is going to rain, but the garden is quiet and green.",
    ),
    Design(
        "Flora",
        "Clear and friendly, a woman's voice",
        _speaker("flite", "slt", pitch=1.1, depth=1.15, tract=0.98, tempo=0.98),
        (
            "Good morning, my name is Flora.",
            "The window is open, and the birds are singing.",
            "Would you like a cup of coffee?",
        ),
        "The morning was bright, and we walked along the river.",
    ),
)


def main() -> None:
    """Render the samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codec", type=Path, default=BUNDLED, help="folder with the codec to encode with")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    make(options.codec, options.out)


def make(codec: Path, out: Path) -> None:
    """Write a voice file for each design, and the index."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"*{VOICE_FILE_SUFFIX}"):
        old.unlink()
    encoder = load_codec_encoder(*codec_files(codec))
    entries = [_write(out, design, voice) for design, voice in _voices(encoder)]
    (out / INDEX).write_text(json.dumps({"voices": entries}, indent=1) + "\n", "utf-8")
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{len(entries)} voices, {size / 1e6:.2f} MB")


def rendered(studio: Studio, design: Design) -> np.ndarray:
    """The sentences with a pause between them, int16 at 22,050 Hz. Raises ValueError for one that is too long."""
    jobs = [Job(text, design.speaker, True) for text in design.sentences]
    spoken = [each.samples for each in studio.render(jobs, random.Random(f"samples {design.name}"))]
    if len(spoken) != len(jobs):
        raise ValueError(f"a sentence of {design.name} is too long or too short to be spoken")
    pause = np.zeros(int(_PAUSE * SAMPLE_RATE), dtype=np.int16)
    return np.concatenate([part for samples in spoken for part in (samples, pause)][:-1])


def _voices(codec: CodecEncoder) -> Iterator[tuple[Design, Voice]]:
    """The voices, as the app makes them from an uploaded clip."""
    fingerprint, sample_rate = codec_fingerprint(codec), codec.config.sample_rate
    encoder = ClipEncoder(lambda: codec, fingerprint, torch.device("cpu"))
    studio = Studio()
    for design in DESIGNS:
        file = io.BytesIO()
        soundfile.write(file, rendered(studio, design), SAMPLE_RATE, format="FLAC", subtype="PCM_16")
        clip = prepare_reference(file.getvalue(), sample_rate)
        samples = clip.samples.numpy()
        kept = encode_audio(samples, sample_rate, "flac")
        codes = encoder.encode(clip.samples, kept)
        reference = Reference(" ".join(design.sentences), codes, kept, sample_rate, len(samples) / sample_rate)
        yield design, Voice(design.name, (reference,), fingerprint, "en", design.description)


def _write(out: Path, design: Design, voice: Voice) -> dict[str, Any]:
    """Write the voice. Returns its index entry: the data that is not in the voice file."""
    file = design.name.lower() + VOICE_FILE_SUFFIX
    (out / file).write_bytes(voice.to_bytes())
    speaker = asdict(design.speaker)
    teacher = f"{design.speaker.engine} {design.speaker.voice}"
    print(f"{file}: {voice.references[0].duration:.1f} s", flush=True)
    return {"file": file, "demo": design.demo, "teacher": teacher, "warp": {name: speaker[name] for name in _WARP}}


if __name__ == "__main__":
    main()
