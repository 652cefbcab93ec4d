"""Parsing of `config.json` and `generation_config.json` of a Qwen3-TTS release.

Source: the configurations of Qwen/Qwen3-TTS-12Hz-* on the Hugging Face Hub and the package qwen-tts 0.1.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.checks import MAX_CODEBOOKS, MAX_VOCABULARY, check_flag, check_int, check_number, shown
from engine.errors import InvalidConfig
from engine.families.qwen3_tts.sampling import RepetitionPenaltyRules
from engine.families.qwen3_tts.sections import Section, names_to_ids
from engine.files.bounded import read_object
from engine.models.config import TransformerConfig
from engine.models.sampling import MAX_TOP_K, SamplingOptions

# Size of the upper part of the codec vocabulary: speakers, languages and marks. The rest are the semantic codes.
SPECIAL_CODES = 1024
_KINDS = ("base", "custom_voice", "voice_design")
_GENERATION = "The model's generation_config.json"
_USUAL = SamplingOptions(0.9, 1.0, 50)


@dataclass(frozen=True)
class SpeakerEncoderConfig:
    """Sizes of the speaker encoder, an ECAPA-TDNN over mel spectrograms. dim: width of the embedding."""

    dim: int
    channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    kernels: tuple[int, ...] = (5, 3, 3, 3, 1)
    dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    attention_channels: int = 128
    scale: int = 8
    squeeze_channels: int = 128
    mels: int = 128
    sample_rate: int = 24_000


@dataclass(frozen=True)
class ControlTokens:
    """Ids of control tokens: first those of the text vocabulary, then those of the codec vocabulary."""

    text_pad: int
    text_bos: int
    text_eos: int
    pad: int
    bos: int
    end: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int


@dataclass(frozen=True)
class TalkerConfig:
    """Sizes of talker (`slow`) and code predictor (`fast`), and the release's named languages and speakers.

    num_codebooks: K. semantic_codebook_size: S. text_vocab_size, text_dim: sizes of the text embedding table.
    languages: name and token. speakers: name, token and dialect ("" for none). speaker_encoder: None unless `base`.
    kind: `base`, `custom_voice` or `voice_design`. follows_instructions: whether it follows instructions.
    """

    slow: TransformerConfig
    fast: TransformerConfig
    num_codebooks: int
    semantic_codebook_size: int
    text_vocab_size: int
    text_dim: int
    control_tokens: ControlTokens
    languages: tuple[tuple[str, int], ...]
    speakers: tuple[tuple[str, int, str], ...]
    speaker_encoder: SpeakerEncoderConfig | None
    kind: str
    follows_instructions: bool


@dataclass(frozen=True)
class GenerationDefaults:
    """Default sampling options of a release.

    talker: options that a request can change. They also apply to the code predictor, unless `predictor` is given.
    """

    talker: SamplingOptions = _USUAL
    predictor: SamplingOptions | None = None
    repetition_penalty: float = 1.05


def read_config(folder: Path) -> TalkerConfig:
    """Read `config.json` of a release. Raises InvalidConfig; ReleaseIncomplete if there is no file."""
    root = Section("model's config.json", read_object(folder / "config.json"))
    root.expect(tokenizer_type=["qwen3_tts_tokenizer_12hz"])
    kind, size = root.take("tts_model_type"), root.take("tts_model_size", None)
    if kind not in _KINDS:
        raise InvalidConfig(f"The model's config.json has tts_model_type = {shown(kind)}; Reprise reads {_listed()}.")
    talker = root.section("talker_config")
    predictor = talker.section("code_predictor_config")
    codes = talker.take("num_code_groups")
    check_int(f"The {talker.where}", "num_code_groups", codes, 2, MAX_CODEBOOKS)
    predictor.expect(num_code_groups=[codes])
    slow, fast = _transformer(talker, mrope=True), _transformer(predictor)
    semantic = slow.vocab_size - SPECIAL_CODES
    if not 1 <= semantic <= fast.vocab_size:
        raise InvalidConfig(
            f"The talker has {slow.vocab_size} codec tokens, {SPECIAL_CODES} of them special, "
            f"and the code predictor {fast.vocab_size}."
        )
    if fast.max_seq_len < codes:
        raise InvalidConfig(f"The code predictor has {fast.max_seq_len} positions for {codes} codebooks.")
    text = talker.take("text_vocab_size")
    check_int(f"The {talker.where}", "text_vocab_size", text, 8, MAX_VOCABULARY)
    text_dim = talker.take("text_hidden_size")
    check_int(f"The {talker.where}", "text_hidden_size", text_dim, 1, 1 << 16)
    config = TalkerConfig(
        slow=slow,
        fast=fast,
        num_codebooks=codes,
        semantic_codebook_size=semantic,
        text_vocab_size=text,
        text_dim=text_dim,
        control_tokens=_control_tokens(root, talker, text, slow.vocab_size),
        languages=_languages(talker, slow.vocab_size),
        speakers=_speakers(talker, slow.vocab_size),
        speaker_encoder=_speaker_encoder(root, slow.dim) if kind == "base" else None,
        kind=kind,
        follows_instructions=kind == "voice_design" or (kind == "custom_voice" and size != "0b6"),
    )
    dialects = {dialect for _, _, dialect in config.speakers if dialect} - {name for name, _ in config.languages}
    if dialects:
        raise InvalidConfig(
            f"The talker's speakers have dialects that it does not know: {', '.join(sorted(dialects))}."
        )
    predictor.end(["max_window_layers"])
    talker.end(["position_id_per_seconds"])
    root.end(["assistant_token_id", "im_start_token_id", "im_end_token_id", "speaker_encoder_config"])
    return config


def read_generation(folder: Path) -> GenerationDefaults:
    """Read `generation_config.json`; missing values take the package's defaults. Raises InvalidConfig."""
    path = folder / "generation_config.json"
    values: dict[str, Any] = read_object(path) if path.exists() else {}
    penalty = values.get("repetition_penalty", GenerationDefaults.repetition_penalty)
    check_number(_GENERATION, "repetition_penalty", penalty, 0, 10)
    talker = _sampling(values, "", "do_sample", MAX_TOP_K)
    predictor = _sampling(values, "subtalker_", "subtalker_dosample", RepetitionPenaltyRules.candidates)
    return GenerationDefaults(talker, None if predictor == talker else predictor, penalty)


