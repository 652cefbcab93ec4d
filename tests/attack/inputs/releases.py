"""Damaged release folders: configurations, tokenizers, indexes, weights and pickles.

A case names a file of a small valid release and its replacement. Loading the folder must return a model or raise an
error that names the defect.
"""

import gzip
import io
import json
import pickle
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from engine.engine import Engine
from engine.errors import ReleaseError
from tests.attack.inputs.mutations import damaged
from tests.support.flat_release import flat_release, saved

_MINIATURE = Path(__file__).parents[2] / "fixtures" / "s2_tiny"
_SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
_WHOLE = ("config.json", "model.safetensors.index.json", *_SHARDS, "tokenizer.json", "codec.pth", "codec_config.json")
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 1.5, -0.0, 1e308, float("nan"), float("inf"), 1 << 20, 1 << 31, 1 << 62,
    1 << 64, 10**400, -(1 << 40), "", "x", "64", [], {}, [1], [[]], [2, 2, 2], [1 << 31], {"a": 1}, [None], [64] * 9,
)  # fmt: skip
_TEXTS = (
    b"", b"{", b"[]", b"null", b"NaN", b'"x"', b"\xff\xfe", b'{"a": 1, "a": 2}', b'{"":' * 100_000, b"[" * 1_000_000,
    b'{"a":' + b"[]," * 1_000_000, b"{}", b" " * (5 << 20), b'{"n_layer": ' + b"9" * 100_000 + b"}", b"\0" * 1_000,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A release with one changed file. layout: "s2" or "s1". content: of the file; None if it is missing; a string that
    begins with "->" is the target of a link."""

    layout: str
    file: str
    content: bytes | str | None


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` releases: first the crafted ones, then random ones."""
    made = 0
    for case in islice(crafted(), count):
        yield case
        made += 1
    yield from damaged_releases(seed, count - made)


def damaged_releases(seed: int, count: int) -> Iterator[Case]:
    """`count` releases with one randomly damaged file."""
    ways = (_other_value, _other_value, _other_bytes, _other_header, _other_pickle)
    for index in range(count):
        yield ways[index % len(ways)](random.Random(f"{seed}:{index}"))


def run(case: Case) -> None:
    """Load a release. Raises undeclared errors, and AssertionError when a message contains a folder."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "release"
        _write(case, folder)
        message = ""
        try:
            Engine.load(folder, "cpu", graphs="off", slots=1).close()
        except ReleaseError as error:
            message = str(error)
        assert len(message) < 3_000, "the message is too long"
        assert place not in message, "the message contains a folder"
        assert not (folder.parent / "ran").exists(), "a file of the release was executed"


def _write(case: Case, folder: Path) -> None:
    folder.mkdir()
    for name, data in _release(case.layout).items():
        (folder / name).write_bytes(data)
    with suppress(FileNotFoundError):
        (folder / case.file).unlink()
    if isinstance(case.content, str):
        (folder / case.file).symlink_to(case.content.removeprefix("->"))
    elif case.content is not None:
        (folder / case.file).write_bytes(case.content)


@cache
def _release(layout: str) -> dict[str, bytes]:
    whole = {name: (_MINIATURE / name).read_bytes() for name in _WHOLE}
    if layout == "s2":
        return whole
    return flat_release() | {name: whole[name] for name in ("codec.pth", "codec_config.json")}


def crafted() -> Iterator[Case]:
    """Yield crafted releases; some take a second to make."""
    config = json.loads(_release("s2")["config.json"])
    endless = json.dumps({**config, "text_config": {**config["text_config"], "n_layer": 1 << 31}}).encode()
    flat = {**json.loads(_release("s1")["config.json"]), "codebook_size": 1 << 31}
    files = {"s2": (*_WHOLE, "reprise.json", "lexicon.json.gz"), "s1": ("special_tokens.json", "tokenizer.tiktoken")}
    yield from (Case(layout, file, text) for layout in files for file in files[layout] for text in _TEXTS)
    yield from (Case(layout, file, None) for layout in files for file in _release(layout))
    yield from (Case("s2", file, f"->{target}") for file in _WHOLE for target in ("/dev/zero", "/", "/etc/hostname"))
    yield Case("s2", "config.json", endless)
    yield Case("s1", "config.json", json.dumps(flat).encode())
    yield Case("s2", "lexicon.json.gz", gzip.compress(bytes(400 << 20), 1))
    yield Case("s2", "lexicon.json.gz", gzip.compress(b'{"version": 1, "words": [], "letters": 3}'))
    yield Case("s2", "lexicon.json.gz", gzip.compress(b'{"version": 1}'))
    yield from (Case("s2", "model.safetensors.index.json", index) for index in _indexes())
    yield from (Case("s2", _SHARDS[0], header) for header in _headers())
    yield from (Case("s1", "model.pth", data) for data in pickles())
    yield from (Case("s2", "codec.pth", data) for data in pickles())


def _indexes() -> Iterator[bytes]:
    """Indexes that point outside of the folder, or at invalid names."""
    right = json.loads(_release("s2")["model.safetensors.index.json"])["weight_map"]
    for place in (
        "../release/" + _SHARDS[0],
        "/etc/passwd",
        "/dev/zero",
        "..",
        ".",
        "",
        "a\0b",
        "config.json",
        7,
        None,
        [],
    ):
        yield json.dumps({"weight_map": dict.fromkeys(right, place)}).encode()
        yield json.dumps({"weight_map": {**right, next(iter(right)): place}}).encode()
    for weights in ([], None, 3, "x", {}):
        yield json.dumps({"weight_map": weights}).encode()


def _headers() -> Iterator[bytes]:
    """Safetensors with false headers."""
    data = _release("s2")[_SHARDS[0]]
    size = struct.unpack("<Q", data[:8])[0]
    header, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    for length in (0, 1, size - 1, size + 1, len(data), 1 << 31, 1 << 62, (1 << 63) - 1, (1 << 64) - 1):
        yield struct.pack("<Q", length) + data[8:]
    yield struct.pack("<Q", 50 << 20) + b"[" * (50 << 20)
    name = next(name for name in header if name != "__metadata__")
    for change in (
        {"dtype": "I64"}, {"dtype": "F128"}, {"dtype": None}, {"shape": [1 << 62, 4]}, {"shape": [-1]}, {"shape": []},
        {"shape": [0]}, {"data_offsets": [0, 1 << 62]}, {"data_offsets": [10, 0]}, {"data_offsets": [0, 4]},
        {"extra": 1},
    ):  # fmt: skip
        text = json.dumps({**header, name: {**header[name], **change}}).encode()
        yield struct.pack("<Q", len(text)) + text + rest
    tensors = load_file(_MINIATURE / _SHARDS[0])
    for kind in (torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.complex64):
        yield save({name: tensor.to(kind) for name, tensor in tensors.items()})


class _Runs:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return Path.touch, (Path("..") / "ran",)  # type: ignore[return-value]


class _Calls:
    """Pickled as a call that PyTorch allows, with arguments that exhaust memory."""

    def __init__(self, what: Callable[..., Any], *given: Any) -> None:
        self.how = what, given

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.how


@cache
def pickles() -> tuple[bytes, ...]:
    """Files of `torch.save` that run code, exhaust memory or time, or hold non-tensors."""
    return tuple(_pickles())


def _pickles() -> Iterator[bytes]:
    weight = torch.zeros(4, 4)
    values: tuple[Any, ...] = (
        _Runs(), {"x": _Runs()}, {}, [], 3, None, "x", weight, {"a": 1}, {1: weight}, {"state_dict": []},
        {"state_dict": {"state_dict": {}}}, {("a", "b"): weight}, {"x": _Calls(bytearray, 1 << 33)},
        {"x": weight.to_sparse()},
        {"x": torch.zeros(4, device="meta")}, {"x": weight.long()}, {"x": torch.zeros(1).expand(1 << 20, 1 << 20)},
        {"x": torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8)}, {"x": torch.nn.Parameter(weight)},
        {"x": torch.zeros(2, dtype=torch.complex64)}, {f"x{i}": weight for i in range(20_000)},
    )  # fmt: skip
    yield from map(saved, values)
    whole = saved({"x": weight})
    # (((…),(…)),…): 40 steps in a few bytes make a key that takes 2 ** 40 steps to hash.
    growing = (
        b"\x80\x02}" + b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(40)) + b"K\1s."
    )
    for text in (
        growing,
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        pickle.dumps({"x": _Runs()}),
        b"(" * 1_000_000,
        b"\x80\x02]" * 500_000,
    ):
        yield repacked(whole, text)
    yield repacked(whole, b"\x80\x02" + b"}0" * (40 << 20), zipfile.ZIP_DEFLATED)
    yield whole[:100]
    yield pickle.dumps({"x": 1})


def repacked(data: bytes, text: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file of `torch.save` with its pickle replaced."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(file, "w", compression, compresslevel=1) as after:
        for entry in before.infolist():
            after.writestr(entry.filename, text if entry.filename.endswith("data.pkl") else before.read(entry))
    return file.getvalue()


def _other_value(chance: random.Random) -> Case:
    """A configuration with one to three changed, missing or unknown values."""
    layout = chance.choice(("s2", "s2", "s1"))
    file = chance.choice([name for name in _release(layout) if name.endswith(".json")] + ["reprise.json"])
    values = json.loads(_release(layout).get(file, _PROFILE))
    for _ in range(chance.randint(1, 3)):
        inside = chance.choice([values, *_objects(values)])
        key = chance.choice([*inside, "unknown"])
        if chance.random() < 0.1:
            inside.pop(key, None)
        else:
            inside[key] = deepcopy(chance.choice(_VALUES))
    return Case(layout, file, json.dumps(values).encode())


_PROFILE = json.dumps(
    {"max_segment_bytes": 72, "context_positions": 256, "style_tags": False, "temperature": 0.5, "notice": "A model."}
).encode()


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        if isinstance(each, dict):
            yield each
        yield from _objects(each)


def _other_bytes(chance: random.Random) -> Case:
    layout = chance.choice(("s2", "s1"))
    file = chance.choice([*_release(layout)])
    return Case(layout, file, damaged(_release(layout)[file], chance))


def _other_header(chance: random.Random) -> Case:
    """A shard with a damaged header of the right length."""
    file = chance.choice(_SHARDS)
    data = _release("s2")[file]
    size = struct.unpack("<Q", data[:8])[0]
    header = damaged(data[8 : 8 + size], chance)
    return Case("s2", file, struct.pack("<Q", len(header)) + header + data[8 + size :])


def _other_pickle(chance: random.Random) -> Case:
    layout, file = chance.choice((("s1", "model.pth"), ("s2", "codec.pth")))
    data = _release(layout)[file]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    return Case(layout, file, repacked(data, damaged(text, chance)))
