"""`Release` of the Qwen3-TTS family."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch

from engine.codec.views import DecoderView
from engine.errors import InvalidCheckpoint, InvalidOption
from engine.families.family import MIN_HOST_EMBEDDINGS, Capabilities, SpeechModel
from engine.families.qwen3_tts.codec import SpeechDecoder, SpeechEncoder, fingerprint
from engine.families.qwen3_tts.codec_config import SpeechTokenizerConfig, read_codec_config
from engine.families.qwen3_tts.config import GenerationDefaults, TalkerConfig, read_config, read_generation
from engine.families.qwen3_tts.prompt import TalkerPrompts
from engine.families.qwen3_tts.speaker_encoder import EcapaTdnn
from engine.families.qwen3_tts.talker import CodePredictor, Talker
from engine.families.qwen3_tts.tokenizer import TextTokenizer
from engine.families.qwen3_tts.weights import (
    load_speaker_encoder,
    load_speech_decoder,
    load_speech_encoder,
    load_stacks,
)
from engine.models.quantization import Precision
from engine.release.profile import Profile

NOTICE = "model.notice_qwen"


@dataclass(frozen=True)
class TalkerArchitecture:
    """Sizes of a Qwen3-TTS model and its codec. text_on_host: of a model on a GPU, as in `Talker`."""

    config: TalkerConfig
    codec: SpeechTokenizerConfig
    text_on_host: bool = False

    @property
    def fits_fp16(self) -> bool:
        """False for the 0.6B models, whose talker is no wider than the code predictor.

        A value of their predictor is twice the maximum of fp16; those of the 1.7B models stay six times below it
        (ggml-org/llama.cpp#28231).
        """
        return self.config.slow.dim > self.config.fast.dim

    def on(self, device: torch.device) -> Self:
        return self if device.type == "cuda" else replace(self, text_on_host=False)

    def stacks(self) -> tuple[Talker, CodePredictor]:
        talker = Talker(self.config, GenerationDefaults(), self.text_on_host)
        return talker, CodePredictor(self.config, talker)

    def views(self) -> tuple[SpeechEncoder, SpeechDecoder]:
        return SpeechEncoder(self.codec), SpeechDecoder(self.codec)


@dataclass(frozen=True)
class TalkerModel:
    """Talker and code predictor, loaded."""

    slow: Talker
    fast: CodePredictor


class Qwen3TTSRelease:
    """A release folder with its sizes and tokenizer loaded; see `engine.families.family.Release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        config, codec, self._defaults = read_config(folder), read_codec_config(folder), read_generation(folder)
        tokenizer = TextTokenizer(folder)
        _check(config, codec, tokenizer)
        options = self._defaults.talker
        usual = Profile(
            max_segment_turns=1,
            style_tags=False,
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            notice=NOTICE,
        )
        self.profile = Profile.load(folder, usual)
        self.architecture = TalkerArchitecture(config, codec, text_on_host(config))
        self.prompts = TalkerPrompts(config, tokenizer, self.profile.style_tags)
        self.capabilities = Capabilities(
            clones=config.kind == "base",
            needs_transcript=False,
            has_speaker_encoder=config.speaker_encoder is not None,
            uses_clips=config.speaker_encoder is not None or self.profile.postfilter,
            speakers=tuple(name for name, _, _ in config.speakers),
            follows_instructions=config.follows_instructions,
            designs_voices=config.kind == "voice_design",
            languages=tuple(name for name, _ in config.languages if "dialect" not in name),
        )

    def load_model(self, dtype: torch.dtype, device: torch.device, precision: Precision | None) -> TalkerModel:
        config = self.architecture.config
        if dtype == torch.float16 and not self.architecture.fits_fp16:
            raise InvalidOption("engine.no_fp16")
        return TalkerModel(
            *load_stacks(
                self._folder,
                config,
                self._defaults,
                dtype=dtype,
                device=device,
                precision=precision,
                text_on_host=self.architecture.on(device).text_on_host,
            )
        )

    def load_encoder(self, device: torch.device) -> SpeechEncoder:
        return load_speech_encoder(self._folder, self.architecture.codec, device)

    def load_decoder(self, device: torch.device) -> SpeechDecoder:
        return load_speech_decoder(self._folder, self.architecture.codec, device)

    def load_speaker_encoder(self, device: torch.device) -> EcapaTdnn | None:
        return load_speaker_encoder(self._folder, self.architecture.config, device)

    def aligner(self, model: SpeechModel) -> None:
        return None

    def fingerprint(self, decoder: DecoderView) -> str:
        assert isinstance(decoder, SpeechDecoder)
        return fingerprint(decoder)


def text_on_host(config: TalkerConfig) -> bool:
    """Return whether the embeddings of text are large enough to stay in host memory."""
    return config.text_vocab_size * config.text_dim * torch.bfloat16.itemsize >= MIN_HOST_EMBEDDINGS


def _check(config: TalkerConfig, codec: SpeechTokenizerConfig, tokenizer: TextTokenizer) -> None:
    """Raise InvalidCheckpoint if the files do not belong together."""
    if codec.num_codebooks != config.num_codebooks or codec.codebook_size != config.semantic_codebook_size:
        raise InvalidCheckpoint(
            f"The speech tokenizer has {codec.num_codebooks} codebooks of {codec.codebook_size} and the talker "
            f"{config.num_codebooks} of {config.semantic_codebook_size}; the files do not belong together."
        )
    if tokenizer.size > config.text_vocab_size:
        raise InvalidCheckpoint(
            f"The tokenizer has tokens up to {tokenizer.size - 1}, the model's vocabulary ends at "
            f"{config.text_vocab_size - 1}; the files do not belong together."
        )
    if config.speaker_encoder is not None and config.speaker_encoder.sample_rate != codec.sample_rate:
        raise InvalidCheckpoint(
            f"The speaker encoder hears {config.speaker_encoder.sample_rate} Hz and the speech tokenizer "
            f"{codec.sample_rate} Hz; Reprise reads releases in which they agree."
        )
