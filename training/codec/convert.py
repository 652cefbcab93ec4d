"""Convert an early experiment's codec to the engine's layout, with identical output.

    python -m training.codec.convert codec.pt OUT

The experiment pairs rotary dimensions as (x0, x[d/2]), the engine as (x0, x1). The experiment also fuses the
feed-forward's gate and input weights, and has a phoneme head and codebook statistics, which only training uses.
Writes `codec.safetensors` (fp32) and `codec_config.json` into the folder OUT.
"""

import argparse
import json
import re
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig, QuantizerConfig, WindowedTransformerConfig

_HEADS = 4
_DROPPED = re.compile(r"ph\..*|.*\.[NM]")


def experiment_config() -> CodecConfig:
    """Return the config: 22,050 Hz, 1,024 samples a frame, 1 x 1,024 semantic and 8 x 512 residual codes."""
    transformer = WindowedTransformerConfig(
        n_layer=2,
        n_head=_HEADS,
        head_dim=48,
        dim=192,
        intermediate_size=512,
        window_size=16,
        rope_base=10_000.0,
        norm_eps=1e-6,
        final_norm=False,
    )
    quantizer = QuantizerConfig(
        input_dim=192,
        n_codebooks=8,
        codebook_size=512,
        codebook_dim=8,
        semantic_codebook_size=1024,
        downsample_factor=(2, 2),
        transformer=transformer,
    )
    return CodecConfig(
        sample_rate=22_050,
        encoder_dim=12,
        encoder_rates=(2, 4, 8, 4),
        latent_dim=192,
        decoder_dim=256,
        decoder_rates=(4, 8, 4, 2),
        encoder_transformer_layers=(0, 0, 0, 0),
        encoder_transformer_window=16,
        quantizer=quantizer,
    )


def write_codec(folder: Path, weights: dict[str, Tensor], config: CodecConfig) -> None:
    """Write `codec.safetensors` and `codec_config.json` for `engine.families.s2.codec`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "codec.safetensors"
    save_file({name: weight.contiguous() for name, weight in weights.items()}, file)
    file.chmod(0o644)  # readable by all, like the config
    (folder / "codec_config.json").write_text(json.dumps(asdict(config), indent=1) + "\n", encoding="utf-8")


def convert(experiment: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the experiment's state dict under the engine's names, in fp32."""
    weights: dict[str, Tensor] = {}
    for key, value in experiment.items():
        if not _DROPPED.fullmatch(key):
            weights.update(_renamed(key, value.float()))
    return weights


def _renamed(key: str, value: Tensor) -> dict[str, Tensor]:
    part, rest = key.split(".", 1)
    if part in ("enc", "decoder"):
        return {_conv_stack(part, rest): value}
    if part in ("down", "up"):
        return {f"quantizer.{part}sample.{_resampling(rest)}": value}
    if part in ("pre", "post"):
        return {f"quantizer.{part}_module.{name}": tensor for name, tensor in _transformer(rest, value).items()}
    return _codebook(part, rest, value)


def _leaf(name: str) -> str:
    """Expand the experiment's names: `b` is a residual unit's block, `c` a convolution, `a` a Snake's alpha."""
    return re.sub(r"\ba$", "alpha", re.sub(r"\bc\.", "conv.", re.sub(r"^b\.", "block.", name)))


def _conv_stack(part: str, rest: str) -> str:
    """Rename a layer of a flat stack: five layers form one block of the engine, except the first and last ones."""
    number, leaf = rest.split(".", 1)
    stack, at = ("encoder.block", int(number)) if part == "enc" else ("decoder.model", int(number))
    if at == 0 or at > 20:
        return f"{stack}.{at - 16 if at else 0}.{_leaf(leaf)}"
    return f"{stack}.{(at - 1) // 5 + 1}.block.{(at - 1) % 5}.{_leaf(leaf)}"


def _resampling(rest: str) -> str:
    number, leaf = rest.split(".", 1)
    names = {"g": "gamma", "dw.c": "dwconv.conv", "n": "norm", "u": "pwconv1", "d": "pwconv2", "c": "conv"}
    head, _, kind = leaf.rpartition(".")
    return f"{int(number) // 2}.{int(number) % 2}." + (f"{names[head]}.{kind}" if head else names[leaf])


def _transformer(rest: str, value: Tensor) -> dict[str, Tensor]:
    _, layer, leaf = rest.split(".", 2)
    names = {
        "g1": "attention_layer_scale.gamma",
        "g2": "ffn_layer_scale.gamma",
        "n1.w": "attention_norm.weight",
        "n2.w": "ffn_norm.weight",
        "qkv.weight": "attention.wqkv.weight",
        "o.weight": "attention.wo.weight",
        "w2.weight": "feed_forward.w2.weight",
    }
    if leaf == "w13.weight":
        gate, up = value.chunk(2)
        return {f"layers.{layer}.feed_forward.w1.weight": gate, f"layers.{layer}.feed_forward.w3.weight": up}
    return {f"layers.{layer}.{names[leaf]}": _interleaved(value) if leaf == "qkv.weight" else value}


def _interleaved(qkv: Tensor) -> Tensor:
    """Reorder the rows of queries and keys so that the two rows of each rotary pair are adjacent."""
    *turned, values = qkv.chunk(3)
    paired = [rows.unflatten(0, (_HEADS, 2, -1)).transpose(1, 2).flatten(0, 2) for rows in turned]
    return torch.cat((*paired, values))


def _codebook(part: str, rest: str, value: Tensor) -> dict[str, Tensor]:
    if part == "sem":
        prefix = "quantizer.semantic_quantizer.quantizers.0"
    else:
        number, rest = rest.split(".", 1)
        prefix = f"quantizer.quantizer.quantizers.{number}"
    names = {"e": "codebook.weight", "i.bias": "in_proj.bias", "o.bias": "out_proj.bias"}
    names |= {"i.weight": "in_proj.weight", "o.weight": "out_proj.weight"}
    return {f"{prefix}.{names[rest]}": value[..., None] if rest in ("i.weight", "o.weight") else value}


def main() -> None:
    parser = argparse.ArgumentParser(description="Bring an early experiment's codec into the product's layout.")
    parser.add_argument("checkpoint", type=Path, help="the experiment's codec_*.pt")
    parser.add_argument("folder", type=Path, help="where codec.safetensors and codec_config.json go")
    options = parser.parse_args()
    experiment = torch.load(options.checkpoint, map_location="cpu", weights_only=True)
    weights, config = convert(experiment), experiment_config()
    with torch.device("meta"):
        Codec(config).load_state_dict(weights, strict=True, assign=True)
    write_codec(options.folder, weights, config)


if __name__ == "__main__":
    main()
