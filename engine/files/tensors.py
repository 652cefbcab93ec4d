"""Tensor files of a release: safetensors, and state dicts of `torch.save`, without running anything in them.

Files are mapped: each tensor is read on demand. Before a library opens a file, the sizes that it declares are checked,
so that a few bytes cannot exhaust memory or time.
"""

import pickletools
import re
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import InvalidCheckpoint, ReleaseIncomplete, UnreadableFile
from engine.files.bounded import open_regular

MAX_TENSORS = 10_000
_MAX_BYTES = 1 << 42  # of a file; it is mapped
_MAX_HEADER_BYTES = 4 << 20  # of a safetensors header, of a zip's directory
_MAX_PICKLE_BYTES = 4 << 20
_MAX_OPCODES = 500_000  # of a pickle; a tensor takes about 50
_ZIP_END, _ZIP_LOCATOR, _ZIP64_END = struct.Struct("<4s8xLL2x"), b"PK\x06\x07", struct.Struct("<4s36xQ8x")
_LOCATOR_BYTES = 20
_GLOBALS = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_tensor_v2|torch\._utils _rebuild_parameter|torch \w+Storage"
)


@dataclass(frozen=True)
class TensorFile:
    """The tensors of a file: shapes at once, values on demand.

    read: reads a tensor by name; raises InvalidCheckpoint for anything but floating point numbers of 16 bits or more.
    """

    shapes: dict[str, tuple[int, ...]]
    read: Callable[[str], Tensor]


def open_tensors(path: Path) -> TensorFile:
    """Open a `.safetensors` file, or a state dict of `torch.save`, possibly under the key `state_dict`.

    Raises ReleaseIncomplete for a file that is missing, cut short or damaged, InvalidCheckpoint for one that holds
    anything but plain tensors.
    """
    if not path.exists():
        raise ReleaseIncomplete("release.no_file", file=path.name)
    try:
        return _open_safetensors(path) if path.suffix == ".safetensors" else _open_pickled(path)
    except UnreadableFile as error:
        raise ReleaseIncomplete(error.message.key, **error.message.values) from error


def _damaged(path: Path, why: object) -> ReleaseIncomplete:
    lines = str(why).splitlines()[:1] or [""]
    return ReleaseIncomplete("release.cut_short", file=path.name, why=lines[0][:200])


def _open_safetensors(path: Path) -> TensorFile:
    with open_regular(path, _MAX_BYTES) as file:
        length = int.from_bytes(file.read(8), "little")
    if length > _MAX_HEADER_BYTES:
        raise _damaged(path, f"its header claims {length:,} bytes")
    try:
        opened: Any = safe_open(path, framework="pt", device="cpu")
        names: list[str] = list(opened.keys())
        _check_count(path, names)
        shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, error) from error

    def read(name: str) -> Tensor:
        try:
            tensor: Tensor = opened.get_tensor(name)
        except (SafetensorError, OSError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise _damaged(path, error) from error  # also for dtypes that this PyTorch lacks
        return _checked(path, name, tensor)

    return TensorFile(shapes, read)


def _open_pickled(path: Path) -> TensorFile:
    try:
        _check_pickle(path)
        # Mapped rather than read; PyTorch's own reader unpickles nothing but tensors.
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (InvalidCheckpoint, UnreadableFile):
        raise
    except Exception as error:  # RuntimeError, UnpicklingError, EOFError, … depending on the damage
        raise _damaged(path, error) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(type(name) is str for name in state):
        raise _not_plain(path)
    _check_count(path, list(state))
    if not all(isinstance(tensor, Tensor) and _is_plain(tensor) for tensor in state.values()):
        raise _not_plain(path)
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    return TensorFile(shapes, lambda name: _checked(path, name, state[name]))


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is backed by as many bytes as its shape needs, rather than repeating a few."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _checked(path: Path, name: str, tensor: Tensor) -> Tensor:
    if tensor.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise InvalidCheckpoint(
            f"{name[:200]} in {path.name} is of {kind}; Reprise reads floating point numbers of 16, 32 or 64 bits, and "
            "quantizes them itself."
        )
    return tensor


def _check_count(path: Path, names: list[str]) -> None:
    if len(names) > MAX_TENSORS:
        raise InvalidCheckpoint(f"{path.name} has {len(names):,} tensors; {MAX_TENSORS:,} are the most.")


def _not_plain(path: Path) -> InvalidCheckpoint:
    return InvalidCheckpoint(f"{path.name} is not a plain state dict, a dictionary of tensors; download it again.")


def _check_pickle(path: Path) -> None:
    """Check that the pickle in a file of `torch.save` has only what tensors need, without running it."""
    with open_regular(path, _MAX_BYTES) as file:
        _check_directory(path, file)
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise _not_plain(path)
            pickles = [entry for entry in entries if entry.filename.rpartition("/")[2] == "data.pkl"]
            if len(pickles) != 1 or pickles[0].file_size > _MAX_PICKLE_BYTES:
                raise _not_plain(path)
            data = archive.read(pickles[0])
    if not _is_harmless(data):
        raise _not_plain(path)


def _check_directory(path: Path, file: BinaryIO) -> None:
    """Check the length of the zip's directory, at the end of the file, before reading it."""
    size = file.seek(0, 2)
    tail_bytes = _ZIP64_END.size + _LOCATOR_BYTES + _ZIP_END.size
    file.seek(max(0, size - tail_bytes))
    tail = file.read().rjust(tail_bytes, b"\0")
    magic, length, _ = _ZIP_END.unpack(tail[-_ZIP_END.size :])
    if magic != b"PK\x05\x06":
        raise _damaged(path, "its end is missing")
    if tail[_ZIP64_END.size :].startswith(_ZIP_LOCATOR):
        magic, length = _ZIP64_END.unpack(tail[: _ZIP64_END.size])
    if magic not in (b"PK\x05\x06", b"PK\x06\x06") or length > _MAX_HEADER_BYTES:
        raise _damaged(path, "its zip directory is damaged")


def _is_harmless(data: bytes) -> bool:
    """Return whether a pickle names only constructors of tensors, and does not nest its own tuples.

    PyTorch allows more names, among them `bytearray` of any length. A tuple fetched from the pickle's memo could be put
    twice into the next one, and that into another: hashing such a structure takes exponential time.
    """
    memory: dict[int, str] = {}
    before = ""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        kind = opcode.name
        if count > _MAX_OPCODES or (count == 0 and (kind, argument) != ("PROTO", 2)):
            return False
        if kind == "GLOBAL" and not _GLOBALS.fullmatch(str(argument)):
            return False
        if kind in ("BINPUT", "LONG_BINPUT"):
            memory[int(argument or 0)] = before
        elif kind in ("BINGET", "LONG_BINGET"):
            kind = memory.get(int(argument or 0), "TUPLE")
            if "TUPLE" in kind:
                return False
        before = kind if not kind.endswith("BINPUT") else before
    return True
