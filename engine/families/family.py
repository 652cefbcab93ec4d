"""The interface between the engine and a model family: a release and the parts built from it.

A family is a package next to `s2` with a class that implements `Release`; `engine.families.registry` lists them.
Families share the transformer layers, KV cache, frame step, CUDA graphs, slots and codec worker.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.codec.views import CodecSizes, DecoderView, EncoderView
from engine.models.config import TransformerConfig
from engine.models.prompt import Prompt
from engine.models.quantization import Precision
from engine.models.stacks import FastStack, SlowStack
from engine.release.profile import Profile

MIN_SPEECH_FRAMES = 64
"""Positions that every prompt must leave free for speech."""
MIN_HOST_EMBEDDINGS = 64 << 20
"""The least bytes of embeddings of text, in 16 bits, that stay in host memory when a model is loaded on a GPU."""


class ModelConfig(Protocol):
    """Sizes of both transformers. num_codebooks: K, the semantic codebook included."""

    @property
    def slow(self) -> TransformerConfig: ...
    @property
    def fast(self) -> TransformerConfig: ...
    @property
    def num_codebooks(self) -> int: ...


class Architecture(Protocol):
    """Sizes of a release, and its modules without weights. Equal sizes have equal hashes.

    fits_fp16: whether all activations are within the range of fp16.
    """

    @property
    def fits_fp16(self) -> bool: ...

    @property
    def config(self) -> ModelConfig: ...
    @property
    def codec(self) -> CodecSizes: ...

    def __hash__(self) -> int: ...

    def on(self, device: torch.device) -> "Architecture":
        """Return the sizes of what `Release.load_model` loads on a device."""

    def stacks(self) -> tuple[SlowStack, FastStack]:
        """Build both transformers. On the meta device this allocates no memory."""

    def views(self) -> tuple[EncoderView, DecoderView]:
        """Build both views of the codec. On the meta device this allocates no memory."""


class SpeechModel(Protocol):
    """Both transformers of a release, loaded."""

    @property
    def slow(self) -> SlowStack: ...
    @property
    def fast(self) -> FastStack: ...


@dataclass(frozen=True)
class AlignedWord:
    """A word as written at `offset` in its text, spoken in frames `start` to `end`, exclusive."""

    text: str
    offset: int
    start: int
    end: int


@dataclass(frozen=True)
class Alignment:
    """The words of a text in order, and the number of frames that speak it: in later ones it is spoken again."""

    words: Sequence[AlignedWord]
    frames: int


@dataclass(frozen=True)
class PromptReference:
    """A reference in the prompt: a transcript, its codes `[K, T]`, and a speaker embedding `[D]` if the model uses one.

    transcript: "" if the voice is cloned from its embedding alone.
    """

    transcript: str
    codes: Tensor
    embedding: Tensor | None = None


@dataclass(frozen=True)
class PromptVoice:
    """The voice of a prompt: references to clone, one of the model's built-in speakers, or a description.

    language: one of `Capabilities.languages`; "" lets the model choose. style: a style tag for each sentence, or "".
    """

    references: Sequence[PromptReference] = ()
    speaker: str = ""
    description: str = ""
    language: str = ""
    style: str = ""


class Conversation(Protocol):
    """The context of one request, from which the prompts of its turns are built."""

    def begin_turn(self, text: str, budget: int) -> tuple[Prompt, int]:
        """Make room for a turn that says `text`, by removing the oldest turns if necessary, and build its prompt.

        Returns: the prompt, and how many of `budget` frames fit after it. Raises InvalidInput if the text is too long.
        """

    def append(self, text: str, codes: Tensor) -> None:
        """Add the turn that said `text` as `codes [K, T]` to the context."""


class Prompts(Protocol):
    """The prompts of a family."""

    def conversation(self, voice: PromptVoice, positions: int, context_positions: int) -> Conversation:
        """Start the context of a request. Raises InvalidInput if the voice is too long.

        positions: maximum for a prompt and its speech together. context_positions: how many of them earlier turns may
        use.
        """

    def prefixes(self, voice: PromptVoice) -> Sequence[Prompt]:
        """Return the prefixes that prompts of this voice may share, so that the caches can drop them."""

    def count_phones(self, text: str) -> int | None:
        """Return the number of phones in spoken text; None for a model that does not use phones."""

    def unpronounceable(self, text: str) -> list[str]:
        """Return the words of `text` that the model cannot say."""

    @property
    def text_size(self) -> Callable[[str], int]:
        """The size that limits a segment; see `Segmentation`. A module's function, so that it can be pickled."""


@dataclass(frozen=True)
class Capabilities:
    """Optional features of a release.

    clones: whether voices can be cloned from clips. needs_transcript: whether a clip needs its transcript.
    has_speaker_encoder: whether there is a speaker encoder for clips. uses_clips: whether speech in a saved voice
    depends on its clips, besides their codes. speakers: names of the model's built-in voices.
    follows_instructions: whether these follow instructions. designs_voices: whether a voice can be described in words.
    languages: languages that a request can choose, named as in the release; empty if the model has no language setting.
    english_only: whether it speaks English only. word_times: whether it provides word timings. phones: whether texts
    may spell words in phones (`engine.text.english.pronunciation.phone_mark`).
    """

    clones: bool = True
    needs_transcript: bool = True
    has_speaker_encoder: bool = False
    uses_clips: bool = False
    speakers: tuple[str, ...] = ()
    follows_instructions: bool = False
    designs_voices: bool = False
    languages: tuple[str, ...] = ()
    english_only: bool = False
    word_times: bool = False
    phones: bool = False


class Aligner(Protocol):
    """Finds when words are spoken. Thread-safe."""

    def align(self, prompt: Prompt, text: str, codes: Tensor) -> Alignment:
        """Locate the words of `text` in the frames `codes [K, T]` that were generated for `prompt`."""


class SpeakerEncoder(Protocol):
    """Clip → speaker embedding."""

    def embed(self, samples: Tensor) -> Tensor:
        """Embed mono samples `[n]` at the codec's rate → `[D]`."""


class Release(Protocol):
    """A release with its sizes and tokenizer loaded, but not its weights."""

    @property
    def architecture(self) -> Architecture: ...
    @property
    def profile(self) -> Profile: ...
    @property
    def capabilities(self) -> Capabilities: ...
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
        """Create the aligner of a loaded model; None unless `Capabilities.word_times`."""

    def fingerprint(self, decoder: DecoderView) -> str:
        """Return an identifier that is equal for codecs whose codes mean the same."""