def _sampling(values: Mapping[str, Any], prefix: str, switch: str, most: int) -> SamplingOptions:
    """Read the options with this name prefix. If the setting `switch` is false, the options are greedy."""
    names = [prefix + name for name in ("temperature", "top_p", "top_k")]
    defaults = (_USUAL.temperature, _USUAL.top_p, _USUAL.top_k)
    temperature, top_p, top_k = (values.get(name, default) for name, default in zip(names, defaults, strict=True))
    check_number(_GENERATION, names[0], temperature, 0, 2)
    check_number(_GENERATION, names[1], top_p, 0, 1)
    check_int(_GENERATION, names[2], top_k, 1, most)
    draws = values.get(switch, True)
    check_flag(_GENERATION, switch, draws)
    return SamplingOptions(temperature if draws else 0, top_p, top_k)


def _listed() -> str:
    return f"{', '.join(_KINDS[:-1])} and {_KINDS[-1]}"


def _transformer(section: Section, *, mrope: bool = False) -> TransformerConfig:
    """Take the sizes of a transformer with Qwen3's blocks and fp32 rotary tables.

    mrope: whether it has three kinds of rotary positions, which are all equal here.
    """
    heads, dim = section.take("num_attention_heads"), section.take("hidden_size")
    section.expect(
        hidden_act=["silu"],
        attention_bias=[False],
        attention_dropout=[0],
        use_sliding_window=[False],
    )
    section.take("sliding_window", None)
    layers = section.take("num_hidden_layers")
    kinds = section.take("layer_types", None)
    if kinds is not None and kinds != ["full_attention"] * len(kinds):
        raise InvalidConfig(f"The {section.where} has layers that do not attend to everything before them.")
    scaling = section.take("rope_scaling", None)
    if scaling is not None and not (
        mrope and isinstance(scaling, dict) and scaling.get("rope_type") in (None, "default")
    ):
        raise InvalidConfig(f"The {section.where} has rope_scaling = {shown(scaling)}, which Reprise does not know.")
    return TransformerConfig(
        vocab_size=section.take("vocab_size"),
        n_layer=layers,
        n_head=heads,
        n_local_heads=section.take("num_key_value_heads"),
        head_dim=section.take("head_dim"),
        dim=dim,
        intermediate_size=section.take("intermediate_size"),
        max_seq_len=section.take("max_position_embeddings"),
        rope_base=section.take("rope_theta"),
        norm_eps=section.take("rms_norm_eps"),
        tie_word_embeddings=False,
        attention_qk_norm=True,
        rounded_rope=False,
    )


