"""Make the miniature Qwen3-TTS release in `tests/fixtures/qwen3_tts_tiny`, and golden tensors that the public package
computes from it.

    pip install qwen-tts==0.1.1          (in an environment of its own: it pins transformers)
    python scripts/make_qwen3_tts.py tests/fixtures/qwen3_tts_tiny

The weights are random, in the Hub layout of Qwen/Qwen3-TTS-12Hz-*-Base. The kinds `custom_voice` and `voice_design`
are the same weights without the speaker encoder, with the configs `custom_voice.json` and `voice_design.json`. The
golden tensors are prompt ids and embeddings, logits of talker and predictor, greedy frames, codes of a clip, audio of
codes, and a speaker embedding.
"""

import argparse
import json
import shutil
import tempfile
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import torch
from qwen_tts import Qwen3TTSModel
from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSConfig
from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSForConditionalGeneration
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config
from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Model
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

CODES, SPECIALS, K = 64, 1024, 4
PART = 22_000  # samples, not a whole number of frames
WORDS = """The quick brown fox jumps over the lazy dog. A reference is spoken once, and then every sentence after it has
the same voice. You are a young man with a calm and low voice. What do
you say? This is the second sentence of the test; it is longer, so that its text goes on behind the reference."""
REFERENCE, TEXT, LONG = "The words of it.", "A fox says: yes!", "This is the second sentence, and it is much longer."
INSTRUCTION = "You are a young man with a calm voice."
_SPLIT = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_ADDED = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
SPEAKERS = {"vivian": (1017, False), "dylan": (830, "beijing_dialect"), "ryan": (1013, False)}
FRAMES = 12


def write_tokenizer(folder: Path) -> dict[str, int]:
    """Write `vocab.json`, `merges.txt` and `tokenizer_config.json`, in the format of Qwen2's tokenizer."""
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=360, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([WORDS, *["assistant"] * 99], trainer)  # one token, as in the releases
    model = json.loads(tokenizer.to_str())["model"]
    vocab: dict[str, int] = model["vocab"]
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False))
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    added = {token: len(vocab) + i for i, token in enumerate(_ADDED)}
    config = {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(i): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token, i in added.items()
        },
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "bos_token": None,
        "unk_token": None,
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return added


def config_of(kind: str, added: dict[str, int]) -> Qwen3TTSConfig:
    """Make the config of a kind. added: ids of the added tokens."""
    first = CODES  # of the special codec tokens
    speakers = SPEAKERS if kind == "custom_voice" else {}
    predictor = {
        "vocab_size": CODES,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
        "rope_theta": 1_000_000,
        "num_code_groups": K,
    }
    talker = {
        "code_predictor_config": predictor,
        "vocab_size": CODES + SPECIALS,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 2048,
        "rope_theta": 1_000_000,
        "rope_scaling": {"interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default", "type": "default"},
        "num_code_groups": K,
        "text_hidden_size": 28,
        "text_vocab_size": max(added.values()) + 8,
        "codec_pad_id": first + 100,
        "codec_bos_id": first + 101,
        "codec_eos_token_id": first + 102,
        "codec_think_id": first + 106,
        "codec_nothink_id": first + 107,
        "codec_think_bos_id": first + 108,
        "codec_think_eos_id": first + 109,
        "spk_id": {name: first + token for name, (token, _) in speakers.items()},
        "spk_is_dialect": {name: dialect for name, (_, dialect) in speakers.items()},
        "codec_language_id": {
            "english": first + 2,
            "german": first + 5,
            "chinese": first + 7,
            **({"beijing_dialect": first + 26} if kind == "custom_voice" else {}),
        },
    }
    return Qwen3TTSConfig(
        talker_config=talker,
        speaker_encoder_config={
            "enc_dim": 32,
            "enc_channels": [16, 16, 16, 16, 48],
            "enc_attention_channels": 8,
            "enc_se_channels": 8,
            "enc_res2net_scale": 4,
        },
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        tts_model_size="1b7",
        tts_model_type=kind,
        im_start_token_id=added["<|im_start|>"],
        im_end_token_id=added["<|im_end|>"],
        tts_pad_token_id=added["<tts_pad>"],
        tts_bos_token_id=added["<tts_text_bos>"],
        tts_eos_token_id=added["<tts_text_eod>"],
    )


def codec_config() -> Qwen3TTSTokenizerV2Config:
    """Make the config of the speech tokenizer: frames as long as the release's, few channels."""
    return Qwen3TTSTokenizerV2Config(
        encoder_config={
            "audio_channels": 1,
            "num_filters": 4,
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "codebook_dim": 8,
            "codebook_size": CODES,
            "num_quantizers": 6,
            "vector_quantization_hidden_dimension": 8,
            "upsample_groups": 16,
            "frame_rate": 12.5,
            "sampling_rate": 24_000,
            "upsampling_ratios": [8, 6, 5, 4],
        },
        decoder_config={
            "codebook_size": CODES,
            "codebook_dim": 16,
            "hidden_size": 12,
            "latent_dim": 16,
            "head_dim": 8,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "intermediate_size": 20,
            "num_hidden_layers": 2,
            "num_quantizers": K,
            "sliding_window": 9,
            "upsample_rates": (8, 5, 4, 3),
            "upsampling_ratios": (2, 2),
            "decoder_dim": 32,
        },
        encoder_valid_num_quantizers=K,
    )


