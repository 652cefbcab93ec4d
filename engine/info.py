"""Descriptions of an engine: the properties of its model, and its current state."""

from dataclasses import dataclass

from engine.families.family import Capabilities
from engine.messages import UserMessage
from engine.models.quantization import Precision
from engine.options import SpeakOptions


@dataclass(frozen=True)
class EngineInfo:
    """Properties of a loaded model.

    name: the model as given to `Engine.load`. device: such as `cpu` or `cuda:0`. notice: description, limits and
    licence of the model. sample_rate: of the audio, in Hz. frame_length: samples per frame. slots: maximum number of
    requests that speak at once. codec_fingerprint: identifies the codec; a voice's codes are valid for one codec only.
    default_options: of the release. style_tags: whether tags such as `[whisper]` have an effect. capabilities: what the
    model can do besides speaking.
    """

    name: str
    device: str
    notice: UserMessage
    sample_rate: int
    frame_length: int
    slots: int
    codec_fingerprint: str
    default_options: SpeakOptions
    style_tags: bool
    capabilities: Capabilities

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.frame_length


@dataclass(frozen=True)
class EngineStatus:
    """State of the engine.

    speaking, waiting: numbers of requests. slots: maximum number of requests that speak at once. graphs: what is
    captured (`frame`, `fast`) and how many sizes failed, or `off` and why; also why fused kernels are off where they
    are supported. precision: of the speech model's weights. positions: of a slot, prompt and speech together.
    prefix_cache_bytes: on the device and in host memory. device_memory: bytes of GPU memory that PyTorch has
    reserved; None on a CPU.
    """

    speaking: int
    waiting: int
    slots: int
    graphs: str
    precision: Precision
    positions: int
    prefix_cache_bytes: tuple[int, int]
    device_memory: int | None