def _control_tokens(root: Section, talker: Section, text: int, codec: int) -> ControlTokens:
    def token(section: Section, name: str, most: int) -> int:
        found = section.take(name)
        check_int(f"The {section.where}", name, found, 0, most - 1)
        return int(found)

    of_text = [token(root, f"tts_{name}_token_id", text) for name in ("pad", "bos", "eos")]
    names = ("pad_id", "bos_id", "eos_token_id", "think_id", "nothink_id", "think_bos_id", "think_eos_id")
    return ControlTokens(*of_text, *(token(talker, f"codec_{name}", codec) for name in names))


def _languages(talker: Section, size: int) -> tuple[tuple[str, int], ...]:
    found = names_to_ids(talker, "codec_language_id")
    for name, token in found.items():
        check_int(f"The {talker.where}'s codec_language_id", name, token, 0, size - 1)
    return tuple((name, token) for name, token in found.items() if isinstance(token, int))


def _speakers(talker: Section, size: int) -> tuple[tuple[str, int, str], ...]:
    dialects, found = names_to_ids(talker, "spk_is_dialect"), []
    for name, token in names_to_ids(talker, "spk_id").items():
        token = token[0] if isinstance(token, list) and len(token) == 1 else token
        check_int(f"The {talker.where}'s spk_id", name, token, 0, size - 1)
        dialect = dialects.get(name) or ""
        if not isinstance(dialect, str):
            raise InvalidConfig(f"The {talker.where} gives {name} the dialect {shown(dialect)}; it must be a name.")
        found.append((name, int(str(token)), dialect.lower()))
    return tuple(found)


def _speaker_encoder(root: Section, dim: int) -> SpeakerEncoderConfig:
    section, usual = root.section("speaker_encoder_config"), SpeakerEncoderConfig(dim)

    def whole(name: str, default: int) -> int:
        found = section.take(name, default)
        check_int(f"The {section.where}", name, found, 1, 1 << 16)
        return int(found)

    def several(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        found = section.take(name, list(default))
        if not isinstance(found, list) or not 3 <= len(found) <= 16:
            raise InvalidConfig(f"The {section.where} has {name} = {shown(found)}; it must list 3 to 16 sizes.")
        for each in found:
            check_int(f"The {section.where}", name, each, 1, 1 << 14)
        return tuple(found)

    config = SpeakerEncoderConfig(
        whole("enc_dim", dim),
        several("enc_channels", usual.channels),
        several("enc_kernel_sizes", usual.kernels),
        several("enc_dilations", usual.dilations),
        whole("enc_attention_channels", usual.attention_channels),
        whole("enc_res2net_scale", usual.scale),
        whole("enc_se_channels", usual.squeeze_channels),
        whole("mel_dim", usual.mels),
        whole("sample_rate", usual.sample_rate),
    )
    section.end()
    if len({len(config.channels), len(config.kernels), len(config.dilations)}) != 1 or config.dim != dim:
        raise InvalidConfig(f"The {section.where} contradicts itself, or the talker, which is {dim} wide.")
    if any(width % config.scale for width in config.channels[1:-1]):
        raise InvalidConfig(f"The {section.where} has channels that {config.scale} does not divide.")
    return config
