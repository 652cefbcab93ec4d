"""Sizes of the bundled codec, and the files of a codec.

`write_codec` writes `codec.safetensors` (fp32) and `codec_config.json`.
"""

import json
from dataclasses import asdict
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from engine.codec.config import CodecConfig, QuantizerConfig, WindowedTransformerConfig


def bundled_codec_config() -> CodecConfig:
    """Return the config: 22,050 Hz, 1,024 samples a frame, 1 x 1,024 semantic and 8 x 512 residual codes."""
    transformer = WindowedTransformerConfig(
        n_layer=2,
        n_head=4,
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
