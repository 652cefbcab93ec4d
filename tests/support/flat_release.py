"""The miniature release in S1-mini's layout: one pickle, a flat config, tiktoken."""

import base64
import io
import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.paths import MINIATURE

_SHARDS = sorted(MINIATURE.glob("model-*.safetensors"))
_FAST = ("dim", "n_head", "n_local_heads", "head_dim", "intermediate_size")


def flat_release(prefix: str = "", unused: Mapping[str, Tensor] | None = None, **config: Any) -> dict[str, bytes]:
    """Return the files by name.

    Args:
        prefix: prefix of all tensor names.
        unused: additional tensors.
        config: additional config entries.
    """
    renamed = dict(unused or {})
    for shard in _SHARDS:
        renamed |= {_flat_name(name): tensor for name, tensor in load_file(shard).items()}
    raw = json.loads((MINIATURE / "config.json").read_text())
    text, audio = raw["text_config"], raw["audio_decoder_config"]
    sizes = {"n_fast_layer": "n_layer", **{f"fast_{name}": name for name in _FAST}}
    flat = text | {"model_type": "dual_ar", "codebook_size": audio["vocab_size"], "num_codebooks": 10}
    flat |= {name: audio[size] for name, size in sizes.items()} | config
    pairs = "".join(f"{base64.b64encode(bytes([i])).decode()} {i}\n" for i in range(256))
    special = {"<|im_start|>": 374, "<|im_end|>": 375, "<|voice|>": 376, "<|interleave|>": 377}
    special |= {f"<|semantic:{i}|>": 400 + i for i in range(256)}
    return {
        "config.json": json.dumps(flat).encode(),
        "model.pth": saved({prefix + name: tensor for name, tensor in renamed.items()}),
        "tokenizer.tiktoken": pairs.encode(),
        "special_tokens.json": json.dumps(special).encode(),
    }


def saved(value: object) -> bytes:
    """The bytes that `torch.save` writes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _flat_name(name: str) -> str:
    if name.startswith("text_model.model."):
        return name.removeprefix("text_model.model.")
    return (
        "codebook_embeddings.weight" if "codebook_embeddings" in name else "fast_" + name.removeprefix("audio_decoder.")
    )
