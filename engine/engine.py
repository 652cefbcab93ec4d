"""The engine: a loaded model that clones voices and speaks. The only face that the rest of Reprise sees."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from engine.audio import Clip, decode_audio, encode_audio, prepare_reference, transcript_for
from engine.codec.fingerprint import codec_fingerprint
from engine.config import DualARConfig
from engine.errors import (
    DeviceUnavailable,
    EngineClosed,
    InvalidCheckpoint,
    InvalidCodes,
    InvalidInput,
    InvalidOption,
    InvalidText,
    UnusableReference,
)
from engine.families.s2.codec import codec_files, load_codec_decoder, load_codec_encoder
from engine.families.s2.dual_ar import load_dual_ar, read_header
from engine.models.compiling import compile_blocks
from engine.models.quantization import Precision
from engine.models.sampling import SamplingOptions
from engine.release.hub import BUNDLED, Progress, find_release
from engine.release.profile import Profile
from engine.request import Request, Speaker, Speech
from engine.serving.clip_encoder import ClipEncoder
from engine.serving.codec_worker import Decoding
from engine.serving.engine_loop import Loop
from engine.serving.graphs import CudaGraphs
from engine.serving.memory import (
    MemoryPlan,
    activation_dtype,
    available_memory,
    choose_precision,
    is_small,
    plan_memory,
    reserved_memory,
)
from engine.serving.model_runner import Runner
from engine.serving.prefix_cache import PrefixCache
from engine.serving.reconstruction import decode_apart
from engine.serving.steps import GraphMode
from engine.serving.torch_script import TorchScripts
from engine.text import normalise, plan_segments
from engine.text.prompt import PromptBuilder, PromptReference
from engine.voice import Consent, Reference, Voice

MAX_SEED = 2**31 - 1
# Requests that may speak at once: as many as a small CPU keeps ahead of their listeners, and what a GPU batches well.
CPU_SLOTS, GPU_SLOTS = 4, 32
QUEUE = 64
# Positions of a slot that are wished for: a voice of 30 s and three minutes of speech in view.
POSITIONS = 4096
PREFIX_BYTES, HOST_PREFIX_BYTES = 512 << 20, 2 << 30


@dataclass(frozen=True)
class SpeakOptions(SamplingOptions):
    """How to speak. seed: 0 to 2³¹ - 1; the same seed gives the same speech; None picks one."""

    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed is not None and not 0 <= self.seed <= MAX_SEED:
            raise InvalidOption(f"The seed is {self.seed}; choose a whole number from 0 to {MAX_SEED}.")


@dataclass(frozen=True)
class EncodedVoice:
    """A new voice, and what the person who made it should know (sentences)."""

    voice: Voice
    notes: tuple[str, ...]


@dataclass(frozen=True)
class EngineStatus:
    """What the engine is doing.

    speaking, waiting: requests. slots: that may speak at once. graphs: what of a frame is recorded (`frame`,
    `fast`), or `off` and why. precision: of the speech model's weights. positions: of a slot, prompt and speech
    together. prefixes: bytes of voices' prompts kept on the device and in host memory. device_memory: bytes that
    PyTorch holds of a GPU, None on a CPU.
    """

    speaking: int
    waiting: int
    slots: int
    graphs: str
    precision: Precision
    positions: int
    prefixes: tuple[int, int]
    device_memory: int | None


class Engine:
    """A model in memory. Made by `load`; any number of threads may use it at once.

    name: the model as it was asked for. device: such as `cpu` or `cuda:0`. sample_rate: Hz of the audio that comes
    out. frame_length: samples a frame. frame_rate: frames a second. codec_fingerprint: of the codec that voices'
    codes belong to. notice: what this model is, cannot do, and is licensed for. style_tags: whether tags such
    as `[whisper]` change how it speaks. english_only: whether it can say nothing else. usual: how it speaks unless
    told otherwise. slots: how many speak at once.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        device: torch.device,
        *,
        precision: Precision | None = None,
        graphs: GraphMode = "frame",
        compiled: bool = False,
        slots: int | None = None,
        queue: int = QUEUE,
        progress: Progress | None = None,
    ) -> None:
        report = progress or (lambda _stage, _done: None)
        self.name, self.device = name, str(device)
        self._profile = Profile.load(folder)
        self.notice = self._profile.notice
        self.usual = SpeakOptions(self._profile.temperature)
        header = read_header(folder)
        config = header.config
        self._precision = precision or choose_precision(device, config)
        codec_file, self._codec_config = codec_files(folder)
        plan = self._plan(config, device, slots or (CPU_SLOTS if device.type == "cpu" else GPU_SLOTS))
        report("Loading the speech model", 0.0)
        dtype = activation_dtype(self._precision, device)
        model = load_dual_ar(folder, dtype=dtype, device=device, precision=self._precision, header=header)
        _share_cores(device, config)
        if compiled:
            compile_blocks(model.slow)
            compile_blocks(model.fast)
        report("Loading the codec", 0.6)
        codec = self._codec_config
        decoder = load_codec_decoder(codec_file, codec, device)
        self.sample_rate, self.frame_length = codec.sample_rate, codec.frame_length
        self.frame_rate, self.slots = codec.frame_rate, plan.slots
        self.codec_fingerprint = codec_fingerprint(decoder)
        self.style_tags, self.english_only = self._profile.style_tags, model.tokenizer.lexicon is not None
        self._encoder = ClipEncoder(
            lambda: load_codec_encoder(codec_file, codec, device), self.codec_fingerprint, device
        )
        self._tokenizer = model.tokenizer
        self._prefixes = PrefixCache(device, _spare(device, plan), HOST_PREFIX_BYTES)
        self._runner = Runner(
            model,
            codec.quantizer.codebook_size,
            slots=plan.slots,
            positions=plan.positions,
            prefixes=self._prefixes,
            recorder=None if graphs == "off" else CudaGraphs(device) if device.type == "cuda" else TorchScripts(),
            mode=graphs,
        )
        report("Recording steps", 0.8)
        while device.type == "cpu" and self._runner.record_next():
            pass  # it takes a second; a GPU's many graphs are recorded while nobody speaks
        # A turn's last sound may still be made while another turn has its slot.
        on_gpu = device.type == "cuda" and graphs != "off"
        decoding = Decoding(decoder, 2 * plan.slots, device, CudaGraphs(device) if on_gpu else None)
        self._speaker = Speaker(
            Loop(self._runner, decoding, queue),
            decoding,
            PromptBuilder(model.tokenizer, model.config.num_codebooks),
            codec.frame_length,
            codec.sample_rate,
            self._runner.positions,
            self._profile.context_positions,
        )
        self._closed = False
        report("Ready", 1.0)

    @classmethod
    def load(
        cls,
        model: str | Path = "bundled",
        device: str = "auto",
        *,
        precision: Precision | None = None,
        graphs: GraphMode = "frame",
        compiled: bool = False,
        slots: int | None = None,
        queue: int = QUEUE,
        progress: Progress | None = None,
    ) -> "Engine":
        """Load a model.

        Args:
            model: `bundled`, a folder with a release, or a Hub id such as `fishaudio/s2-pro`.
            device: `auto` (a CUDA device where there is one), `cpu`, `cuda` or `cuda:N`.
            precision: of the speech model's weights; by default bf16 on GPUs that have it, fp16 on others; on a CPU
                fp32, or bf16 for a large model where that is faster. int8, int4 and fp8 need torchao. The codec is
                always fp32.
            graphs: what is recorded once and then repeated without Python: the whole `frame` (on a GPU as a
                CUDA graph), the `fast` AR alone, or nothing (`off`).
            compiled: whether `torch.compile` makes fewer and larger kernels of a step, on GPUs; the first steps of
                every number of rows then take long.
            slots: how many may speak at once, as far as memory goes; by default 4 on a CPU, 32 on a GPU.
            queue: how many more may wait; others are refused with EngineBusy.
            progress: called with a stage and how much of it is done, 0 to 1.

        Raises: ReleaseError or one of its kinds, such as DoesNotFit; DeviceUnavailable; InvalidOption.
        """
        chosen = choose_device(device)  # before a download that would be in vain
        if compiled and chosen.type == "cpu":
            raise InvalidOption("Compiling pays on GPUs only; leave it out on a CPU.")
        if slots is not None and slots < 1:
            raise InvalidOption(f"There cannot be {slots} slots; choose 1 or more.")
        folder = find_release(model, progress)
        return cls(
            str(model),
            folder,
            chosen,
            precision=precision,
            graphs=graphs,
            compiled=compiled,
            slots=slots,
            queue=queue,
            progress=progress,
        )

    def encode_voice(
        self,
        name: str,
        references: Sequence[tuple[bytes | str | Path, str]],
        *,
        language: str = "en",
        description: str = "",
        consent: Consent | None = None,
    ) -> EncodedVoice:
        """Make a voice from clips and their transcripts.

        Args:
            references: (clip, transcript) pairs: a file's bytes or path, and the words spoken in it. Several
                references are several speakers, `<|speaker:0|>` and on.

        Raises: UnusableReference for a clip that cannot be cloned from, InvalidInput for a missing transcript or name.
        """
        self._check_open()
        if not references:
            raise InvalidInput("Record or upload a clip of the voice first.")
        made: list[Reference] = []
        notes: list[str] = []
        for source, transcript in references:
            if not transcript.strip():
                raise InvalidInput(
                    "Type the words that are spoken in the clip; the model needs them to follow the voice."
                )
            clip = prepare_reference(source, self.sample_rate, device=self.device)
            spoken, note = transcript_for(clip, normalise(transcript))
            notes += [*clip.notes, *([note] if note else [])]
            made.append(self._reference(clip, spoken))
        voice = Voice(
            name=name,
            references=tuple(made),
            codec_fingerprint=self.codec_fingerprint,
            language=language,
            description=description,
            consent=consent,
        )
        return EncodedVoice(voice, tuple(notes))

    def reencode(self, voice: Voice) -> Voice:
        """The same voice with codes of this engine's codec, made from the kept clips.

        Raises UnusableReference when a clip was not kept.
        """
        self._check_open()
        if any(not reference.clip for reference in voice.references):
            raise UnusableReference(
                f"The voice {voice.name} belongs to another codec and its recording was not kept; make it again."
            )
        made = tuple(
            replace(r, codes=self._encoder.encode(decode_audio(r.clip, self.sample_rate, device=self.device)))
            for r in voice.references  # kept clips were prepared when the voice was made, and stay as they are
        )
        return replace(voice, references=made, codec_fingerprint=self.codec_fingerprint)

    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """What the codec keeps of a voice's clips, one behind the other: how the model hears them.

        Returns: float32 `[n]` in [-1, 1], mono, at the engine's sample rate.
        Raises InvalidCodes, UnusableReference as `reencode` does, EngineClosed, EngineFailed.
        """
        self._check_open()
        codes = [self._prompt_reference(reference).codes.numpy() for reference in self._own(voice).references]
        return decode_apart(self._speaker.decoding, np.concatenate(codes, axis=1))

    def speak(
        self,
        text: str,
        voice: Voice | Sequence[Voice] | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
    ) -> Speech:
        """Say `text`, streamed.

        Args:
            text: any length; `<|speaker:i|>` switches between the references of the voice or voices.
            voice: who speaks; None lets the model pick a voice, several voices make several speakers.
            owner: whose request it is, by any name. Owners get turns in equal shares, however many requests they have.

        Returns: an iterator of AudioChunk; its `result` says how it went.
        Raises: InvalidText, InvalidCodes, EngineClosed; EngineBusy when too many others are speaking and waiting.
        """
        self._check_open()
        options = options or self.usual
        voices = [] if voice is None else [voice] if isinstance(voice, Voice) else list(voice)
        references = [r for v in voices for r in self._own(v).references]
        segments = plan_segments(text, max_bytes=self._profile.max_segment_bytes)
        self._check_speakers([s.speaker for s in segments], len(references))
        self._check_pronounceable(text)
        seed = secrets.randbelow(MAX_SEED + 1) if options.seed is None else options.seed
        prompted = [self._prompt_reference(reference) for reference in references]
        return Speech(Request(self._speaker, segments, prompted, options, seed, owner))

    def forget(self, voice: Voice) -> None:
        """Drop what is kept of a voice so that it speaks sooner: keys and values of its prompt, codes of its clips.

        To be called when the voice is deleted. Speech under way in it goes on. A voice of another codec was never
        spoken with.
        """
        if self._closed or voice.codec_fingerprint != self.codec_fingerprint:
            return
        prompted = [self._prompt_reference(reference) for reference in voice.references]
        self._speaker.loop.forget(self._speaker.prompt.system(prompted))
        for reference in voice.references:
            self._encoder.forget(reference.codes)

    def status(self) -> EngineStatus:
        """What the engine is doing now."""
        scheduler = self._speaker.loop.scheduler
        return EngineStatus(
            speaking=scheduler.speaking,
            waiting=scheduler.waiting,
            slots=self.slots,
            graphs=self._runner.graph_state,
            precision=self._precision,
            positions=self._runner.positions,
            prefixes=self._prefixes.nbytes,
            device_memory=reserved_memory(self.device),
        )

    def release_encoder(self) -> None:
        """Free the encoder view; it comes back by itself when a voice is next encoded."""
        self._encoder.release()

    def close(self) -> None:
        """End all speech under way and free the model. Further calls raise EngineClosed."""
        if not self._closed:
            self._closed = True
            self._speaker.loop.close()
            self._encoder.release()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed()

    def _plan(self, config: DualARConfig, device: torch.device, slots: int) -> MemoryPlan:
        if self._codec_config.num_codebooks != config.num_codebooks:
            raise InvalidCheckpoint(
                f"The codec has {self._codec_config.num_codebooks} codebooks and the speech model "
                f"{config.num_codebooks}; the files do not belong together."
            )
        return plan_memory(
            config,
            self._codec_config,
            self._precision,
            available=available_memory(device),
            slots=slots,
            positions=POSITIONS,
            activations=activation_dtype(self._precision, device),
        )

    def _check_speakers(self, speakers: Sequence[int | None], known: int) -> None:
        highest = max((s for s in speakers if s is not None), default=0)
        if known and highest >= known:
            raise InvalidText(
                f"The text asks for speaker {highest}, but the voice has only speaker 0"
                + (f" to {known - 1}." if known > 1 else ".")
            )

    def _check_pronounceable(self, text: str) -> None:
        unspoken = self._tokenizer.lexicon.unspoken(text) if self._tokenizer.lexicon else []
        if unspoken:
            raise InvalidText(
                f"This model speaks English only and cannot pronounce {', '.join(unspoken[:5])}; "
                "write it in Latin letters or choose another model."
            )

    def _own(self, voice: Voice) -> Voice:
        return voice if voice.codec_fingerprint == self.codec_fingerprint else self.reencode(voice)

    def _prompt_reference(self, reference: Reference) -> PromptReference:
        codes = reference.codes
        if codes.ndim != 2 or codes.shape[0] != len(self._codec_config.codebook_sizes):
            raise InvalidCodes("The voice's codes do not have this codec's codebooks; make the voice again.")
        if any(
            int(row.max(initial=0)) >= size for row, size in zip(codes, self._codec_config.codebook_sizes, strict=True)
        ):
            raise InvalidCodes("The voice's codes are outside this codec's codebooks; make the voice again.")
        return PromptReference(reference.transcript, torch.from_numpy(codes.astype(np.int64)))

    def _reference(self, clip: Clip, transcript: str) -> Reference:
        samples = clip.samples.cpu().numpy()
        return Reference(
            transcript=transcript,
            codes=self._encoder.encode(clip.samples),
            clip=encode_audio(samples, clip.sample_rate, "flac"),
            sample_rate=clip.sample_rate,
            duration=len(samples) / clip.sample_rate,
        )


