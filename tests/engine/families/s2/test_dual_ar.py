"""Dual AR releases are read strictly, in both layouts, without a second copy of the weights."""

import json
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.codec.config import CodecConfig
from engine.errors import (
    DeviceUnavailable,
    InvalidCheckpoint,
    InvalidConfig,
    ReleaseIncomplete,
)
from engine.families.s2 import dual_ar as reading
from engine.families.s2.dual_ar import DualAR, load_dual_ar, read_config
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.release import S2Architecture, S2Release, host_rows
from engine.families.s2.slow_ar import SlowAR
from engine.models.quantization import Precision, StackName, quantize_block
from engine.release.weights import shapes_of
from engine.serving.memory import held_bytes
from tests.paths import MINIATURE
from tests.support.flat_release import flat_release

SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
COLUMNS = torch.arange(11 * 6).view(1, 11, 6) % 60


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINIATURE, tmp_path / "release"))


def load(folder: Path) -> DualAR:
    return load_dual_ar(folder, dtype=torch.float32, device="cpu")


def rewrite(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    """Merge the shards into one file without an index, after applying `change` to the tensors."""
    tensors = {k: v for shard in SHARDS for k, v in load_file(folder / shard).items()}
    change(tensors)
    for name in [*SHARDS, "model.safetensors.index.json"]:
        (folder / name).unlink()
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors")


def have_equal_weights(a: DualAR, b: DualAR) -> bool:
    ours, theirs = a.slow.state_dict() | a.fast.state_dict(), b.slow.state_dict() | b.fast.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def test_single_file_without_index_is_read(release: Path, miniature: DualAR) -> None:
    rewrite(release, lambda tensors: None)
    assert have_equal_weights(load(release), miniature)


def test_separate_query_key_and_value_weights_are_joined(release: Path, miniature: DualAR) -> None:
    def split(tensors: dict[str, torch.Tensor]) -> None:
        name = "text_model.model.layers.1.attention.wqkv.weight"
        for part, rows in zip("qkv", tensors.pop(name).split([64, 32, 32]), strict=True):
            tensors[name.replace("wqkv", f"w{part}")] = rows

    rewrite(release, split)
    assert have_equal_weights(load(release), miniature)


def write_flat_release(folder: Path, prefix: str) -> Path:
    folder.mkdir()
    unused = {"freqs_cis": torch.zeros(1), "audio_projector.0.weight": torch.zeros(1)}
    for name, data in flat_release(prefix, unused, norm_fastlayer_input=True, scale_codebook_embeddings=True).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("prefix", ["", "model."])
def test_flat_layout_gives_the_same_model(tmp_path: Path, miniature: DualAR, prefix: str) -> None:
    loaded = load(write_flat_release(tmp_path / "flat", prefix))
    assert have_equal_weights(loaded, miniature)
    assert torch.equal(loaded.slow(COLUMNS)[1], miniature.slow(COLUMNS)[1])
    assert loaded.tokenizer.encode("hi<|im_end|>") == [104, 105, 375]


def test_unnormed_vector_is_passed_to_the_fast_ar_in_s1(tmp_path: Path) -> None:
    folder = write_flat_release(tmp_path / "flat", "")
    config = json.loads((folder / "config.json").read_text()) | {"norm_fastlayer_input": False}
    (folder / "config.json").write_text(json.dumps(config))
    normed, hidden = load(folder).slow(COLUMNS)
    assert not torch.equal(normed, hidden)


def test_all_faulty_tensors_are_named_in_one_error(release: Path) -> None:
    def damage(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["text_model.model.norm.weight"]
        tensors["audio_decoder.surprise"] = torch.zeros(1)
        tensors["vision.weight"] = torch.zeros(1)
        tensors["audio_decoder.norm.weight"] = torch.zeros(63)

    rewrite(release, damage)
    with pytest.raises(InvalidCheckpoint) as caught:
        load(release)
    message = str(caught.value)
    assert "missing norm.weight" in message
    assert "surprise" in message
    assert "vision.weight" in message
    assert "norm.weight is [63] instead of [64]" in message


def test_missing_shard_is_named(release: Path) -> None:
    (release / SHARDS[1]).unlink()
    with pytest.raises(ReleaseIncomplete, match=SHARDS[1]):
        load(release)


def test_fast_ar_of_another_width_has_an_input_projection(release: Path, miniature: DualAR) -> None:
    config = json.loads((release / "config.json").read_text())
    config["audio_decoder_config"] |= {"dim": 48}
    (release / "config.json").write_text(json.dumps(config))
    with torch.device("meta"):
        fast = FastAR(read_config(release))
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes_of(fast).items()}
    assert weights["fast_project_in.weight"].shape == (48, 64)

    def narrow(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if name.startswith("audio_decoder.")]:
            if "codebook_embeddings" not in name:
                del tensors[name]
        tensors.update({f"audio_decoder.{name.removeprefix('fast_')}": value for name, value in weights.items()})

    rewrite(release, narrow)
    loaded = load(release)
    for name, value in loaded.fast.state_dict().items():
        assert torch.equal(value, weights[name]), name
    codes = loaded.fast.generate(torch.ones(1, 64), torch.tensor([3]), lambda logits, _: logits.argmax(-1))
    assert codes.shape == (1, loaded.config.num_codebooks)


def test_index_and_shards_must_agree(release: Path) -> None:
    index = release / "model.safetensors.index.json"
    before = json.loads(index.read_text())
    name, shard = next(iter(before["weight_map"].items()))
    other = next(each for each in SHARDS if each != shard)
    index.write_text(json.dumps(before | {"weight_map": before["weight_map"] | {name: other}}))
    with pytest.raises(InvalidCheckpoint, match=f"{other} lacks {name}, which the index says it has"):
        load(release)
    index.write_text(json.dumps(before))
    tensors = {key: tensor.clone() for key, tensor in load_file(release / shard).items()}
    save_file(tensors | {"surprise": torch.zeros(1)}, release / shard)
    with pytest.raises(InvalidCheckpoint, match="tensors that the index lacks: surprise"):
        load(release)


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_truncated_shard_is_rejected(release: Path, keep: int) -> None:
    path = release / SHARDS[0]
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ReleaseIncomplete, match="cut short"):
        load(release)


