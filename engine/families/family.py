"""What the engine asks of a model family: one release, read, and the parts that are made of it.

A family is a package beside `s2` with a `read_release`; `engine.families.registry` lists them. What does not differ
between families stands in one place: transformer layers, key/value cache, frame step and graphs, slots, codec worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.codec.views import CodecSizes, DecoderView, EncoderView
from engine.config import TransformerConfig
from engine.models.prompt import Prompt
from engine.models.quantization import Precision
from engine.models.stacks import FastStack, SlowStack
from engine.release.profile import Profile

MIN_TURN_FRAMES = 64
"""Positions that every prompt must leave for speech."""


class ModelConfig(Protocol):
    """Sizes of both transformers. num_codebooks: K, the semantic codebook included."""

    @property
    def slow(self) -> TransformerConfig: ...
    @property
    def fast(self) -> TransformerConfig: ...
    @property
    def num_codebooks(self) -> int: ...


class Architecture(Protocol):
    """Sizes of a release, and its modules without weights. Hashable by its sizes."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def codec(self) -> CodecSizes: ...

    def __hash__(self) -> int: ...

    def stacks(self) -> tuple[SlowStack, FastStack]:
        """Build both transformers; without memory on the meta device."""

    def views(self) -> tuple[EncoderView, DecoderView]:
        """Build both views of the codec; without memory on the meta device."""


class SpeechModel(Protocol):
    """Both transformers of a release, loaded."""

    @property
    def slow(self) -> SlowStack: ...
    @property
    def fast(self) -> FastStack: ...


@dataclass(frozen=True)
class AlignedWord:
    """A word as written at `offset` in its text, and the frames that speak it: from `start` to `end`, exclusive."""

    text: str
    offset: int
    start: int
    end: int


@dataclass(frozen=True)
class PromptReference:
    """A reference in the prompt: a transcript, its codes `[K, T]`, and a speaker embedding `[D]` where a model has one.

    transcript: "" where the voice is cloned from its embedding alone.
    """

    transcript: str
    codes: Tensor
    embedding: Tensor | None = None


@dataclass(frozen=True)
class PromptVoice:
    """Whose voice speaks: references to clone from, one of the model's own speakers, or a description.

    language: one of `Abilities.languages`; "" leaves it to the model.
    """

    references: Sequence[PromptReference] = ()
    speaker: str = ""
    description: str = ""
    language: str = ""


class Conversation(Protocol):
    """The context of one request, from which the prompts of its turns are built."""

    def prompt_for(self, text: str, budget: int) -> tuple[Prompt, int]:
        """Build the prompt of a turn that says `text`.

        Returns: the prompt, and how many of `budget` frames fit behind it. Raises InvalidInput for text too long.
        """

    def append(self, text: str, codes: Tensor) -> None:
        """Add the turn that said `text` as `codes [K, T]` to the context."""


class Prompts(Protocol):
    """The prompts of a family."""

    def conversation(self, voice: PromptVoice, positions: int, history_positions: int) -> Conversation:
        """Begin a request. Raises InvalidInput for a voice too long.

        positions: of a prompt and its speech together. history_positions: of these, at most so many for earlier turns.
        """

    def prefixes(self, voice: PromptVoice) -> Sequence[Prompt]:
        """Return what prompts of this voice may share, all of it `shared`, to drop it from the caches."""

    def count_phones(self, text: str) -> int | None:
        """Return the number of phones in spoken text; None for a model that is not given phones."""

    def unspoken(self, text: str) -> list[str]:
        """Return the words that the model cannot say."""


@dataclass(frozen=True)
class Abilities:
    """What a release can do beside speaking.

    clones: whether voices can be made of clips. needs_words: whether a clip needs its transcript. embeds: whether there
    is a speaker encoder for clips. speakers: names of the model's own voices. instructs: whether these follow
    instructions. describes: whether a voice can be described in words. languages: that can be asked for, as in the
    release; empty where the model is not told. english_only: whether it speaks English only. word_times: whether
    it tells when words are spoken. phones: whether texts may have words by their phones
    (`engine.text.english.pronunciation.phone_mark`).
    """

    clones: bool = True
    needs_words: bool = True
    embeds: bool = False
    speakers: tuple[str, ...] = ()
    instructs: bool = False
    describes: bool = False
    languages: tuple[str, ...] = ()
    english_only: bool = False
    word_times: bool = False
    phones: bool = False


class Aligner(Protocol):
    """Tells when words are spoken. For any thread."""

    def align(self, prompt: Prompt, text: str, codes: Tensor) -> Sequence[AlignedWord]:
        """Return the words of `text`, which `prompt` asks for, in the frames `codes [K, T]` that say it."""


class SpeakerEncoder(Protocol):
    """Clip → speaker embedding."""

    def embed(self, samples: Tensor) -> Tensor:
        """Embed mono samples `[n]` at the codec's rate → `[D]`."""


class Release(Protocol):
    """A release whose sizes and tokenizer are read, and whose weights are not."""

    @property
    def architecture(self) -> Architecture: ...
    @property
    def profile(self) -> Profile: ...
    @property
    def abilities(self) -> Abilities: ...
    @property
    def prompts(self) -> Prompts: ...

    def load_model(self, dtype: torch.dtype, device: torch.device, precision: Precision | None) -> SpeechModel:
        """Load both transformers. Raises InvalidCheckpoint, ReleaseIncomplete, DeviceUnavailable, InvalidOption."""

    def load_encoder(self, device: torch.device) -> EncoderView:
        """Load the encoder view of the codec, in fp32."""

    def load_decoder(self, device: torch.device) -> DecoderView:
        """Load the decoder view of the codec, in fp32."""

    def load_speaker_encoder(self, device: torch.device) -> SpeakerEncoder | None:
        """Load the speaker encoder; None for a release without one."""

    def aligner(self, model: SpeechModel) -> Aligner | None:
        """Make what tells when words are spoken, for a loaded model; None unless `Abilities.word_times`."""

    def fingerprint(self, decoder: DecoderView) -> str:
        """Identify the meaning of the codec's codes."""