def _share_cores(device: torch.device, config: DualARConfig) -> None:
    """On a CPU frames and sound are made at the same time, each on its share of the cores.

    The products of a small model are too small to be shared out; trying takes longer than it saves.
    """
    if device.type == "cpu":
        torch.set_num_threads(1 if is_small(config) else max(1, torch.get_num_threads() // 2))


def _spare(device: torch.device, plan: MemoryPlan) -> int:
    """Bytes of the device for voices' prompts."""
    available = available_memory(device)
    return PREFIX_BYTES if available is None else max(0, min(PREFIX_BYTES, (available - plan.total) // 2))


def choose_device(device: str) -> torch.device:
    """`auto`, `cpu`, `cuda` or `cuda:N` → a device that exists. Raises DeviceUnavailable."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise DeviceUnavailable(f"There is no device {device}; use auto, cpu, cuda or cuda:N.") from None
    if chosen.type not in ("cpu", "cuda"):
        raise DeviceUnavailable(f"Reprise runs on cpu and cuda devices, not on {device}.")
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceUnavailable("There is no CUDA device here; use cpu or auto.")
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise DeviceUnavailable(
                f"There is no {device}: this machine has {torch.cuda.device_count()} CUDA device(s)."
            )
        chosen = torch.device("cuda", chosen.index or 0)
    return chosen


__all__ = ["BUNDLED", "EncodedVoice", "Engine", "EngineStatus", "SpeakOptions"]