def test_pickle_with_code_is_rejected_unexecuted(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "ran"),))

    folder = write_flat_release(tmp_path / "flat", "")
    torch.save({"x": Evil()}, folder / "model.pth")
    with pytest.raises(InvalidCheckpoint, match="not a plain state dict"):
        load(folder)
    assert not (tmp_path / "ran").exists()


def test_config_and_tokenizer_must_match(release: Path) -> None:
    config = json.loads((release / "config.json").read_text())
    config["semantic_start_token_id"] += 1
    (release / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidCheckpoint, match="belong together"):
        load(release)


@pytest.mark.parametrize("size", ["n_codebooks", "codebook_size", "semantic_codebook_size"])
def test_codebooks_of_codec_and_model_must_match(size: str, release: Path) -> None:
    path = release / "codec_config.json"
    config = json.loads(path.read_text())
    config["quantizer"][size] += 1000 if size != "n_codebooks" else 1
    path.write_text(json.dumps(config))
    with pytest.raises(InvalidCheckpoint, match=r"The codec has .* belong together"):
        S2Release(release)


@pytest.mark.parametrize(("content", "error"), [("{", InvalidConfig), ('{"model_type": "bert"}', InvalidConfig)])
def test_invalid_config_file_is_rejected(release: Path, content: str, error: type[Exception]) -> None:
    (release / "config.json").write_text(content)
    with pytest.raises(error):
        load(release)


def test_weights_on_cpu_stay_memory_mapped(miniature: DualAR) -> None:
    # A copied tensor owns its storage; mapped ones lie next to each other in the file.
    pointers = sorted(p.data_ptr() for p in miniature.slow.parameters())
    sizes = {p.data_ptr(): p.nbytes for p in miniature.slow.parameters()}
    apart = [b - a for a, b in pairwise(pointers)]
    packed = sum(gap == sizes[a] for gap, a in zip(apart, pointers, strict=False))
    assert packed > len(apart) // 2


