"""Loading of a Qwen3-TTS release into Reprise's modules.

The release stores query and key heads in halves, (x0…, xd/2…). They are interleaved here, (x0, xd/2, x1, …), because
the shared layers rotate adjacent pairs.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from engine.errors import ReleaseNotFound
from engine.families.qwen3_tts.codec import SpeechDecoder, SpeechEncoder, SpeechTokenizer
from engine.families.qwen3_tts.codec_config import SpeechTokenizerConfig
from engine.families.qwen3_tts.config import GenerationDefaults, TalkerConfig
from engine.families.qwen3_tts.speaker_encoder import EcapaTdnn
from engine.families.qwen3_tts.talker import CodePredictor, Talker
from engine.models.quantization import Precision, StackName, check_precision, quantize_block
from engine.release.weights import (
    Mismatch,
    StoredTensor,
    StoredTensors,
    compare,
    load_weights,
    open_file,
    refuse_mismatches,
    shapes_of,
)

_BLOCK_NAMES = {
    "self_attn.q_norm.": "attention.q_norm.",
    "self_attn.k_norm.": "attention.k_norm.",
    "self_attn.o_proj.": "attention.wo.",
    "mlp.gate_proj.": "feed_forward.w1.",
    "mlp.up_proj.": "feed_forward.w3.",
    "mlp.down_proj.": "feed_forward.w2.",
    "mlp.fc1.": "feed_forward.fc1.",
    "mlp.fc2.": "feed_forward.fc2.",
    "input_layernorm.": "attention_norm.",
    "post_attention_layernorm.": "ffn_norm.",
    "self_attn_layer_scale.scale": "attention_layer_scale.gamma",
    "mlp_layer_scale.scale": "ffn_layer_scale.gamma",
}
_UNIT = re.compile(r"decoder\.decoder\.\d+\.block\.\d+\.(\w+\.)")  # a residual unit
_UNIT_NAMES = {"act1.": "block.0.", "conv1.": "block.1.", "act2.": "block.2.", "conv2.": "block.3."}
# Tensors of the speech tokenizer that are in neither view.
_UNUSED = re.compile(
    r"encoder\.quantizer\..*\.(?:output_proj\.weight|codebook\.initialized)|decoder\.quantizer\.rvq_\w+\.input_proj\.weight"
)
_TEXT = "text_embeddings.weight"
_LEAST_USAGE = 1e-5

_View = TypeVar("_View", bound=nn.Module)


def load_stacks(
    folder: Path,
    config: TalkerConfig,
    defaults: GenerationDefaults,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
    precision: Precision | None = None,
    text_on_host: bool = False,
) -> tuple[Talker, CodePredictor]:
    """Load talker and code predictor of the release in `folder`. text_on_host: as in `Talker`.

    Raises InvalidCheckpoint or ReleaseIncomplete, naming all problems. Raises DeviceUnavailable or InvalidOption,
    before reading anything, for a precision that is not available here.
    """
    if precision is not None:
        check_precision(precision, device, dtype)
    tensors = open_release(folder)
    with torch.device("meta"):
        talker = Talker(config, defaults)
        predictor = CodePredictor(config, talker)
        speaker = EcapaTdnn(config.speaker_encoder) if config.speaker_encoder else None
    parts: dict[str, StoredTensors] = {"slow": {}, "fast": {}, "speaker": {}}
    unknown = []
    for name, stored in _named(tensors, config).items():
        part, _, rest = name.partition("/")
        if part in parts and rest:
            parts[part][rest] = stored
        else:
            unknown.append(stored.name)
    modules = {"slow": talker, "fast": predictor, "speaker": speaker}
    found = [Mismatch(unexpected=unknown)]
    found += [compare(parts[part], shapes_of(module) if module else {}) for part, module in modules.items()]
    refuse_mismatches("The model's weights do not fit its config", found)
    if text_on_host:
        with torch.device("meta"):
            talker = Talker(config, defaults, text_on_host)
            predictor = CodePredictor(config, talker)
        table = parts["slow"][_TEXT].read(torch.device("cpu"))
        talker.host_embeddings = table.to(dtype, copy=True)
        parts["slow"][_TEXT] = _rows(parts["slow"][_TEXT], [config.control_tokens.text_pad], len(table))
    stacks: tuple[tuple[StackName, Talker | CodePredictor], ...] = (("slow", talker), ("fast", predictor))
    for stack, module in stacks:
        after = None if precision is None else partial(quantize_block, precision=precision, stack=stack)
        load_weights(module, parts[stack], dtype=dtype, device=device, after_block=after)
    return talker.eval(), predictor.eval()


def load_speaker_encoder(folder: Path, config: TalkerConfig, device: torch.device | str) -> EcapaTdnn | None:
    """Load the speaker encoder, in fp32; None for a release without one. Raises as `load_stacks` does."""
    if config.speaker_encoder is None:
        return None
    with torch.device("meta"):
        module = EcapaTdnn(config.speaker_encoder)
    own = {name.removeprefix("speaker/"): each for name, each in _named(open_release(folder), config).items()}
    tensors = {name: each for name, each in own.items() if "/" not in name}
    refuse_mismatches("The speaker encoder does not fit its config", [compare(tensors, shapes_of(module))])
    load_weights(module, tensors, dtype=torch.float32, device=device, copy=True)
    return module.eval()


def load_speech_encoder(folder: Path, config: SpeechTokenizerConfig, device: torch.device | str) -> SpeechEncoder:
    """Load the encoder view of the speech tokenizer in a release folder, in fp32. Only its tensors are read or
    allocated. Raises InvalidCheckpoint, naming tensors that do not fit; ReleaseIncomplete; ReleaseNotFound.
    """
    return _load_view(SpeechEncoder, "encoder.", folder, config, device)


def load_speech_decoder(folder: Path, config: SpeechTokenizerConfig, device: torch.device | str) -> SpeechDecoder:
    """Load the decoder view; otherwise as `load_speech_encoder`."""
    return _load_view(SpeechDecoder, "decoder.", folder, config, device)


def load_speech_tokenizer(folder: Path, config: SpeechTokenizerConfig, device: torch.device | str) -> SpeechTokenizer:
    """Load both views, for tests; otherwise like `load_speech_encoder`."""
    return _load_view(SpeechTokenizer, "", folder, config, device)


def open_release(folder: Path) -> StoredTensors:
    """Open the tensors of `model.safetensors` in a release folder."""
    return open_file(folder / "model.safetensors")


def _load_view(
    view: Callable[[SpeechTokenizerConfig], _View],
    part: str,
    folder: Path,
    config: SpeechTokenizerConfig,
    device: torch.device | str,
) -> _View:
    path = folder / "speech_tokenizer" / "model.safetensors"
    if not path.exists():
        raise ReleaseNotFound("release.no_file", file="speech_tokenizer/model.safetensors")
    with torch.device("meta"):
        module, whole = view(config), SpeechTokenizer(config)
    tensors = _codec_tensors(open_file(path), config)
    required = [part + name for name in shapes_of(module)]
    refuse_mismatches("The speech tokenizer does not fit its config", [compare(tensors, shapes_of(whole), required)])
    own = {name.removeprefix(part): stored for name, stored in tensors.items() if name.startswith(part)}
    load_weights(module, own, dtype=torch.float32, device=device, copy=True)
    return module.eval()


def _named(tensors: StoredTensors, config: TalkerConfig) -> StoredTensors:
    """Rename the tensors of a model to `slow/…`, `fast/…` or `speaker/…`. Unknown tensors keep their names."""
    predictor = "talker.code_predictor."
    prefixes = (
        ("talker.model.text_embedding.", "slow/text_embeddings."),
        ("talker.model.codec_embedding.", "slow/codec_embeddings."),
        ("talker.model.", "slow/"),
        ("talker.text_projection.", "slow/text_projection."),
        ("talker.codec_head.", "slow/head."),
        (f"{predictor}model.codec_embedding.", "table/"),
        (f"{predictor}model.", "fast/"),
        (f"{predictor}lm_head.", "fast/heads."),
        (f"{predictor}small_to_mtp_projection.", "fast/project."),
        ("speaker_encoder.", "speaker/"),
    )
    named: StoredTensors = {}
    for name, stored in tensors.items():
        old, new = next(((old, new) for old, new in prefixes if name.startswith(old)), ("", ""))
        named[new + name.removeprefix(old)] = stored
    tables = [named.pop(f"table/{i}.weight", None) for i in range(config.num_codebooks - 1)]
    if all(table is not None and len(table.shape) == 2 for table in tables):
        named["slow/residual_embeddings.weight"] = StoredTensor.joined([table for table in tables if table is not None])
    if "slow/head.weight" in named:
        rows = [*range(config.semantic_codebook_size), config.control_tokens.end]
        named["slow/head.weight"] = _rows(named["slow/head.weight"], rows, config.slow.vocab_size)
    named = _blocks(named, "slow/", config.slow.head_dim)
    return _blocks(named, "fast/", config.fast.head_dim)


def _codec_tensors(tensors: StoredTensors, config: SpeechTokenizerConfig) -> StoredTensors:
    """Rename the tensors of the speech tokenizer, fold codebooks and snakes, and drop tensors that no view uses."""
    named: StoredTensors = {}
    usage: dict[str, StoredTensor] = {}
    for name, stored in tensors.items():
        if _UNUSED.fullmatch(name):
            continue
        new = name.replace("encoder.encoder.layers.", "encoder.encoder.", 1)
        new = new.replace("encoder.encoder_transformer.", "encoder.transformer.", 1)
        new = new.replace("decoder.pre_transformer.", "decoder.transformer.", 1)
        if (unit := _UNIT.match(new)) and unit[1] in _UNIT_NAMES:
            new = new.replace(unit[1], _UNIT_NAMES[unit[1]], 1)
        new = _quantizer_name(new, config)
        if new.endswith(".cluster_usage"):
            usage[new.removesuffix(".cluster_usage")] = stored
        elif new:
            named[new] = _snake(stored) if new.endswith((".alpha", ".beta")) else stored
    for name, counts in usage.items():
        if name in named and len(named[name].shape) == 2:
            named[name] = _divided(named[name], counts)
        else:
            named[f"{name}.cluster_usage"] = counts
    named = _blocks(named, "encoder.transformer.", config.encoder_transformer.head_dim)
    return _blocks(named, "decoder.transformer.", config.decoder_transformer.head_dim)


def _quantizer_name(name: str, config: SpeechTokenizerConfig) -> str:
    """Rename a tensor of a quantizer: entries by codebook, "" for codebooks that the encoder does not use."""
    patterns = (
        (r"encoder\.quantizer\.(semantic|acoustic)_residual_vector_quantizer\.(.*)", "encoder"),
        (r"decoder\.quantizer\.rvq_(first|rest)\.(.*)", "decoder"),
    )
    for pattern, side in patterns:
        if not (found := re.fullmatch(pattern, name)):
            continue
        first, rest = found[1] in ("semantic", "first"), found[2]
        if rest in ("input_proj.weight", "output_proj.weight"):
            return f"{side}.quantizer.{'semantic' if first else 'residual'}_proj.weight"
        entry = re.fullmatch(r"(?:vq\.)?layers\.(\d+)\._?codebook\.(embed_sum|embedding_sum|cluster_usage)", rest)
        if entry is None:
            return name
        codebook = int(entry[1]) + (0 if first else 1)
        if side == "encoder" and config.num_codebooks <= codebook < config.stored_quantizers:
            return ""
        suffix = ".cluster_usage" if entry[2] == "cluster_usage" else ""
        return f"{side}.quantizer.entries.{codebook}{suffix}"
    return name


def _blocks(tensors: StoredTensors, prefix: str, head_dim: int) -> StoredTensors:
    """Rename the transformer blocks below a prefix, fuse queries, keys and values, and interleave heads."""
    renamed: StoredTensors = {}
    for name, stored in tensors.items():
        block = re.match(rf"{re.escape(prefix)}layers\.\d+\.", name)
        rest = name[block.end() :] if block else ""
        for old, new in _BLOCK_NAMES.items():
            if block and rest.startswith(old):
                name = block[0] + new + rest.removeprefix(old)
        is_head_norm = block and rest in ("self_attn.q_norm.weight", "self_attn.k_norm.weight")
        renamed[name] = _interleaved(stored, head_dim) if is_head_norm else stored
    for name in [name for name in renamed if name.startswith(prefix) and name.endswith("self_attn.q_proj.weight")]:
        names = [name.replace("q_proj", part) for part in ("q_proj", "k_proj", "v_proj")]
        parts = [renamed[each] for each in names if each in renamed]
        if len(parts) < 3 or any(len(part.shape) != 2 for part in parts) or len({part.shape[1] for part in parts}) > 1:
            continue
        for each in names:
            del renamed[each]
        q, k, v = parts
        fused = name.replace("self_attn.q_proj", "attention.wqkv")
        renamed[fused] = StoredTensor.joined([_interleaved(q, head_dim), _interleaved(k, head_dim), v])
    return renamed


def _interleaved(stored: StoredTensor, head_dim: int) -> StoredTensor:
    """Interleave the two halves of each head in the rows of a tensor."""
    if not stored.shape or stored.shape[0] % head_dim:
        return stored

    def read(device: torch.device) -> Tensor:
        rows = stored.read(device)
        halves = rows.view(-1, 2, head_dim // 2, *rows.shape[1:])
        return halves.transpose(1, 2).reshape(rows.shape)

    return StoredTensor(stored.name, stored.shape, read)


def _rows(stored: StoredTensor, rows: list[int], size: int) -> StoredTensor:
    """Select rows of a tensor of `size` rows. A tensor of another size stays unchanged and fails the shape check."""
    if len(stored.shape) != 2 or stored.shape[0] != size:
        return stored
    return StoredTensor(
        stored.name, (len(rows), stored.shape[1]), lambda device: stored.read(device)[torch.tensor(rows)]
    )


def _divided(sums: StoredTensor, counts: StoredTensor) -> StoredTensor:
    """Return the entries of a codebook: sums of vectors divided by their counts, in fp32."""
    if counts.shape != sums.shape[:1]:
        return StoredTensor(counts.name, (*counts.shape, 0), counts.read)

    def read(device: torch.device) -> Tensor:
        total, count = (each.read(device).to(device, torch.float32) for each in (sums, counts))
        return total / count.clamp(min=_LEAST_USAGE)[:, None]

    return StoredTensor(sums.name, sums.shape, read)


def _snake(stored: StoredTensor) -> StoredTensor:
    """Convert a snake's log parameter `[C]` to `[C, 1]`: alpha, or the reciprocal of beta."""

    def read(device: torch.device) -> Tensor:
        value = stored.read(device).to(device, torch.float32).exp()[:, None]
        return value if stored.name.endswith("alpha") else 1 / (value + 1e-9)

    return StoredTensor(stored.name, (*stored.shape, 1), read)
