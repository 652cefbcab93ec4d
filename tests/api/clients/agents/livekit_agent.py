"""Speak a text with LiveKit's unmodified OpenAI plugin, and recognise it. Prints seconds, loudness, words and their
language as JSON.

livekit_agent.py BASE_URL TEXT
"""

import asyncio
import json
import sys

import numpy as np
from livekit.agents.utils import http_context
from livekit.plugins import openai


async def main(base_url: str, text: str) -> None:
    http_context._new_session_ctx()
    results: dict[str, object] = {}
    for model in (
        "tts-1",
        "gpt-4o-mini-tts",
    ):  # the plugin requests audio from the first, server-sent events from the second
        service = openai.TTS(model=model, voice="alloy", base_url=base_url, api_key="not-needed")
        frames = [event.frame async for event in service.synthesize(text)]
        samples = np.concatenate([np.frombuffer(frame.data, np.int16) for frame in frames])
        loudness = float(np.sqrt(np.mean(np.square(samples / 32768))))
        results[model] = {"seconds": len(samples) / frames[0].sample_rate, "loudness": loudness}
        await service.aclose()
    for model in ("whisper-1", "gpt-4o-transcribe"):  # it requests `verbose_json` from the first
        recogniser = openai.STT(model=model, detect_language=True, base_url=base_url, api_key="not-needed")
        (heard,) = (await recogniser.recognize(frames)).alternatives
        results[model] = [heard.text, heard.language]
        await recogniser.aclose()
    print(json.dumps(results))


asyncio.run(main(*sys.argv[1:]))