def test_weights_are_cast_to_bf16_on_loading(miniature: DualAR) -> None:
    half = load_dual_ar(MINIATURE, dtype=torch.bfloat16, device="cpu")
    weight = half.slow.embeddings.weight
    assert weight.dtype == torch.bfloat16
    assert torch.equal(weight, miniature.slow.embeddings.weight.to(torch.bfloat16))
    assert half.slow.rope.dtype == torch.complex64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_quantized_block_by_block(
    release: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    if dtype != torch.float32:
        pytest.importorskip("torchao", reason="torchao is an optional package")
    config, whole = load(release).config, []

    def record_and_quantize(block: torch.nn.Module, precision: Precision, *, stack: StackName) -> None:
        linear = [m.weight for owner in built for m in owner.layers.modules() if isinstance(m, torch.nn.Linear)]
        whole.append(sum(type(weight) is torch.nn.Parameter and not weight.is_meta for weight in linear))
        quantize_block(block, precision, stack=stack)

    built: list[SlowAR | FastAR] = []
    for kind in (SlowAR, FastAR):
        monkeypatch.setattr(reading, kind.__name__, partial(_build_and_record, kind, built))
    monkeypatch.setattr(reading, "quantize_block", record_and_quantize)
    load_dual_ar(release, dtype=dtype, device="cpu", precision="int8")
    assert whole == [5] * (config.slow.n_layer + config.fast.n_layer)  # only the weights of the block just loaded


def _build_and_record(kind: type[SlowAR | FastAR], built: list[SlowAR | FastAR], *sizes: object) -> SlowAR | FastAR:
    built.append(kind(*sizes))  # type: ignore[arg-type]  # either's own
    return built[-1]


def test_quantized_release_approximates_the_plain_one(miniature: DualAR) -> None:
    small = load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu", precision="int8")
    assert held_bytes(small.slow.layers) < 0.31 * held_bytes(miniature.slow.layers)
    assert torch.equal(small.slow.embeddings.weight, miniature.slow.embeddings.weight)
    assert not any(p.requires_grad or p.is_meta for p in (*small.slow.parameters(), *small.fast.parameters()))
    close = torch.nn.functional.cosine_similarity(small.slow(COLUMNS)[1], miniature.slow(COLUMNS)[1], dim=-1)
    assert float(close.min()) > 0.99


def test_faulty_tensors_are_reported_before_quantization(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damage(tensors: dict[str, torch.Tensor]) -> None:
        tensors["vision.weight"] = torch.zeros(1)
        tensors["text_model.model.layers.1.ffn_norm.weight"] = torch.zeros(63)
        del tensors["audio_decoder.norm.weight"]

    rewrite(release, damage)
    done: list[object] = []
    monkeypatch.setattr(reading, "quantize_block", lambda block, **_how: done.append(block))
    with pytest.raises(InvalidCheckpoint, match=r"vision\.weight.*ffn_norm\.weight is \[63\].*missing norm\.weight"):
        load_dual_ar(release, dtype=torch.float32, device="cpu", precision="int8")
    assert done == []


@pytest.mark.parametrize("precision", ["int4", "fp8"])
def test_unavailable_precision_is_rejected_before_reading(tmp_path: Path, precision: Precision) -> None:
    with pytest.raises(DeviceUnavailable, match="choose int8"):
        load_dual_ar(tmp_path / "nothing", dtype=torch.bfloat16, device="cpu", precision=precision)


@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_of_text_may_stay_in_host_memory(release: Path, tied: bool) -> None:
    """Prompts and the next token are as before, of a head of its own, too."""

    def untie(tensors: dict[str, torch.Tensor]) -> None:
        if not tied:
            table = tensors["text_model.model.embeddings.weight"]
            tensors["text_model.model.output.weight"] = table.flip(0)

    rewrite(release, untie)
    config = json.loads((release / "config.json").read_text())
    config["text_config"]["tie_word_embeddings"] = tied
    (release / "config.json").write_text(json.dumps(config))
    usual, dtype = load(release), torch.float32
    header = reading.read_header(release)
    rows = header.tokenizer.end_id
    found = load_dual_ar(release, dtype=dtype, device="cpu", host_rows=rows)
    saved = held_bytes(usual.slow) - held_bytes(found.slow)
    assert saved == (1 if tied else 2) * rows * usual.config.slow.dim * dtype.itemsize
    columns = torch.cat((COLUMNS, COLUMNS), dim=2)
    columns[0, 0, -2:] = torch.tensor([header.tokenizer.end_id, header.config.semantic_start_id + 7])
    embedded = usual.slow.embed(columns)
    assert torch.equal(found.slow.embed_prompt(columns), embedded)
    assert torch.equal(found.slow.embed(columns[..., -2:]), embedded[:, -2:])  # as frames do, on the device
    assert torch.equal(found.slow.logits(embedded), usual.slow.logits(embedded))


def test_only_large_tables_of_s2_stay_in_host_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1's prompts end with a token of text, which the first frame looks up on the GPU."""
    flat = write_flat_release(tmp_path / "flat", "")

    def rows(folder: Path, device: str) -> int:
        header = reading.read_header(folder)
        architecture = S2Architecture(header.config, CodecConfig.s2_pro(), host_rows(header))
        return architecture.on(torch.device(device)).host_rows

    assert rows(MINIATURE, "cuda") == 0
    monkeypatch.setattr("engine.families.s2.release.MIN_HOST_EMBEDDINGS", 10_000)
    assert (rows(MINIATURE, "cuda"), rows(MINIATURE, "cpu"), rows(flat, "cuda")) == (375, 0, 0)
