"""Encode the corpus with the codec's encoder, for training the dual AR.

    python -m training.dual_ar.encode --work DIR --codec FOLDER

Writes `codes-NNN-V.npz` for each shard of the corpus and each variant V, except existing ones. Variant 0 is the
unchanged speech. In the others, each speaker is played faster or slower (speed perturbation), which creates a new
speaker: pitch, vocal tract and tempo change together. `degraded-NNN.npz` holds codes of the unchanged speech under
recording conditions, for references.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import torch

from engine.codec.codec import CodecEncoder
from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec_encoder
from training.device import training_device
from training.dual_ar.conversations import EncodedUtterance
from training.speech.conditions import degraded
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.speech.resampling import resampled
from training.work import (
    DEFAULT_WORK,
    TrainingError,
    cores,
    exit_with_message,
    positive_int,
    read_json,
    replaced,
    write_json,
)

BATCH_SECONDS = {"cpu": 12.0, "cuda": 240.0}
VARIANT_STRIDE = 10_000  # separates the speakers of different variants


@dataclass(frozen=True)
class CodeFormat:
    """The sizes of the codec that encoded a folder's speech, as in its `codec.json`. fingerprint: of the codec."""

    num_codebooks: int
    semantic_size: int
    residual_size: int
    frame_rate: float
    fingerprint: str | None = None  # unknown

    @classmethod
    def load(cls, codes: Path) -> "CodeFormat":
        """Load the format of the codes in a folder. Raises TrainingError when there are none."""
        if not (codes / "codec.json").exists():
            raise TrainingError(f"No codes in {codes}: encode the speech first (python -m training.dual_ar.encode).")
        return cls(**read_json(codes / "codec.json"))

    def check(self, codes: Path, fingerprint: str, codec: Path) -> None:
        """Raise TrainingError unless the codes are by the codec in the folder `codec`, which has this fingerprint."""
        if self.fingerprint not in (None, fingerprint):
            raise TrainingError(
                f"The codes in {codes}, which the dual AR learned, are not those of the codec in {codec}."
            )


@dataclass(frozen=True)
class CodedCorpus:
    """Encoded utterances and their format."""

    train: list[EncodedUtterance]
    held_out: list[EncodedUtterance]
    format: CodeFormat
    train_hours: float

    @classmethod
    def load(cls, folder: Path) -> "CodedCorpus":
        """Load all encoded shards in `folder`. `train` excludes held-out speakers and sentences.

        Raises TrainingError when there are none.
        """
        found = CodeFormat.load(folder)
        train: list[EncodedUtterance] = []
        held_out: list[EncodedUtterance] = []
        for path in sorted(folder.glob("codes-*.npz")):
            for utterance, kept_out in read_codes(path):
                (held_out if kept_out else train).append(utterance)
        frames = sum(u.codes.shape[1] for u in train)
        return cls(train, held_out, found, frames / found.frame_rate / 3600)


def read_codes(path: Path) -> list[tuple[EncodedUtterance, bool]]:
    """Read the utterances of an encoded shard, in the order of its audio, and whether each is held out."""
    with np.load(path) as shard:
        codes, phone_of_frame, ends = shard["codes"], shard["spoken"], shard["ends"].tolist()
        rows = zip(shard["speaker"].tolist(), shard["phones"].tolist(), shard["held_out"].tolist(), strict=True)
        beside = _degraded_codes(path)
        found = []
        for (speaker, phones, kept_out), start, end in zip(rows, [0, *ends[:-1]], ends, strict=True):
            degraded_codes = None if beside is None else beside[:, start:end]
            phone = phone_of_frame[start:end]
            utterance = EncodedUtterance(speaker, phones, codes[:, start:end], phone, degraded_codes)
            found.append((utterance, kept_out))
        return found


def phone_of_frames(times: Sequence[float], frames: int, frame_rate: float) -> np.ndarray:
    """Return, for each frame, the index of the token spoken at its centre: `[frames]` int16."""
    centres = (np.arange(frames) + 0.5) / frame_rate
    return np.clip(np.searchsorted(np.asarray(times), centres, side="right") - 1, 0, len(times) - 1).astype(np.int16)


def speed_of(speaker: int, variant: int) -> Fraction:
    """Return the playback speed of a speaker in a variant; 1 in variant 0."""
    if variant == 0:
        return Fraction(1)
    rng = np.random.default_rng([speaker, variant])
    percent = rng.integers(86, 96) if rng.random() < 0.5 else rng.integers(105, 117)
    return Fraction(int(percent), 100)


def _degraded_codes(path: Path) -> np.ndarray | None:
    """Load the codes of the same shard under recording conditions, if `path` is of variant 0 and they exist."""
    _, shard, variant = path.stem.split("-")
    beside = path.with_name(f"degraded-{shard}.npz")
    if variant != "0" or not beside.exists():
        return None
    with np.load(beside) as found:
        codes: np.ndarray = found["codes"]
    return codes


