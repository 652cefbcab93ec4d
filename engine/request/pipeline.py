"""The parts of an engine that requests go through."""

from dataclasses import dataclass

from engine.families.family import Aligner, Prompts, PromptVoice
from engine.serving.codec_worker import CodecWorker
from engine.serving.engine_loop import EngineLoop


@dataclass(frozen=True)
class SpeechPipeline:
    """The parts of an engine that a request goes through, and their sizes.

    positions: maximum for a prompt and its speech together. context_positions: maximum of these for earlier turns.
    aligner: finds word times; None for a model without them.
    """

    loop: EngineLoop
    codec_worker: CodecWorker
    prompts: Prompts
    frame_length: int
    sample_rate: int
    positions: int
    context_positions: int
    aligner: Aligner | None = None

    @property
    def frame_rate(self) -> float:
        return self.sample_rate / self.frame_length

    def prepare(self, voice: PromptVoice) -> None:
        """Compute in advance what the caches are to hold of a voice's prompts."""
        for prefix in self.prompts.prefixes(voice):
            if prefix.columns.shape[1] + 1 < self.positions:
                self.loop.prepare(prefix)

    def forget(self, voice: PromptVoice) -> None:
        """Drop what the caches hold of a voice's prompts."""
        for prefix in self.prompts.prefixes(voice):
            self.loop.forget(prefix)
