"""Speak a text with Pipecat's unmodified OpenAI service in a pipeline. Prints seconds, loudness and errors as JSON.

pipecat_agent.py BASE_URL TEXT
"""

import asyncio
import json
import sys

import numpy as np
from pipecat.frames.frames import EndFrame, ErrorFrame, Frame, TTSAudioRawFrame, TTSSpeakFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.workers.runner import WorkerRunner


class Listener(FrameProcessor):  # type: ignore[misc]  # of a package without types
    """Records the audio that reaches the end of the pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.audio: list[TTSAudioRawFrame] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.audio.append(frame)
        await self.push_frame(frame, direction)


async def main(base_url: str, text: str) -> None:
    service = OpenAITTSService(
        api_key="not-needed", base_url=base_url, settings=OpenAITTSService.Settings(voice="alloy", model="tts-1")
    )
    listener = Listener()
    worker = PipelineWorker(Pipeline([service, listener]))
    errors: list[str] = []

    async def on_error(_worker: PipelineWorker, frame: ErrorFrame) -> None:
        errors.append(frame.error)

    worker.add_event_handler("on_pipeline_error", on_error)  # errors do not reach the end of the pipeline
    await worker.queue_frames([TTSSpeakFrame(text), EndFrame()])
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()
    samples = np.frombuffer(b"".join(frame.audio for frame in listener.audio), np.int16)
    rate = listener.audio[0].sample_rate if listener.audio else 1
    loudness = float(np.sqrt(np.mean(np.square(samples / 32768)))) if len(samples) else 0.0
    print(json.dumps({"seconds": len(samples) / rate, "loudness": loudness, "errors": errors}))


asyncio.run(main(*sys.argv[1:]))