def encode_shard(encoder: CodecEncoder, utterances: list[Utterance], variant: int) -> dict[str, np.ndarray]:
    """Encode the utterances of one shard in the given order. Return their codes and labels."""
    rate = encoder.config.frame_rate
    kept = encode_waves(encoder, _make_waveforms(lambda _, u: _played(u, speed_of(u.speaker, variant)), utterances))
    return {
        "codes": np.concatenate(kept, axis=1),
        "ends": np.cumsum([c.shape[1] for c in kept]),
        "spoken": np.concatenate(
            [
                phone_of_frames(u.times, c.shape[1], rate / float(speed_of(u.speaker, variant)))
                for u, c in zip(utterances, kept, strict=True)
            ]
        ),
        "speaker": np.array([u.speaker + VARIANT_STRIDE * variant for u in utterances]),
        "phones": np.array([" ".join(u.tokens) for u in utterances]),
        "held_out": np.array([not u.for_training for u in utterances]),
    }


def encode_degraded(encoder: CodecEncoder, utterances: list[Utterance], shard: int) -> dict[str, np.ndarray]:
    """Encode one shard under recording conditions. The codes are frame-aligned with those of variant 0."""
    rate = encoder.config.sample_rate
    waves = _make_waveforms(
        lambda i, u: degraded(u.waveform(), rate, np.random.default_rng([shard, 77, i])), utterances
    )
    return {"codes": np.concatenate(encode_waves(encoder, waves), axis=1)}


def _make_waveforms(make: Callable[[int, Utterance], np.ndarray], utterances: list[Utterance]) -> list[np.ndarray]:
    """Make one waveform of each utterance and its number, on all cores; most of the work is in NumPy and SciPy."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(make, range(len(utterances)), utterances))


def encode_waves(encoder: CodecEncoder, waves: list[np.ndarray]) -> list[np.ndarray]:
    """Encode waveforms in batches of similar length. Return codes `[K, T]` int16 of each."""
    config, device = encoder.config, next(encoder.parameters()).device
    coded: dict[int, np.ndarray] = {}
    order = sorted(range(len(waves)), key=lambda i: len(waves[i]))
    while order:
        longest = len(waves[order[-1]])
        size = max(1, int(BATCH_SECONDS[device.type] * config.sample_rate / longest))
        batch, order = order[-size:], order[:-size]
        audio = torch.zeros(len(batch), 1, longest)
        for row, i in enumerate(batch):
            audio[row, 0, : len(waves[i])] = torch.from_numpy(waves[i])
        codes = encoder.encode(audio.to(device)).cpu().numpy().astype(np.int16)
        for row, i in enumerate(batch):
            coded[i] = codes[row, :, : -(-len(waves[i]) // config.frame_length)]
    return [coded[i] for i in range(len(waves))]


def _played(utterance: Utterance, speed: Fraction) -> np.ndarray:
    """Return the samples played at `speed`, float32 in [-1, 1]."""
    return resampled(utterance.waveform(), speed.numerator, speed.denominator)


@torch.inference_mode()
def encode(work: Path, codec: Path, variants: int) -> None:
    """Encode every shard under `work/data` that has no codes yet, into `work/codes`.

    Raises TrainingError when there is no speech, or when existing codes are from another codec.
    """
    corpus = Corpus.load(work / "data")
    path, config = codec_files(codec)
    encoder = load_codec_encoder(path, config, training_device())
    out = work / "codes"
    out.mkdir(parents=True, exist_ok=True)
    meta: dict[str, object] = {
        "fingerprint": codec_fingerprint(encoder),
        "num_codebooks": config.num_codebooks,
        "semantic_size": config.quantizer.semantic_codebook_size,
        "residual_size": config.quantizer.codebook_size,
        "frame_rate": config.frame_rate,
    }
    known = out / "codec.json"
    if known.exists() and read_json(known).get("fingerprint", meta["fingerprint"]) != meta["fingerprint"]:
        raise TrainingError(f"The codes in {out} were made by another codec; remove that folder, and run this again.")
    write_json(known, meta)
    for shard, variant in itertools.product(corpus.shards, range(variants)):
        utterances = [u for u in corpus.of_shard(shard) if variant == 0 or u.for_training]
        save_unless_exists(
            out / f"codes-{shard:03d}-{variant}.npz", utterances, partial(encode_shard, encoder, utterances, variant)
        )
        if variant == 0:
            save_unless_exists(
                out / f"degraded-{shard:03d}.npz", utterances, partial(encode_degraded, encoder, utterances, shard)
            )


def save_unless_exists(target: Path, utterances: list[Utterance], make: Callable[[], dict[str, np.ndarray]]) -> None:
    """Save the result of `make` for these utterances, unless `target` exists."""
    if target.exists() or not utterances:
        return
    started = time.monotonic()
    arrays = make()
    with replaced(target) as unfinished:
        np.savez(unfinished, allow_pickle=False, **arrays)
    seconds = sum(u.samples for u in utterances) / SAMPLE_RATE
    rate = seconds / (time.monotonic() - started)
    print(f"{target.name}: {seconds / 3600:.2f} h at {rate:.0f} x real time", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--codec", type=Path, required=True)
    parser.add_argument("--variants", type=positive_int, default=2)
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    with exit_with_message():
        encode(args.work, args.codec, args.variants)


if __name__ == "__main__":
    main()
