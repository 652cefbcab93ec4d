"""`Release` of the S2 family."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import torch

from engine.codec.codec import CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.codec.fingerprint import codec_fingerprint
from engine.codec.views import DecoderView
from engine.errors import InvalidCheckpoint, InvalidConfig
from engine.families.family import MIN_HOST_EMBEDDINGS, Aligner, Capabilities, SpeakerEncoder, SpeechModel
from engine.families.s2.alignment import AttentionAligner
from engine.families.s2.codec import codec_files, load_codec_decoder, load_codec_encoder
from engine.families.s2.config import DualARConfig
from engine.families.s2.dual_ar import DualAR, ReleaseHeader, load_dual_ar, read_header
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.prompt import InterleavedPromptBuilder, PromptBuilder
from engine.families.s2.sampling import S1_OPTIONS
from engine.families.s2.slow_ar import SlowAR
from engine.models.quantization import Precision
from engine.release.profile import Profile
from engine.text.tokenizer import VOICE

NOTICE = "model.notice_fish"


@dataclass(frozen=True)
class S2Architecture:
    """Sizes of an S2 model and its codec. host_rows: of a model on a GPU, as in `SlowAR`."""

    fits_fp16: ClassVar = True

    config: DualARConfig
    codec: CodecConfig
    host_rows: int = 0

    def on(self, device: torch.device) -> Self:
        return self if device.type == "cuda" else replace(self, host_rows=0)

    def stacks(self) -> tuple[SlowAR, FastAR]:
        return SlowAR(self.config, 0, self.host_rows), FastAR(self.config)

    def views(self) -> tuple[CodecEncoder, CodecDecoder]:
        return CodecEncoder(self.codec), CodecDecoder(self.codec)


class S2Release:
    """A release folder with its sizes and tokenizer loaded; see `engine.families.family.Release`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._header = folder, read_header(folder)
        self.profile = Profile.load(folder, _s1_profile() if self._header.flat else Profile(notice=NOTICE))
        self._codec_file, codec = codec_files(folder)
        _check_codebooks(self._header, codec)
        _check_alignment_head(self.profile, self._header.config)
        self.architecture = S2Architecture(self._header.config, codec, host_rows(self._header))
        builder = InterleavedPromptBuilder if self._header.flat else PromptBuilder
        self.prompts = builder(self._header.tokenizer, codec.num_codebooks)
        self._header.tokenizer.check_lexicon()
        phonetic = self._header.tokenizer.lexicon is not None
        self.capabilities = Capabilities(
            uses_clips=self.profile.postfilter,
            english_only=phonetic,
            word_times=phonetic and self.profile.alignment_head is not None,
            phones=phonetic,
        )

    def load_model(self, dtype: torch.dtype, device: torch.device, precision: Precision | None) -> DualAR:
        return load_dual_ar(
            self._folder,
            dtype=dtype,
            device=device,
            precision=precision,
            header=self._header,
            host_rows=self.architecture.on(device).host_rows,
        )

    def load_encoder(self, device: torch.device) -> CodecEncoder:
        return load_codec_encoder(self._codec_file, self.architecture.codec, device)

    def load_decoder(self, device: torch.device) -> CodecDecoder:
        return load_codec_decoder(self._codec_file, self.architecture.codec, device)

    def load_speaker_encoder(self, device: torch.device) -> SpeakerEncoder | None:
        return None

    def aligner(self, model: SpeechModel) -> Aligner | None:
        head = self.profile.alignment_head
        if not self.capabilities.word_times or head is None:
            return None
        assert isinstance(model, DualAR)
        return AttentionAligner(model.slow, self.prompts, head)

    def fingerprint(self, decoder: DecoderView) -> str:
        assert isinstance(decoder, CodecDecoder)
        return codec_fingerprint(decoder)


def host_rows(header: ReleaseHeader) -> int:
    """Return how many tokens of text come before those that frames need: the end, the semantic ones, and the last of
    each prompt. The latter may be any in S1's prompts, so that these models keep all of them."""
    if header.flat:
        return 0
    tokenizer, config = header.tokenizer, header.config.slow
    first = min(tokenizer.end_id, tokenizer.encode(VOICE)[-1], tokenizer.semantic_start_id)
    return first if first * config.dim * torch.bfloat16.itemsize >= MIN_HOST_EMBEDDINGS else 0


def _s1_profile() -> Profile:
    return Profile(temperature=S1_OPTIONS.temperature, top_p=S1_OPTIONS.top_p, top_k=S1_OPTIONS.top_k, notice=NOTICE)


def _check_codebooks(header: ReleaseHeader, codec: CodecConfig) -> None:
    model, semantic, residual = header.config, codec.codebook_sizes[0], codec.codebook_sizes[-1]
    fits = codec.num_codebooks == model.num_codebooks and semantic == model.semantic_codebook_size
    if not fits or residual > model.fast.vocab_size:
        raise InvalidCheckpoint(
            f"The codec has {codec.num_codebooks} codebooks, one of {semantic} codes and the others of {residual}, and "
            f"the speech model {model.num_codebooks}, one of {model.semantic_codebook_size} and the others of at most "
            f"{model.fast.vocab_size}; the files do not belong together."
        )


def _check_alignment_head(profile: Profile, config: DualARConfig) -> None:
    if profile.alignment_head is None:
        return
    layer, head = profile.alignment_head
    if layer >= config.slow.n_layer or head >= config.slow.n_head:
        raise InvalidConfig(
            f"reprise.json names attention head {head} of layer {layer}; the speech model has {config.slow.n_layer} "
            f"layers of {config.slow.n_head} heads."
        )
