"""The engine: a loaded model that clones voices and speaks."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from engine.codec.postfilter import Postfilter
from engine.conditioning import VoiceConditioner
from engine.errors import EngineClosed, InvalidCodes, InvalidInput, InvalidOption, InvalidText
from engine.families.registry import read_release
from engine.info import EngineInfo, EngineStatus
from engine.messages import UserMessage
from engine.models.quantization import Precision
from engine.options import DEFAULT_OPTIONS, QUEUE, LoadOptions, SpeakOptions
from engine.outputs import SpokenSegment
from engine.release.hub import LoadingProgress, find_release
from engine.request.pipeline import SpeechPipeline
from engine.request.speech import Request, Speech
from engine.serving.batch_decoder import ROWS_PER_SLOT
from engine.serving.codec_worker import CodecWorker
from engine.serving.device import (
    available_memory,
    choose_device,
    note_gpu_user,
    on_device,
    prepare_device,
    release_memory,
    reserved_memory,
    without_torch_modes,
)
from engine.serving.engine_loop import EngineLoop
from engine.serving.loading import load_decoder, load_speech_model
from engine.serving.memory import (
    MemoryPlan,
    activation_dtype,
    choose_precision,
    held_bytes,
    host_prefix_bytes,
    plan_memory,
    prefix_bytes,
)
from engine.serving.runner.graphs import CudaGraphCapture, GraphCapture
from engine.serving.runner.model_runner import ModelRunner
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.step_runners import GraphMode
from engine.serving.runner.traces import TorchScriptCapture
from engine.serving.warm_up import warm_up
from engine.text import GrowingText, Segment, Segmentation, check_speakers
from engine.text.ssml import plain_text
from engine.text.tags import style_tag
from engine.voice import BuiltInVoice, Consent, EncodedVoice, Voice

log = logging.getLogger(__name__)

# Default numbers of slots: what a small CPU serves faster than real time, and a good batch size for a GPU.
CPU_SLOTS, GPU_SLOTS = 4, 32
# Requested positions of a slot: enough for a voice of 30 s and three minutes of speech.
POSITIONS = 4096


class Engine:
    """A loaded model. Created by `load`; thread-safe; a context manager that closes itself.

    info: its properties; `slots` is fewer than requested if memory is short. precision: of the speech model's weights.
    """

    @without_torch_modes
    def __init__(
        self,
        name: str,
        folder: Path,
        device: torch.device,
        options: LoadOptions = DEFAULT_OPTIONS,
        *,
        progress: LoadingProgress | None = None,
        start: bool = True,
    ) -> None:
        report = progress or (lambda _stage, _done: None)
        prepare_device(device)
        note_gpu_user(self)
        release = read_release(folder)
        self._profile = release.profile
        architecture, self._codec_config = release.architecture.on(device), release.architecture.codec
        self.precision = options.precision or choose_precision(device, architecture)
        self._architecture, self._options = architecture, options
        self._slots = options.slots or (CPU_SLOTS if device.type == "cpu" else GPU_SLOTS)
        plan = self._plan_memory(device) if start else None
        report("Loading the speech model", 0.0)
        self._model, unfused = load_speech_model(release, device, self.precision, compiled=options.compiled)
        report("Loading the codec", 0.6)
        self._decoder, also_unfused = load_decoder(release, device, has_gpu=device.type == "cuda" and start)
        self._unfused_reasons = unfused + also_unfused  # why fused kernels are off on a device that supports them
        self.info = EngineInfo(
            name=name,
            device=str(device),
            notice=UserMessage(self._profile.notice),
            sample_rate=self._codec_config.sample_rate,
            frame_length=self._codec_config.frame_length,
            slots=self._slots,
            codec_fingerprint=release.fingerprint(self._decoder),
            default_options=SpeakOptions(self._profile.temperature, self._profile.top_p, self._profile.top_k),
            style_tags=self._profile.style_tags,
            capabilities=release.capabilities,
        )
        self._conditioner = VoiceConditioner(release, self.info.codec_fingerprint, device)
        self._prompts, self._aligner = release.prompts, release.aligner(self._model)
        self._closed = self._started = False
        self._starting = threading.Lock()
        if plan is not None:
            self._start(plan, device, report)
        try:
            report("Ready", 1.0)
        except BaseException:  # the caller's: nobody else could close the engine
            self.close()
            raise

    @without_torch_modes
    def start(self) -> None:
        """Start serving after `load(start=False)`, in this process or in one forked from it. Raises EngineClosed."""
        device = torch.device(self.info.device)
        with self._starting, on_device(device):
            self._check_open()
            if not self._started:
                self._start(self._plan_memory(device, self._weight_bytes()), device, lambda _stage, _done: None)

    def _start(self, plan: MemoryPlan, device: torch.device, report: LoadingProgress) -> None:
        """Create the slots, the caches, the workers and their threads."""
        graphs, codec, decoder = self._options.graphs, self._codec_config, self._decoder
        if device.type == "cuda":
            report("Warming up", 0.75)
            measured = warm_up(self._model, decoder, codec.codebook_sizes[-1], plan.slots)
            release_memory()  # of the default stream, which threads with their own streams cannot use
            plan = self._plan_memory(device, self._weight_bytes(), measured)
        if plan.slots < self._slots:
            log.warning("Only %d of %d slots fit into the free memory.", plan.slots, self._slots)
        self.info = replace(self.info, slots=plan.slots)
        self._prefixes = PrefixCache(device, prefix_bytes(device, plan, self._weight_bytes()), host_prefix_bytes())
        self._runner = ModelRunner(
            self._model,
            codec.codebook_sizes[-1],
            slots=plan.slots,
            positions=plan.positions,
            prefixes=self._prefixes,
            capture=None if graphs == "off" else _graph_capture(device),
            mode=graphs,
            deterministic=self._options.deterministic,
        )
        report("Capturing graphs", 0.8)
        while device.type == "cpu" and self._runner.capture_next():
            pass  # takes a second; a GPU's many graphs are captured while the engine is idle
        on_gpu = device.type == "cuda" and graphs != "off"
        codec_capture = CudaGraphCapture(device) if on_gpu else None
        postfilter = Postfilter(codec.sample_rate, codec.frame_length) if self._profile.postfilter else None
        codec_worker = CodecWorker(decoder, ROWS_PER_SLOT * plan.slots, device, codec_capture, plan.slots, postfilter)
        self._pipeline = SpeechPipeline(
            EngineLoop(self._runner, codec_worker, self._options.queue),
            codec_worker,
            self._prompts,
            codec.frame_length,
            codec.sample_rate,
            self._runner.positions,
            self._profile.context_positions,
            self._aligner,
        )
        note_gpu_user(self._pipeline.loop)
        self._conditioner.start(self._pipeline, postfilter)
        self._started = True

    @classmethod
    def load(
        cls,
        model: str | Path = "bundled",
        device: str = "auto",
        *,
        precision: Precision | None = None,
        graphs: GraphMode = "frame",
        compiled: bool = False,
        deterministic: bool = False,
        slots: int | None = None,
        queue: int = QUEUE,
        progress: LoadingProgress | None = None,
        start: bool = True,
    ) -> "Engine":
        """Load a model.

        Args:
            model: `bundled`, a folder with a release, or a Hub id such as `fishaudio/s2-pro`; see `find_release`.
            device: `auto` (a CUDA device if there is one), `cpu`, `cuda` or `cuda:N`.
            precision: of the speech model's weights; by default bf16 on GPUs that support it, fp16 on others (fp32
                for a model that does not fit fp16); on a CPU fp32, or int8 for a large model. On a GPU int8, int4 and
                fp8 need torchao. The codec is always fp32.
            graphs: what is captured as a graph and replayed without Python: the whole `frame`, the `fast` AR alone, or
                nothing (`off`). CUDA graphs on a GPU, TorchScript traces on a CPU.
            compiled: whether to compile the transformer blocks with `torch.compile`, on GPUs; the first steps of every
                batch size are then slow.
            deterministic: whether a seed gives the same codes regardless of concurrent requests, on a GPU and in every
                precision too. Each request's frames are then computed alone: the more requests, the slower.
            slots: maximum number of requests that speak at once, up to 256, fewer if memory is short; by default 4 on
                a CPU, 32 on a GPU.
            queue: maximum number of requests that wait; further ones raise EngineBusy.
            progress: called with a stage and its progress, 0 to 1.
            start: False loads only the weights; call `start` to serve. Until then `speak`, `reconstruct` and `status`
                raise EngineClosed.

        Raises: ReleaseError or a subclass such as DoesNotFit; DeviceUnavailable; InvalidOption.
        """
        chosen = choose_device(device)  # before the download, which would be wasted on an unavailable device
        if compiled and chosen.type == "cpu":
            raise InvalidOption("option.compile")
        options = LoadOptions(precision, graphs, compiled, deterministic, slots, queue)
        folder = find_release(model, progress)
        with on_device(chosen):
            return cls(str(model), folder, chosen, options, progress=progress, start=start)

    @without_torch_modes
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
            references: (clip, transcript) pairs: a file's bytes or path, and the words spoken in it. Each reference is
                a separate speaker, numbered from `<|speaker:0|>`.

        A model that needs no transcript clones a clip without one from its speaker embedding alone. A model that speaks
        described voices can encode a sample that it has spoken, for models that clone.

        Raises: UnusableReference for a clip that cannot be cloned from; InvalidInput for a missing transcript or name,
        or for a model that does not clone.
        """
        self._check_open()
        made, notes = self._conditioner.encode(references)
        voice = Voice(
            name=name,
            references=made,
            codec_fingerprint=self.info.codec_fingerprint,
            language=language,
            description=description,
            consent=consent,
        )
        return EncodedVoice(voice, notes)

    @without_torch_modes
    def reencode(self, voice: Voice) -> Voice:
        """Encode a voice's clips again with this engine's codec. Raises UnusableReference when a clip was not kept."""
        self._check_open()
        return self._conditioner.reencode(voice)

    @without_torch_modes
    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """Decode a voice's codes, one reference after the other: the voice as encoded.

        Returns: float32 `[n]` in [-1, 1], mono, at the engine's sample rate.
        Raises InvalidCodes, UnusableReference as `reencode` does, EngineClosed, EngineFailed.
        """
        self._check_open()
        self._check_started()
        voice = self._conditioner.with_own_codes(voice)
        codes = [self._conditioner.checked_codes(reference.codes) for reference in voice.references]
        return self._pipeline.codec_worker.decode(np.concatenate(codes, axis=1))

    @without_torch_modes
    def speak(
        self,
        text: str | GrowingText | Sequence[Segment],
        voice: Voice | Sequence[Voice] | BuiltInVoice | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
        spoken: Sequence[SpokenSegment] = (),
    ) -> Speech:
        """Speak `text` as a stream.

        Args:
            text: any length; `<|speaker:i|>` switches between the references of the voice or voices. Or a text from
                `growing_text`, spoken while it grows; or segments.
            voice: one voice; several, for several speakers; one of the model's own; or None to let the model pick one.
            owner: name of the request's owner. Owners get equal shares of the turns, however many requests they have.
            spoken: the first segments, already spoken by another engine with this model (`Speech.spoken`). The speech
                begins after them; with the same seed it has the same codes as if it had spoken them itself, and
                the codec's state after them is restored from their last frames. Not with a growing text.

        Returns: an iterator of AudioChunk; its `result` is set at the end.
        Raises: InvalidInput or a subclass such as InvalidText; EngineClosed; EngineBusy when slots and queue are full;
        TypeError for arguments of other types.
        """
        self._check_open()
        self._check_started()
        _check_types(text, options, spoken)
        options = (options or self.info.default_options).seeded()
        assert options.seed is not None
        if options.word_times and not self.info.capabilities.word_times:
            raise InvalidOption("option.word_times")
        references = self._conditioner.references(voice)
        prompted = self._conditioner.prompt_voice(voice, references, options.language)
        if self.info.style_tags:
            prompted = replace(prompted, style=style_tag(options.style))
        segments = self.segments(text, len(prompted.references)) if isinstance(text, str) else text
        if not isinstance(segments, GrowingText) and len(spoken) > len(segments):
            raise InvalidInput("text.many_spoken", spoken=len(spoken), count=len(segments))
        for segment in spoken:
            self._check_codes(segment.codes)
        return Speech(
            Request(
                self._pipeline,
                segments,
                prompted,
                options,
                options.seed,
                owner,
                spoken,
                word_times=options.word_times,
                adapt=self._conditioner.adapter(references),
            )
        )

    def growing_text(self) -> GrowingText:
        """Create a text that is spoken while it is written, for one call of `speak`."""
        return GrowingText(self.segmentation, self.check_speakable)

    @property
    def segmentation(self) -> Segmentation:
        """How texts are split into segments for this model."""
        return replace(self._profile.segmentation, size=self._prompts.text_size)

    def segments(self, text: str, speakers: int) -> list[Segment]:
        """Split a text for `speakers` speakers into segments. Raises InvalidText."""
        text = plain_text(text)
        segments = self.segmentation.plan(text)
        check_speakers(segments, speakers)
        self.check_speakable(text)
        # Such as the letter ʼ, which is read as an apostrophe. The first segments of a long text tell.
        if all(self._prompts.count_phones(segment.text) == 0 for segment in segments):
            raise InvalidText("text.no_words")
        return segments

    def check_speakable(self, text: str) -> None:
        """Raise InvalidText for words that the model cannot speak."""
        unpronounceable = self._prompts.unpronounceable(text)
        if unpronounceable:
            raise InvalidText("text.not_english", words=[word[:40] for word in unpronounceable[:5]])

    @without_torch_modes
    def prepare(self, voice: Voice) -> None:
        """Begin in the background what the first speech in a voice waits for otherwise. Ignores errors.

        That is its prompt's keys and values, computed while no request is open if the model has no speaker encoder, and
        the adaptations to its clips.
        """
        if not self._closed:
            self._conditioner.prepare(voice)

    @without_torch_modes
    def forget(self, voice: Voice) -> None:
        """Drop the cached data of a deleted voice: its prompt's keys and values, its clips' codes, embeddings and
        adaptations.

        Requests in progress continue; what they cache is dropped when they end. A voice of another codec has no cached
        data.
        """
        if not self._closed:
            self._conditioner.forget(voice)

    def status(self) -> EngineStatus:
        """Return the current state of the engine. Raises EngineClosed before `start`."""
        self._check_started()
        scheduler = self._pipeline.loop.scheduler
        graphs = (self._runner.graph_state, self._pipeline.codec_worker.graph_failure, *self._unfused_reasons[:1])
        return EngineStatus(
            speaking=scheduler.speaking,
            waiting=scheduler.waiting,
            slots=self.info.slots,
            graphs="; ".join(filter(None, graphs)),
            precision=self.precision,
            positions=self._runner.positions,
            prefix_cache_bytes=self._prefixes.nbytes,
            device_memory=reserved_memory(self.info.device),
        )

    @property
    def failure(self) -> EngineClosed | None:
        """The error of a closed engine, or of one that has stopped because of an error; None otherwise."""
        stopped = self._started and not self._pipeline.loop.is_running
        return EngineClosed() if self._closed or stopped else None

    def close(self) -> None:
        """End all requests and threads, and free the encoders. `speak` and voice methods then raise EngineClosed."""
        with self._starting:
            was_closed, self._closed = self._closed, True
        if not was_closed:
            if self._started:
                self._pipeline.loop.close()
            self._conditioner.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if (failure := self.failure) is not None:
            raise failure

    def _check_started(self) -> None:
        if not self._started:
            raise EngineClosed()

    def _check_codes(self, codes: NDArray[np.int64]) -> None:
        """Raise InvalidCodes for a spoken segment's codes that are not of this codec. They are empty if it has none."""
        sizes = np.array(self._codec_config.codebook_sizes)[:, None]
        if codes.size and (codes.ndim != 2 or len(codes) != len(sizes) or ((codes < 0) | (codes >= sizes)).any()):
            raise InvalidCodes("text.spoken_codes")

    def _weight_bytes(self) -> int:
        """Return the bytes of the weights on the device."""
        return sum(map(held_bytes, (self._model.slow, self._model.fast, self._decoder)))

    def _plan_memory(self, device: torch.device, loaded: int = 0, measured: int | None = None) -> MemoryPlan:
        """loaded: bytes of weights that are already on the device. measured: see `plan_memory`."""
        available = available_memory(device)
        return plan_memory(
            self._architecture,
            self.precision,
            available=None if available is None else available + loaded,
            slots=self._slots,
            positions=POSITIONS,
            activations=activation_dtype(self.precision, device),
            measured=measured,
            refuses=device.type != "cpu",
        )


def _check_types(text: object, options: object, spoken: Sequence[SpokenSegment]) -> None:
    """Raise TypeError for a text or options that `Engine.speak` does not take."""
    if spoken and isinstance(text, GrowingText):
        raise TypeError("spoken segments belong to a str or segments, not to a GrowingText")
    if options is not None and not isinstance(options, SpeakOptions):
        raise TypeError(f"options are SpeakOptions, not {type(options).__name__}")
    if isinstance(text, str | GrowingText):
        return
    if not isinstance(text, Sequence) or not all(isinstance(each, Segment) for each in text):
        raise TypeError(f"a text is a str, a GrowingText or segments, not {type(text).__name__}")


def _graph_capture(device: torch.device) -> GraphCapture:
    if device.type == "cuda":
        return CudaGraphCapture(device, urgent=True)
    return TorchScriptCapture()
