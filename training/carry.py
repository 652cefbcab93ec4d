"""Pack training speech and its codes for a machine without network, and unpack them there.

    python -m training.carry pack --work DIR --out FOLDER [--megabytes 60]
    python -m training.carry unpack --from FOLDER --work DIR

Speech is compressed to about 4 KB a second with Opus (RFC 6716), so an hour has 15 MB; codes have less than 1 MB an
hour. As many whole shards are packed as fit, the test shard first. Unpacked shards are complete: the pipeline goes
on with them as if it had made them.
"""

import argparse
import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from training.speech.corpus import SAMPLE_RATE
from training.speech.resampling import resampled

_OPUS_RATE = 24_000  # Hz: Opus has no 22,050
_COMPRESSION = 0.9  # of libsndfile's scale from 0 to 1: 32 kbit/s
_SPEAKERS, _CODEC = "speakers.json", "codec.json"


class TooLarge(RuntimeError):
    """Not even the first shard fits."""


def pack(work: Path, out: Path, limit: int) -> list[str]:
    """Pack shards of `work` into the folder `out`, at most `limit` bytes in all. Returns their numbers.

    Raises FileNotFoundError when there is no finished shard, TooLarge when the first one does not fit.
    """
    numbers = sorted(path.stem.removeprefix("index-") for path in (work / "data").glob("index-*.jsonl"))
    if not numbers:
        raise FileNotFoundError(f"No finished shard of training speech in {work / 'data'}.")
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    shutil.copy(work / "data" / _SPEAKERS, out / _SPEAKERS)
    if (work / "codes" / _CODEC).exists():
        shutil.copy(work / "codes" / _CODEC, out / _CODEC)
    packed: list[str] = []
    for number in numbers:
        files = list(_packed_shard(work, out, number))
        if _size(out) > limit:
            for file in files:
                file.unlink()
            break
        packed.append(number)
    if not packed:
        raise TooLarge(f"Shard {numbers[0]} alone is larger than {limit / 2**20:.0f} MiB: allow more.")
    return packed


def unpack(source: Path, work: Path) -> list[str]:
    """Restore the shards of `pack` under `work`, except existing ones. Returns their numbers.

    Raises FileNotFoundError when `source` was not packed.
    """
    if not (source / _SPEAKERS).exists():
        raise FileNotFoundError(f"{source} holds no packed speech.")
    data, codes = work / "data", work / "codes"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / _SPEAKERS, data / _SPEAKERS)
    if (source / _CODEC).exists():
        codes.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / _CODEC, codes / _CODEC)
        for file in source.glob("*.npz"):
            shutil.copy(file, codes / file.name)
    numbers = sorted(path.name.removeprefix("index-")[:3] for path in source.glob("index-*.jsonl.gz"))
    for number in numbers:
        index = data / f"index-{number}.jsonl"
        if not index.exists():
            text = gzip.decompress((source / f"{index.name}.gz").read_bytes())
            np.save(data / f"audio-{number}.npy", _decoded(source / f"audio-{number}.opus"))
            index.write_bytes(text)  # last: an index marks a complete shard
    return numbers


def _packed_shard(work: Path, out: Path, number: str) -> Iterator[Path]:
    index = work / "data" / f"index-{number}.jsonl"
    target = out / f"{index.name}.gz"
    target.write_bytes(gzip.compress(index.read_bytes(), mtime=0))
    yield target
    audio = out / f"audio-{number}.opus"
    _encode(np.load(work / "data" / f"audio-{number}.npy", mmap_mode="r"), audio)
    yield audio
    for codes in sorted((work / "codes").glob(f"*-{number}*.npz")):
        with np.load(codes) as arrays:
            np.savez_compressed(out / codes.name, **arrays)
        yield out / codes.name


def _encode(samples: np.ndarray, path: Path) -> None:
    wave = resampled(samples.astype(np.float32) / 32768, SAMPLE_RATE, _OPUS_RATE)
    soundfile.write(path, wave, _OPUS_RATE, format="OGG", subtype="OPUS", compression_level=_COMPRESSION)


def _decoded(path: Path) -> np.ndarray:
    wave, _ = soundfile.read(path, dtype="float32")
    return (np.clip(np.rint(resampled(wave, _OPUS_RATE, SAMPLE_RATE) * 32768), -32768, 32767)).astype(np.int16)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing, unpacking = commands.add_parser("pack"), commands.add_parser("unpack")
    for command in (packing, unpacking):
        command.add_argument("--work", type=Path, default=Path.home() / ".cache/reprise/training")
    packing.add_argument("--out", type=Path, required=True)
    packing.add_argument("--megabytes", type=float, default=60, help="the most, in MiB")
    unpacking.add_argument("--from", dest="source", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    if options.command == "pack":
        numbers = pack(options.work, options.out, int(options.megabytes * 2**20))
        print(f"{len(numbers)} shards, {_size(options.out) / 2**20:.1f} MiB in {options.out}")
    else:
        print(f"{len(unpack(options.source, options.work))} shards in {options.work}")


if __name__ == "__main__":
    main()
