"""Pack training speech and its codes to carry to a machine without network access, and unpack them there.

    python -m training.packing pack --work DIR --out FOLDER [--megabytes 60] [--first N]
    python -m training.packing unpack --from FOLDER --work DIR [--codec FOLDER]

Speech is compressed with Opus (RFC 6716) to about 7 KB per second, or 26 MB per hour; codes take less than 1 MB per
hour. Only whole shards that fit are packed, the test shard first; another pack can begin with the next one. Unpacked
shards are complete: the pipeline continues from them as if it had made them itself. Codes are unpacked only for the
codec that made them.
"""

import argparse
import gzip
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec_decoder
from training.speech.corpus import SAMPLE_RATE
from training.speech.resampling import resampled
from training.work import DEFAULT_WORK, TrainingError, cores, exit_with_message, positive, read_json, replaced

_OPUS_RATE = 24_000  # Hz: Opus does not support 22,050
# Of libsndfile's scale from 0 to 1: 57 kbit/s. At 53 and less, Opus weakens what is above 4 kHz by 2 to 3 dB.
_COMPRESSION = 0.8
_SPEAKERS, _CODEC = "speakers.json", "codec.json"
_PACKED = re.compile(r"(speakers|codec)\.json|index-\d+\.jsonl\.gz|audio-\d+\.opus|(codes|degraded)-\d+(-\d+)?\.npz")


class ForeignFolder(TrainingError):
    """The output folder contains something other than packed speech."""


class TooLarge(TrainingError):
    """The first shard alone exceeds the limit."""


def pack(work: Path, out: Path, limit: int, first: int = 0) -> list[str]:
    """Pack shards of `work` from number `first` on into the folder `out`, at most `limit` bytes in total. Return their
    numbers.

    Speech that was packed into `out` before is replaced. Raises TrainingError when there is no finished shard,
    ForeignFolder when `out` contains anything else, TooLarge when the first shard does not fit.
    """
    found = sorted(path.stem.removeprefix("index-") for path in (work / "data").glob("index-*.jsonl"))
    numbers = [number for number in found if int(number) >= first]
    if not numbers:
        raise TrainingError(f"No finished shard of training speech in {work / 'data'}, from number {first} on.")
    out.mkdir(parents=True, exist_ok=True)
    _clear(out)
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


def unpack(source: Path, work: Path, codec: str | None = None) -> list[str]:
    """Restore packed shards under `work`; existing shards and codes are kept. Return the numbers of all packed shards.

    codec: fingerprint of the codec whose codes are unpacked, too; None means no codes.

    Raises TrainingError when `source` holds no packed speech, or when `work` has the codes of another codec.
    """
    if not (source / _SPEAKERS).exists():
        raise TrainingError(f"{source} holds no packed speech.")
    data = work / "data"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / _SPEAKERS, data / _SPEAKERS)
    if codec is not None and _codec_of(source) == codec:
        _unpack_codes(source, work / "codes")
    numbers = sorted(path.name.removeprefix("index-")[:3] for path in source.glob("index-*.jsonl.gz"))
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(partial(_unpack_shard, source, data), numbers))
    return numbers


def _codec_of(folder: Path) -> str | None:
    """Return the fingerprint of the codec that made the codes in a folder; None if there are none, or it is unknown."""
    file = folder / _CODEC
    fingerprint: str | None = read_json(file).get("fingerprint") if file.exists() else None
    return fingerprint


def _unpack_codes(source: Path, codes: Path) -> None:
    if (codes / _CODEC).exists() and _codec_of(codes) != _codec_of(source):
        raise TrainingError(
            f"The codes in {codes} are not of the codec that made those in {source}: remove that folder, and run this "
            "again."
        )
    codes.mkdir(parents=True, exist_ok=True)
    for file in (source / _CODEC, *source.glob("*.npz")):
        target = codes / file.name
        if not target.exists():
            with replaced(target) as unfinished:
                shutil.copy(file, unfinished)


def _unpack_shard(source: Path, data: Path, number: str) -> None:
    index = data / f"index-{number}.jsonl"
    if not index.exists():
        text = gzip.decompress((source / f"{index.name}.gz").read_bytes())
        np.save(data / f"audio-{number}.npy", _decoded(source / f"audio-{number}.opus"))
        with replaced(index) as unfinished:
            unfinished.write_bytes(text)  # last, because an index marks a complete shard


def _clear(out: Path) -> None:
    """Delete packed speech. Raises ForeignFolder, before anything is deleted, when `out` contains anything else."""
    found = sorted(out.iterdir())
    foreign = [path for path in found if not _PACKED.fullmatch(path.name) or not path.is_file()]
    if not foreign and not (out / _SPEAKERS).exists():
        foreign = found  # `codes/` of a training run has the same names, but no speakers
    if foreign:
        raise ForeignFolder(f"{out} contains {foreign[0].name}, which is not packed speech: choose an empty folder.")
    for path in found:  # speakers.json is the last one, so that an interrupted run can be repeated
        path.unlink()


def _packed_shard(work: Path, out: Path, number: str) -> Iterator[Path]:
    index = work / "data" / f"index-{number}.jsonl"
    target = out / f"{index.name}.gz"
    target.write_bytes(gzip.compress(index.read_bytes(), mtime=0))
    yield target
    audio = out / f"audio-{number}.opus"
    _encode(np.load(work / "data" / f"audio-{number}.npy", mmap_mode="r"), audio)
    yield audio
    folder = work / "codes"  # may also have unfinished files
    for codes in sorted([*folder.glob(f"codes-{number}-*.npz"), *folder.glob(f"degraded-{number}.npz")]):
        with np.load(codes) as arrays:
            np.savez_compressed(out / codes.name, **arrays)
        yield out / codes.name


def _encode(samples: np.ndarray, path: Path) -> None:
    wave = resampled(samples.astype(np.float32) / 32768, SAMPLE_RATE, _OPUS_RATE)
    soundfile.write(path, wave, _OPUS_RATE, format="OGG", subtype="OPUS", compression_level=_COMPRESSION)


def _decoded(path: Path) -> np.ndarray:
    wave, _ = soundfile.read(path, dtype="float32")
    scaled: np.ndarray = np.clip(np.rint(resampled(wave, _OPUS_RATE, SAMPLE_RATE) * 32768), -32768, 32767)
    return scaled.astype(np.int16)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing, unpacking = commands.add_parser("pack"), commands.add_parser("unpack")
    for command in (packing, unpacking):
        command.add_argument("--work", type=Path, default=DEFAULT_WORK)
    packing.add_argument("--out", type=Path, required=True)
    packing.add_argument("--megabytes", type=positive, default=60, help="the most, in MiB")
    unpacking.add_argument("--from", dest="source", type=Path, required=True, metavar="FOLDER")
    unpacking.add_argument("--codec", type=Path, metavar="FOLDER", help="unpack the codes of this codec, too")
    packing.add_argument("--first", type=int, default=0, help="the number of the first shard")
    options = parser.parse_args()
    with exit_with_message():
        _run(options)


def _run(options: argparse.Namespace) -> None:
    if options.command == "pack":
        numbers = pack(options.work, options.out, int(options.megabytes * 2**20), options.first)
        print(f"shards {numbers[0]} to {numbers[-1]}, {_size(options.out) / 2**20:.1f} MiB in {options.out}")
    else:
        kept = None
        if options.codec is not None:
            kept = codec_fingerprint(load_codec_decoder(*codec_files(options.codec)))
        print(f"{len(unpack(options.source, options.work, kept))} shards in {options.work}")


if __name__ == "__main__":
    main()
