"""A strict reader of weights.

Names and shapes of the stored tensors are compared with those of a module before any value is read. The module is
built without memory (meta device); each tensor then goes from the mapped file to its final dtype and device at once.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from engine.checks import listed, shown
from engine.errors import InvalidCheckpoint, InvalidConfig, ReleaseIncomplete
from engine.files.bounded import read_object
from engine.files.tensors import MAX_TENSORS, open_tensors

Shape = tuple[int, ...]

_SHARD_NAME = re.compile(r"[\w][\w.-]*\.safetensors")  # a file in the same folder
_MAX_PROBLEMS = 10  # per message
_BLOCK = re.compile(r"layers\.\d+(?=\.)")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a release, read on demand.

    name: the name used in messages.
    read: returns the values; takes the device on which to compute a tensor that the file holds in parts. A tensor that
        the file holds as it is stays in the mapped file.
    """

    name: str
    shape: Shape
    read: Callable[[torch.device], Tensor]

    @classmethod
    def joined(cls, parts: "Sequence[StoredTensor]") -> "StoredTensor":
        """Return a tensor of `parts` concatenated along dimension 0, with the name of the first."""

        def read(device: torch.device) -> Tensor:
            return torch.cat([part.read(device) for part in parts])

        return cls(parts[0].name, (sum(part.shape[0] for part in parts), *parts[0].shape[1:]), read)


StoredTensors = dict[str, StoredTensor]


def open_file(path: Path) -> StoredTensors:
    """Open the tensors of one file by name. Raises as `open_tensors` does."""
    file = open_tensors(path)

    def stored(name: str, shape: Shape) -> StoredTensor:
        return StoredTensor(name, shape, lambda _device: file.read(name))

    return {name: stored(name, shape) for name, shape in file.shapes.items()}


def open_safetensors(folder: Path) -> StoredTensors:
    """Open `model.safetensors`, or all shards that `model.safetensors.index.json` lists.

    Raises InvalidConfig, InvalidCheckpoint or ReleaseIncomplete, naming the missing shards or tensors.
    """
    if not (folder / "model.safetensors.index.json").exists():
        return open_file(folder / "model.safetensors")
    shards = _read_index(folder)
    missing = sorted({name for name in shards.values() if not (folder / name).exists()})
    if missing:
        raise ReleaseIncomplete("release.lacks", files=listed(missing))
    opened = {name: open_file(folder / name) for name in sorted(set(shards.values()))}
    for name, shard in shards.items():
        if name not in opened[shard]:
            raise InvalidCheckpoint(f"{shard} lacks {name}, which the index says it has.")
    extra = {name for tensors in opened.values() for name in tensors} - set(shards)
    if extra:
        raise InvalidCheckpoint(f"The model's folder has tensors that the index lacks: {listed(sorted(extra))}.")
    return {name: opened[shard][name] for name, shard in shards.items()}


def _read_index(folder: Path) -> dict[str, str]:
    """Return the file of each tensor. Only names of files in the folder itself are accepted."""
    shards = read_object(folder / "model.safetensors.index.json").get("weight_map")
    if not isinstance(shards, dict) or not 1 <= len(shards) <= MAX_TENSORS:
        raise InvalidConfig("The model's index has no weight_map that says where each tensor is; download it again.")
    for name in shards.values():
        if not isinstance(name, str) or not _SHARD_NAME.fullmatch(name):
            raise InvalidConfig(f"The model's index names {shown(name)}, which is not a file of tensors in its folder.")
    return shards


@dataclass(frozen=True)
class Misshapen:
    """A stored tensor whose shape is not that of the weight."""

    name: str
    shape: Shape
    expected: Shape


@dataclass
class Mismatch:
    """Differences between stored tensors and the weights of a module."""

    unexpected: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    misshapen: list[Misshapen] = field(default_factory=list)


def shapes_of(module: nn.Module) -> dict[str, Shape]:
    """Return the shapes of a module's weights by name."""
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def compare(tensors: StoredTensors, shapes: dict[str, Shape], required: Collection[str] | None = None) -> Mismatch:
    """Compare stored tensors with the shapes of weights. All weights, or the `required` ones, must be stored."""
    return Mismatch(
        unexpected=[stored.name for name, stored in tensors.items() if name not in shapes],
        missing=[name for name in (shapes if required is None else required) if name not in tensors],
        misshapen=[
            Misshapen(tensors[name].name, tensors[name].shape, shape)
            for name, shape in shapes.items()
            if name in tensors and tensors[name].shape != shape
        ],
    )


def refuse_mismatches(what: str, found: Iterable[Mismatch]) -> None:
    """Raise InvalidCheckpoint, which begins with `what` and lists the problems, unless everything matches."""
    problems: list[str] = []
    for mismatch in found:
        for word, names in (("unexpected", mismatch.unexpected), ("missing", mismatch.missing)):
            if names:
                problems.append(f"{word} {listed(sorted(names))}")
        for each in mismatch.misshapen[: max(_MAX_PROBLEMS - len(problems), 0)]:
            problems.append(f"{each.name[:200]} is {list(each.shape)[:8]} instead of {list(each.expected)}")
    if problems:
        raise InvalidCheckpoint(f"{what}: {'; '.join(problems)}.")


def load_weights(
    module: nn.Module,
    tensors: StoredTensors,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
    copy: bool = False,
    after_block: Callable[[nn.Module], None] | None = None,
) -> None:
    """Give a module on the meta device its weights, frozen. `compare` must have found none missing or misshapen.

    Args:
        copy: whether to copy weights even if the mapped file has their dtype and device already.
        after_block: called with each block (`layers.N`) after its weights are loaded and before the next one's are.
    """
    device = torch.device(device)
    for block, names in _by_block(module.state_dict()).items():
        state = {name: tensors[name].read(device).to(device, dtype, copy=copy) for name in names}
        # Not strict: this is one block of a module whose tensors `compare` has found to be complete.
        module.load_state_dict(state, strict=False, assign=True)
        del state  # a reference here would keep the weights that `after_block` replaces
        if after_block is not None and block:
            after_block(module.get_submodule(block))
    for owner in module.modules():
        for name, buffer in list(owner.named_buffers(recurse=False)):
            setattr(owner, name, buffer.to(device))
    module.requires_grad_(False)


def _by_block(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names of weights by their block; "" for those outside blocks."""
    groups: dict[str, list[str]] = {}
    for name in names:
        block = _BLOCK.match(name)
        groups.setdefault(block[0] if block else "", []).append(name)
    return groups