def fill(module: torch.nn.Module, seed: int) -> None:
    """Draw weights that keep a signal's size from layer to layer."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted([*module.named_parameters(), *module.named_buffers()]):
        if not weight.is_floating_point() or name.endswith(("initialized", "inv_freq")):
            continue
        noise = torch.randn(weight.shape, generator=generator)
        if name.endswith("cluster_usage"):
            weight.data.copy_(noise.abs() + 0.5)
        elif name.endswith(("alpha", "beta", "bias")):
            weight.data.copy_(0.1 * noise)
        elif "norm" in name or name.endswith(("scale", "gamma")):
            weight.data.copy_(0.5 + 0.1 * noise)
        elif weight.dim() == 1:
            weight.data.copy_(noise)
        else:
            fan = weight[0].numel() if "embed" not in name and "codebook" not in name else 1
            gain = 0.6 if name.startswith("decoder.decoder") else 1.3
            weight.data.copy_(noise * gain / fan**0.5)


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write values as a JSON file."""
    path.write_text(json.dumps(values, indent=1))


def config_json(kind: str, added: dict[str, int]) -> dict[str, Any]:
    """Return `config.json` of a kind, as in its release."""
    values: dict[str, Any] = config_of(kind, added).to_dict()
    own = ("enc_dim", "enc_channels", "enc_attention_channels", "enc_se_channels", "enc_res2net_scale", "sample_rate")
    values["speaker_encoder_config"] = {name: values["speaker_encoder_config"][name] for name in own}
    if kind != "base":
        del values["speaker_encoder_config"]
    return {**values, "architectures": ["Qwen3TTSForConditionalGeneration"]}


def write_release(out: Path) -> None:
    """Write the Base release and the configs of the other kinds."""
    (out / "speech_tokenizer").mkdir(parents=True)
    added = write_tokenizer(out)
    codec = Qwen3TTSTokenizerV2Model(codec_config()).eval()
    model = Qwen3TTSForConditionalGeneration(config_of("base", added)).eval()
    for seed, module in enumerate((codec, model.talker, model.speaker_encoder), start=1):
        fill(module, seed)
    model.save_pretrained(out, safe_serialization=True)
    codec.save_pretrained(out / "speech_tokenizer", safe_serialization=True)
    write_json(out / "config.json", config_json("base", added))
    for kind in ("custom_voice", "voice_design"):
        write_json(out / f"{kind}.json", config_json(kind, added))
    (out / "speech_tokenizer" / "preprocessor_config.json").write_text(
        json.dumps({"feature_extractor_type": "EncodecFeatureExtractor", "feature_size": 1, "sampling_rate": 24_000})
    )
    write_json(out / "preprocessor_config.json", {"padding_side": "left", "processor_class": "Qwen3TTSProcessor"})
    options: dict[str, Any] = {"do_sample": True, "temperature": 0.9, "top_p": 1.0, "top_k": 50}
    nested = {f"subtalker_{name.replace('do_sample', 'dosample')}": value for name, value in options.items()}
    options |= nested | {"repetition_penalty": 1.05, "max_new_tokens": 8192}
    write_json(out / "generation_config.json", options)


def load(release: Path, kind: str) -> Qwen3TTSModel:
    """Load the release as a kind; kinds other than base have no speaker encoder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / kind
        shutil.copytree(release, copy)
        if kind != "base":
            shutil.copy(release / f"{kind}.json", copy / "config.json")
            weights = load_file(copy / "model.safetensors")
            kept = {name: weight for name, weight in weights.items() if not name.startswith("speaker_encoder.")}
            save_file(kept, copy / "model.safetensors", metadata={"format": "pt"})
        return Qwen3TTSModel.from_pretrained(str(copy), attn_implementation="eager", dtype=torch.float32)


class Recorder:
    """Outputs of the talker and the predictor in one generation."""

    def __init__(self, model: Qwen3TTSForConditionalGeneration) -> None:
        self.prompt: torch.Tensor | None = None
        self.logits: list[torch.Tensor] = []
        self.residual: list[torch.Tensor] = []
        talker, predictor = model.talker.forward, model.talker.code_predictor.forward

        @wraps(talker)
        def talked(*args: Any, **kwargs: Any) -> Any:
            if self.prompt is None:
                self.prompt = kwargs["inputs_embeds"].clone()
            out = talker(*args, **kwargs)
            self.logits.append(out.logits[0, -1].clone())
            return out

        @wraps(predictor)
        def predicted(*args: Any, **kwargs: Any) -> Any:
            out = predictor(*args, **kwargs)
            self.residual.append(out.logits[0, -1].clone())
            return out

        model.talker.forward, model.talker.code_predictor.forward = talked, predicted

    def tensors(self, codes: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the recorded tensors. codes: of the frames, `[T, K]`."""
        assert self.prompt is not None
        return {
            "prompt": self.prompt[0],
            "logits": torch.stack(self.logits)[:FRAMES],
            "residual": torch.stack(self.residual).view(-1, K - 1, CODES)[:FRAMES],
            "codes": codes.T.contiguous(),
        }


