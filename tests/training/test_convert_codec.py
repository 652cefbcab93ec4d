"""Conversion of an experiment's codec: all weights are mapped, and rotary pairs are rearranged."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.codec.transformer import rotary_factors
from engine.families.s2.codec import codec_files, load_codec, load_codec_decoder
from engine.layers import rotate
from training.codec.convert import convert, experiment_config, write_codec

WIDTH, HEADS, HEAD = 192, 4, 48


def conv(name: str, *shape: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    yield f"{name}.bias", (shape[0],)


def unit(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for at, kernel in ((0, 7), (2, 1)):
        yield f"{name}.b.{at}.a", (1, width, 1)
        yield from conv(f"{name}.b.{at + 1}.c", width, width, kernel)


def encoder() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from conv("enc.0.c", 12, 1, 7)
    at, width = 1, 12
    for rate in (2, 4, 8, 4):
        for i in range(3):
            yield from unit(f"enc.{at + i}", width)
        yield f"enc.{at + 3}.a", (1, width, 1)
        yield from conv(f"enc.{at + 4}.c", 2 * width, width, 2 * rate)
        at, width = at + 5, 2 * width
    yield "enc.21.a", (1, width, 1)
    yield from conv("enc.22.c", WIDTH, width, 3)


def decoder() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from conv("decoder.0.c", 256, WIDTH, 7)
    at, width = 1, 256
    for rate in (4, 8, 4, 2):
        yield f"decoder.{at}.a", (1, width, 1)
        yield f"decoder.{at + 1}.c.weight", (width, width // 2, 2 * rate)
        yield f"decoder.{at + 1}.c.bias", (width // 2,)
        for i in range(3):
            yield from unit(f"decoder.{at + 2 + i}", width // 2)
        at, width = at + 5, width // 2
    yield "decoder.21.a", (1, width, 1)
    yield from conv("decoder.22.c", 1, width, 7)


def middle() -> Iterator[tuple[str, tuple[int, ...]]]:
    for side in ("down", "up"):
        for at in (0, 2):
            yield from conv(f"{side}.{at}.c", WIDTH, WIDTH, 2)
            yield f"{side}.{at + 1}.g", (WIDTH,)
            yield from conv(f"{side}.{at + 1}.dw.c", WIDTH, 1, 7)
            yield from conv(f"{side}.{at + 1}.n", WIDTH)
            yield from conv(f"{side}.{at + 1}.u", 4 * WIDTH, WIDTH)
            yield from conv(f"{side}.{at + 1}.d", WIDTH, 4 * WIDTH)
    for side in ("pre", "post"):
        for layer in (f"{side}.l.{i}" for i in range(2)):
            for gain in ("g1", "g2", "n1.w", "n2.w"):
                yield f"{layer}.{gain}", (WIDTH,)
            yield f"{layer}.qkv.weight", (3 * WIDTH, WIDTH)
            yield f"{layer}.o.weight", (WIDTH, WIDTH)
            yield f"{layer}.w13.weight", (1024, WIDTH)
            yield f"{layer}.w2.weight", (WIDTH, 512)
    for book, size in (("sem", 1024), *((f"rvq.{i}", 512) for i in range(8))):
        yield from ((f"{book}.e", (size, 8)), (f"{book}.N", (size,)), (f"{book}.M", (size, 8)))
        yield from conv(f"{book}.i", 8, WIDTH)
        yield from conv(f"{book}.o", WIDTH, 8)
    yield from conv("ph", 320, WIDTH)


@pytest.fixture(scope="module")
def experiment() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {**dict(encoder()), **dict(decoder()), **dict(middle())}
    return {key: 0.1 * torch.randn(shape, generator=generator).half() for key, shape in shapes.items()}


def test_all_weights_are_converted(experiment: dict[str, Tensor], tmp_path: Path) -> None:
    write_codec(tmp_path, convert(experiment), experiment_config())
    path, config = codec_files(tmp_path)
    assert asdict(config) == asdict(experiment_config())
    codec = load_codec(path, config)
    for ours, theirs in (
        ("encoder.block.3.block.1.block.2.alpha", "enc.12.b.2.a"),
        ("encoder.block.6.conv.bias", "enc.22.c.bias"),
        ("decoder.model.2.block.1.conv.weight", "decoder.7.c.weight"),
        ("decoder.model.4.block.4.block.3.conv.weight", "decoder.20.b.3.c.weight"),
        ("quantizer.downsample.1.1.pwconv2.weight", "down.3.d.weight"),
        ("quantizer.post_module.layers.1.ffn_layer_scale.gamma", "post.l.1.g2"),
        ("quantizer.quantizer.quantizers.7.codebook.weight", "rvq.7.e"),
    ):
        assert torch.equal(codec.get_parameter(ours), experiment[theirs].float())
    assert load_codec_decoder(path, config).decode(torch.zeros(1, 9, 3, dtype=torch.int64)).shape == (
        1,
        1,
        3072,
    )


def test_fused_gate_and_input_weights_are_split(experiment: dict[str, Tensor]) -> None:
    weights = convert(experiment)
    fused = torch.cat([weights[f"quantizer.pre_module.layers.0.feed_forward.{w}.weight"] for w in ("w1", "w3")])
    assert torch.equal(fused, experiment["pre.l.0.w13.weight"].float())


def test_converted_attention_computes_equal_scores(experiment: dict[str, Tensor]) -> None:
    """Scores with the experiment's split rotary pairs equal ours, and values are unchanged."""
    theirs = experiment["pre.l.0.qkv.weight"].float()
    ours = convert(experiment)["quantizer.pre_module.layers.0.attention.wqkv.weight"]
    x = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(1))
    rope = rotary_factors(torch.zeros(1, dtype=torch.int64), 5, HEAD, 10_000.0)

    def split(turned: Tensor) -> Tensor:
        a, b = turned.chunk(2, -1)
        cos, sin = torch.view_as_real(rope)[0, :, 0].unbind(-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def heads(rows: Tensor) -> Tensor:
        return (x @ rows.T).view(1, 5, HEADS, HEAD).transpose(1, 2)

    (q1, k1, v1), (q2, k2, v2) = theirs.chunk(3), ours.chunk(3)
    assert torch.equal(v1, v2)
    expected = split(heads(q1)) @ split(heads(k1)).mT
    q, k = (rotate(heads(rows).transpose(1, 2), rope).transpose(1, 2) for rows in (q2, k2))
    torch.testing.assert_close(q @ k.mT, expected)
