"""Tensor files: false headers, executable pickles and anything but plain tensors are rejected early."""

import json
import os
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save, save_file
from torch import Tensor

from engine.errors import InvalidCheckpoint, ReleaseError, ReleaseIncomplete
from engine.files import tensors
from engine.files.tensors import open_tensors
from tests.attack.inputs import releases
from tests.paths import MINIATURE

TENSORS = {"a.weight": torch.arange(6, dtype=torch.float32).view(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}


@pytest.fixture(params=["model.safetensors", "model.pth"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def write(path: Path, tensors: dict[str, Tensor]) -> None:
    if path.suffix == ".pth":
        torch.save(tensors, path)
    else:
        save_file(tensors, path)


def test_tensors_are_read_one_by_one(path: Path) -> None:
    write(path, TENSORS)
    file = open_tensors(path)
    assert file.shapes == {"a.weight": (2, 3), "b": (4,)}
    assert all(torch.equal(file.read(name), tensor) for name, tensor in TENSORS.items())


def test_nested_state_dict_and_parameters_are_read(tmp_path: Path) -> None:
    torch.save({"state_dict": torch.nn.Linear(2, 3).state_dict(), "epoch": 3}, tmp_path / "a.pth")
    assert open_tensors(tmp_path / "a.pth").shapes == {"weight": (3, 2), "bias": (3,)}
    torch.save(dict(torch.nn.Linear(2, 3).named_parameters()), tmp_path / "b.pth")
    assert open_tensors(tmp_path / "b.pth").shapes == {"weight": (3, 2), "bias": (3,)}


def test_shared_tensors_and_views_are_read(tmp_path: Path) -> None:
    weight = torch.arange(12.0).view(3, 4)
    torch.save({"a": weight, "b": weight, "c": weight.t(), "d": weight[1:]}, tmp_path / "a.pth")
    file = open_tensors(tmp_path / "a.pth")
    assert torch.equal(file.read("c"), weight.t())
    assert torch.equal(file.read("d"), weight[1:])


def test_missing_and_irregular_files_are_rejected(path: Path) -> None:
    with pytest.raises(ReleaseIncomplete, match=f"has no {path.name}"):
        open_tensors(path)
    os.mkfifo(path)
    with pytest.raises(ReleaseIncomplete, match="a pipe, not a regular file"):
        open_tensors(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ReleaseIncomplete, match="a device, not a regular file"):
        open_tensors(path)


@pytest.mark.parametrize("keep", [0, 7, 8, 60, 500, -1])
def test_truncated_file_is_rejected(path: Path, keep: int) -> None:
    write(path, {"a": torch.ones(1_000)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ReleaseIncomplete, match="cut short or damaged"):
        open_tensors(path)


@pytest.mark.parametrize("length", [1 << 23, 1 << 31, (1 << 63) - 1, (1 << 64) - 1])
def test_oversized_safetensors_header_is_rejected(length: int, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + save(TENSORS)[8:])
    with pytest.raises(ReleaseIncomplete, match=f"header claims {length:,} bytes"):
        open_tensors(path)


def test_tensors_of_other_types_are_rejected_on_read(path: Path) -> None:
    kinds = [torch.int64, torch.bool, *([torch.float8_e4m3fn] if path.suffix == ".safetensors" else [])]
    write(path, {str(kind)[6:]: torch.ones(2).to(kind) for kind in kinds})
    file = open_tensors(path)
    for name in file.shapes:
        with pytest.raises(InvalidCheckpoint, match=f"{name} in {path.name} is of {name}; .* 16, 32 or 64 bits"):
            file.read(name)


def test_too_many_tensors_are_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "MAX_TENSORS", 1)
    write(path, TENSORS)
    with pytest.raises(InvalidCheckpoint, match="has 2 tensors; 1 are the most"):
        open_tensors(path)


@pytest.mark.parametrize("index", range(len(releases.pickles())))
def test_malicious_pickles_are_not_executed(index: int, tmp_path: Path) -> None:
    """Cases include `bytearray(2 ** 33)`, which PyTorch would call, and keys that take very long to hash."""
    path = tmp_path / "in" / "codec.pth"
    path.parent.mkdir()
    path.write_bytes(releases.pickles()[index])
    try:
        shapes = open_tensors(path).shapes
    except ReleaseError:
        shapes = {}
    assert set(shapes) <= {"x"}, "only plain state dicts may be read"
    assert not (tmp_path / "ran").exists()


def test_expanded_tensor_larger_than_its_storage_is_rejected(tmp_path: Path) -> None:
    torch.save({"x": torch.zeros(1).expand(1 << 20, 1 << 20)}, tmp_path / "a.pth")
    with pytest.raises(InvalidCheckpoint, match="not a plain state dict"):
        open_tensors(tmp_path / "a.pth")


def test_pickle_without_zip_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_bytes(pickle.dumps({"x": 1}))
    with pytest.raises(ReleaseIncomplete, match="its end is missing"):
        open_tensors(tmp_path / "a.pth")


def test_oversized_zip_directory_is_rejected(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "a.pth")
    data = bytearray((tmp_path / "a.pth").read_bytes())
    struct.pack_into("<L", data, len(data) - 10, 1 << 30)
    place = data.rfind(b"PK\x06\x06")
    if place >= 0:
        struct.pack_into("<Q", data, place + 40, 1 << 30)
    (tmp_path / "a.pth").write_bytes(data)
    with pytest.raises(ReleaseIncomplete, match="zip directory is damaged"):
        open_tensors(tmp_path / "a.pth")


def test_miniature_shards_match_their_index() -> None:
    index = json.loads((MINIATURE / "model.safetensors.index.json").read_text())["weight_map"]
    for shard in set(index.values()):
        assert set(open_tensors(MINIATURE / shard).shapes) == {name for name in index if index[name] == shard}
