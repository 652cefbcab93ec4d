"""Speak a text with LiveKit's unmodified OpenAI plugin. Prints seconds and loudness as JSON.

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
    results = {}
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
    print(json.dumps(results))


asyncio.run(main(*sys.argv[1:]))
