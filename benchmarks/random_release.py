"""A release of given sizes with random weights, for measurements of the whole engine without a download.

    python -m benchmarks.random_release FOLDER [--sizes s2-pro] [--device cuda]

The folder has the layout of Fish Audio S2: `config.json`, a tokenizer, shards of weights in bf16, and a codec. The
weights are drawn and written one shard at a time, so that host memory stays small. A complete folder is reused.

Random weights do not end a turn when its text is spoken. The end token's row is zero, so that it is never among the
likeliest, and within `natural_turns` a turn ends after as many frames as an ordinary reader needs.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.memory.codec_release import write_release as write_codec
from benchmarks.memory.sizes import SPREAD, Sizes, half_billion, s2_pro
from benchmarks.speed._shared import device_parser
from engine.config import DualARConfig
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.slow_ar import SlowAR
from engine.layers import RMSNorm
from engine.serving.turn import Turn
from engine.text import speaking_time
from engine.text.tokenizer import IM_END, IM_START, VOICE

COMPLETE = "random_weights.json"  # written last
SHARD_BYTES = 512 << 20
_MOST_TEXT_TOKENS = 4096
_SIZES: dict[str, Callable[[], Sizes]] = {"s2-pro": s2_pro, "0.5b": half_billion}


def write_release(folder: Path, sizes: Sizes, device: torch.device | str = "cpu", seed: int = 0) -> None:
    """Write a release into a folder, unless it is already there. device: where the weights are drawn.

    Raises ValueError for a folder that holds a random release of other sizes.
    """
    about = {"name": sizes.name, "config": _config(sizes.dual_ar), "seed": seed}
    if (folder / COMPLETE).exists():
        if json.loads((folder / COMPLETE).read_text("utf-8")) != about:
            raise ValueError(f"{folder} holds a random release of other sizes")
        return
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", _config(sizes.dual_ar))
    _write_json(folder / "codec_config.json", asdict(sizes.codec))
    (folder / "tokenizer.json").write_text(tokenizer(sizes.dual_ar).to_str(), "utf-8")
    _write_weights(folder, sizes.dual_ar, torch.device(device), seed)
    write_codec(folder / "codec.pth", sizes.codec, seed)
    _write_json(folder / COMPLETE, about)


def is_random(model: str | Path) -> bool:
    """Return whether a model is a folder that `write_release` has written."""
    return (Path(model) / COMPLETE).is_file()


@contextmanager
def natural_turns(model: str | Path) -> Iterator[None]:
    """Within the `with` block, let turns end after an ordinary reader's frames if the model's weights are random."""
    if not is_random(model):
        yield
        return
    push = Turn.push

    def push_until_end(turn: Turn, frame: NDArray[np.int64], end_index: int) -> None:
        if turn.frames == turn.budget - 1:
            frame = np.concatenate(([end_index], frame[1:]))
        push(turn, frame, end_index)

    with patch("engine.request.frame_budget", natural_budget), patch.object(Turn, "push", push_until_end):
        yield


def natural_budget(text: str, frame_rate: float) -> int:
    """Return the frames of an ordinary reader, and one more for the end."""
    return 1 + max(1, round(speaking_time(text) * frame_rate))


def tokenizer(config: DualARConfig) -> Tokenizer:
    """Make a byte-pair tokenizer from the evaluation set's sentences, with the special tokens of S2 at their ids."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    first_special = config.semantic_start_id - 3
    size = min(first_special, _MOST_TEXT_TOKENS)
    made.train_from_iterator(
        EvaluationSet.load().domain,
        trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=alphabet),
    )
    special = {name: first_special + i for i, name in enumerate((IM_START, VOICE, IM_END))}
    special |= {f"<|semantic:{i}|>": config.semantic_start_id + i for i in range(config.semantic_codebook_size)}
    # Tokens that are added get the next free ids, unless the vocabulary already has them.
    content = json.loads(made.to_str())
    content["model"]["vocab"] |= special
    made = Tokenizer.from_str(json.dumps(content))
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    return made


def _config(config: DualARConfig) -> dict[str, Any]:
    """Return the contents of `config.json`, which `parse_omni` reads."""
    return {
        "model_type": "fish_qwen3_omni",
        "semantic_start_token_id": config.semantic_start_id,
        "semantic_end_token_id": config.semantic_end_id,
        "text_config": asdict(config.slow),
        "audio_decoder_config": {**asdict(config.fast), "num_codebooks": config.num_codebooks},
    }


def _write_weights(folder: Path, config: DualARConfig, device: torch.device, seed: int) -> None:
    chance = torch.Generator(device).manual_seed(seed)
    end_id = config.semantic_start_id - 1
    shards = list(_shards(config))
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        tensors = {key: _weight(shape, is_norm, device, chance) for key, (shape, is_norm) in shard.items()}
        for key in ("text_model.model.embeddings.weight", "text_model.model.output.weight"):
            if key in tensors:
                tensors[key][end_id] = 0
        save_file(tensors, folder / name)
        places |= dict.fromkeys(tensors, name)
    _write_json(folder / "model.safetensors.index.json", {"weight_map": places})


_Weights = dict[str, tuple[torch.Size, bool]]  # shape, and whether it is a norm's, by name


def _shards(config: DualARConfig) -> Iterator[_Weights]:
    """Yield the weights of each shard: as many as fit, or one larger one."""
    with torch.device("meta"):
        slow, fast = SlowAR(config, end_id=0), FastAR(config)
    shard: _Weights = {}
    held = 0
    for name, (shape, is_norm) in itertools.chain(_weights(slow, _slow_name), _weights(fast, "audio_decoder.".__add__)):
        size = 2 * shape.numel()
        if shard and held + size > SHARD_BYTES:
            yield shard
            shard, held = {}, 0
        shard[name] = shape, is_norm
        held += size
    yield shard


def _weights(stack: nn.Module, stored: Callable[[str], str]) -> Iterator[tuple[str, tuple[torch.Size, bool]]]:
    for path, module in stack.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            yield stored(f"{path}.{name}" if path else name), (weight.shape, isinstance(module, RMSNorm))


def _slow_name(name: str) -> str:
    return ("audio_decoder." if name.startswith("codebook_embeddings.") else "text_model.model.") + name


def _weight(shape: torch.Size, is_norm: bool, device: torch.device, chance: torch.Generator) -> Tensor:
    weight = torch.empty(shape, dtype=torch.bfloat16, device=device)
    return (weight.fill_(1.0) if is_norm else weight.normal_(0.0, SPREAD, generator=chance)).cpu()


def _write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", "utf-8")


def main() -> None:
    """Write the release."""
    options = device_parser(__doc__, device="cpu")
    options.add_argument("folder", type=Path)
    options.add_argument("--sizes", choices=_SIZES, default="s2-pro")
    chosen = options.parse_args()
    write_release(chosen.folder, _SIZES[chosen.sizes](), torch.device(chosen.device))
    print(f"written: {chosen.folder}")


if __name__ == "__main__":
    main()
