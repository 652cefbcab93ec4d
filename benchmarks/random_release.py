"""A release of given sizes with random weights, for measurements of the whole engine without a download.

    python -m benchmarks.random_release FOLDER [--sizes s2-pro]

The folder has the layout of Fish Audio S2: `config.json`, a tokenizer, shards of weights in bf16, and a codec. The
files of weights have all names and shapes, but holes in the place of values, so that they are written in a second and
take no space: `random_weights` draws the values on the engine's device when the engine reads them.

Random weights do not end a turn when its text is spoken. The end token's row is zero, so that it is never among the
likeliest, and within `natural_turns` a turn ends after as many frames as an ordinary reader needs.
"""

import argparse
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.memory.codec_release import Spread, spreads
from benchmarks.memory.sizes import SPREAD, Sizes, half_billion, s2_pro
from engine.codec.codec import Codec
from engine.families.s2.codec import codec_files
from engine.families.s2.config import DualARConfig
from engine.families.s2.dual_ar import read_config
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.slow_ar import SlowAR
from engine.release.weights import StoredTensors, open_file
from engine.serving.turn import Turn
from engine.text import speaking_time
from engine.text.tokenizer import IM_END, IM_START, VOICE

COMPLETE = "random_weights.json"  # written last
CODEC = "codec.safetensors"
SHARD_BYTES = 512 << 20
_MOST_TEXT_TOKENS = 4096
_DRAWN_ON_CPU = 1 << 22  # values of a weight; they are repeated
_KINDS = {torch.bfloat16: "BF16", torch.float32: "F32"}  # in safetensors
_WITH_END_ROW = {"text_model.model.embeddings.weight", "text_model.model.output.weight"}
_SIZES: dict[str, Callable[[], Sizes]] = {"s2-pro": s2_pro, "0.5b": half_billion}


def write_release(folder: Path, sizes: Sizes, seed: int = 0) -> None:
    """Write a release into a folder, unless it is already there. seed: of the values of its weights.

    Raises ValueError for a folder that holds a random release of other sizes, or of an earlier version of this program.
    """
    about = {"name": sizes.name, "config": _config(sizes.dual_ar), "codec": CODEC, "seed": seed}
    if (folder / COMPLETE).exists():
        if json.loads((folder / COMPLETE).read_text("utf-8")) != about:
            raise ValueError(f"{folder} holds a random release of other sizes or of an earlier version; delete it")
        return
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", _config(sizes.dual_ar))
    _write_json(folder / "codec_config.json", asdict(sizes.codec))
    (folder / "tokenizer.json").write_text(tokenizer(sizes.dual_ar).to_str(), "utf-8")
    _write_weights(folder, sizes.dual_ar)
    with torch.device("meta"):
        codec = Codec(sizes.codec)
    write_holes(folder / CODEC, {name: weight.shape for name, weight in codec.state_dict().items()}, torch.float32)
    _write_json(folder / COMPLETE, about)


def is_random(model: str | Path) -> bool:
    """Return whether a model is a folder that `write_release` has written."""
    return (Path(model) / COMPLETE).is_file()


@contextmanager
def random_weights(model: str | Path) -> Iterator[None]:
    """Within the `with` block, draw the weights of a random release when they are read, each from its own seed."""
    if not is_random(model):
        yield
        return
    folder = Path(model)
    seed = json.loads((folder / COMPLETE).read_text("utf-8"))["seed"]
    with torch.device("meta"):
        drawn = spreads(Codec(codec_files(folder)[1]))
    end_id = read_config(folder).semantic_start_id - 1

    def draw(name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        chance = torch.Generator(device).manual_seed(zlib.crc32(name.encode()) + seed)
        usual = Spread(1.0, 0.0) if name.endswith("norm.weight") else Spread(0.0, SPREAD)
        mean, deviation = drawn.get(name, usual)
        weight = torch.empty(shape, dtype=dtype, device=device)
        values = weight.view(-1)
        first = values[:_DRAWN_ON_CPU] if device.type == "cpu" else values
        first.normal_(mean, deviation, generator=chance)
        for start in range(len(first), len(values), len(first)):  # a CPU would take seconds for a large table
            values[start : start + len(first)] = first[: len(values) - start]
        if name in _WITH_END_ROW:
            weight[end_id] = 0
        return weight

    def open_drawn(path: Path) -> StoredTensors:
        dtype = torch.float32 if path.name == CODEC else torch.bfloat16
        return {
            name: replace(stored, read=partial(draw, name, stored.shape, dtype))
            for name, stored in open_file(path).items()
        }

    with patch("engine.release.weights.open_file", open_drawn), patch("engine.families.s2.codec.open_file", open_drawn):
        yield


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

    with patch("engine.request.turns.frame_budget", natural_budget), patch.object(Turn, "push", push_until_end):
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


def _write_weights(folder: Path, config: DualARConfig) -> None:
    shards = list(_shards(config))
    places: dict[str, str] = {}
    for number, shapes in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_holes(folder / name, shapes, torch.bfloat16)
        places |= dict.fromkeys(shapes, name)
    _write_json(folder / "model.safetensors.index.json", {"weight_map": places})


def write_holes(path: Path, shapes: Mapping[str, torch.Size], dtype: torch.dtype) -> None:
    """Write a file of safetensors with these names and shapes, whose values are a hole: zeros that take no space."""
    kind, header, end = _KINDS[dtype], {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + shape.numel() * dtype.itemsize
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)  # so that the values are aligned
    with path.open("wb") as file:
        file.write(len(written).to_bytes(8, "little") + written)
        file.truncate(file.tell() + end)


def _shards(config: DualARConfig) -> Iterator[dict[str, torch.Size]]:
    """Yield the shapes of each shard's weights by name: of as many as fit, or of one larger one."""
    with torch.device("meta"):
        slow, fast = SlowAR(config, end_id=0), FastAR(config)
    shard: dict[str, torch.Size] = {}
    held = 0
    slow_weights = ((_slow_name(name), weight) for name, weight in slow.named_parameters())
    fast_weights = ((f"audio_decoder.{name}", weight) for name, weight in fast.named_parameters())
    for name, weight in itertools.chain(slow_weights, fast_weights):
        size = torch.bfloat16.itemsize * weight.numel()
        if shard and held + size > SHARD_BYTES:
            yield shard
            shard, held = {}, 0
        shard[name] = weight.shape
        held += size
    yield shard


def _slow_name(name: str) -> str:
    return ("audio_decoder." if name.startswith("codebook_embeddings.") else "text_model.model.") + name


def _write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", "utf-8")


def main() -> None:
    """Write the release."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--sizes", choices=_SIZES, default="s2-pro")
    chosen = options.parse_args()
    write_release(chosen.folder, _SIZES[chosen.sizes]())
    print(f"written: {chosen.folder}")


if __name__ == "__main__":
    main()