GREEDY = {"do_sample": False, "subtalker_dosample": False, "max_new_tokens": FRAMES + 1}


def speech(seconds: float) -> np.ndarray:
    """Make a clip of harmonics and noise, at 24 kHz."""
    t = np.arange(int(24_000 * seconds)) / 24_000
    wave = sum(np.sin(2 * np.pi * 130 * k * t + k) / k for k in range(1, 9)) * (0.4 + 0.3 * np.sin(2 * np.pi * 3 * t))
    noise = np.random.default_rng(0).normal(size=len(t)) * 0.05
    return (0.2 * wave + noise).astype(np.float32)


@torch.inference_mode()
def golden(out: Path) -> None:
    """Write the package's results to `golden.safetensors`, and the cases to `cases.json`."""
    tensors: dict[str, torch.Tensor] = {}
    cases: list[dict[str, Any]] = []

    def spoken(name: str, tts: Qwen3TTSModel, **inputs: Any) -> None:
        instruct = inputs.pop("instruct", None)
        recorder, made = Recorder(tts.model), tts.model.generate
        kept: dict[str, Any] = {}

        def generate(*args: Any, **kwargs: Any) -> Any:
            kept.update(kwargs)
            found = made(*args, **kwargs)
            kept["codes"] = found[0][0]
            return found

        tts.model.generate = generate
        if "speaker" in inputs:
            tts.generate_custom_voice(**inputs, instruct=instruct, **GREEDY)
        elif instruct is not None:
            tts.generate_voice_design(**inputs, instruct=instruct, **GREEDY)
        else:
            audio, _ = tts.generate_voice_clone(**inputs, non_streaming_mode=True, **GREEDY)
            tensors[f"{name}.audio"] = torch.from_numpy(audio[0])
        del tts.model.generate
        del tts.model.talker.forward, tts.model.talker.code_predictor.forward
        for key, value in recorder.tensors(kept["codes"]).items():
            tensors[f"{name}.{key}"] = value
        tensors[f"{name}.input_ids"] = kept["input_ids"][0][0]
        if kept.get("ref_ids") and kept["ref_ids"][0] is not None:
            tensors[f"{name}.ref_ids"] = kept["ref_ids"][0][0]
        if kept.get("instruct_ids") and kept["instruct_ids"][0] is not None:
            tensors[f"{name}.instruct_ids"] = kept["instruct_ids"][0][0]
        case = {key: value for key, value in inputs.items() if isinstance(value, str)}
        cases.append({"name": name, "instruct": instruct or "", **case})

    base = load(out, "base")
    wave = speech(1.2)
    item = base.create_voice_clone_prompt((wave, 24_000), REFERENCE)[0]
    part = base.create_voice_clone_prompt((wave[:PART], 24_000), REFERENCE)[0]
    tensors["part_codes"] = part.ref_code.T.contiguous()
    alone = base.create_voice_clone_prompt((wave, 24_000), x_vector_only_mode=True)[0]
    tensors["clip"], tensors["clip_codes"] = torch.from_numpy(wave), item.ref_code.T.contiguous()
    tensors["clip_embedding"] = item.ref_spk_embedding
    spoken("clone", base, text=TEXT, language="English", voice_clone_prompt=[item])
    spoken("clone_long", base, text=LONG * 3, voice_clone_prompt=[item])
    spoken("embedding", base, text=TEXT, language="german", voice_clone_prompt=[alone])
    codes = torch.randint(CODES, (40, K), generator=torch.Generator().manual_seed(5))
    audio, _ = base.model.speech_tokenizer.decode([{"audio_codes": codes}])
    tensors["decoder_codes"], tensors["decoder_audio"] = codes.T.contiguous(), torch.from_numpy(audio[0])
    custom = load(out, "custom_voice")
    spoken("speaker", custom, text=TEXT, speaker="Ryan", language="english")
    spoken("dialect", custom, text=TEXT, speaker="dylan", instruct=INSTRUCTION)
    design = load(out, "voice_design")
    spoken("design", design, text=LONG, instruct=INSTRUCTION, language="English")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out / "golden.safetensors")
    (out / "cases.json").write_text(json.dumps(cases, indent=1))


def main() -> None:
    """Rebuild the fixture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    write_release(out)
    golden(out)
    for file in sorted(out.rglob("*.safetensors")):
        print(file.relative_to(out), file.stat().st_size, len(load_file(file)))


if __name__ == "__main__":
    main()
