"""What the recorder asks of the server about a clip. Nothing is kept of it: clips lie among the uploads, and whoever
knows where is whoever uploaded them."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from anyio.to_thread import run_sync
from pydantic import ConfigDict, Field, Strict

from engine.audio import wav_bytes
from engine.audio.doctor import Fix
from engine.audio.transcription import transcribe
from engine.errors import InvalidInput
from web.identity.addresses import address_of
from web.limits.pools import Pool
from web.tabs.new_voice import views
from web.tabs.new_voice.clips import MAX_WORDS, ChosenClip, chosen_clip, peaks
from web.ui.events import Sent, otherwise, parsed
from web.ui.messages import sentence_of

if TYPE_CHECKING:
    from web.context import House
    from web.ui.i18n import Words

Answer = dict[str, Any]
QUICK = ("check_words", "forget_clip")
AT_ONCE, LINE, EACH = 2, 16, 4  # clips being worked on, with those that wait, and of these from one address


class Written(Sent):
    """Words, and how many seconds of speech are said to hold them; None for what is no such number."""

    words: Annotated[str, otherwise("")] = ""
    spoken: Annotated[float | None, Field(ge=0, lt=1_000, allow_inf_nan=False), otherwise(None)] = None


class Mend(Sent):
    """What is to be mended of a clip, None for what nothing can be done about."""

    model_config = ConfigDict(extra="ignore")  # the clip itself

    fix: Annotated[Fix | None, Strict(False), otherwise(None)] = None


class ClipServer:
    """Answers of `clip_input`'s server functions: each gets a clip as the browser describes it (clips.js)."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._pool = Pool(AT_ONCE, LINE, EACH)

    def functions(self) -> list[Callable[..., Awaitable[Answer]]]:
        """For `clip_input`. A function that fails answers `{"problem": sentence}`."""
        answers = (
            self.clip_peaks,
            self.examine_clip,
            self.check_words,
            self.mend_clip,
            self.hear_back,
            self.write_words,
            self.forget_clip,
        )
        return [self._function(answer) for answer in answers]

    def clip_peaks(self, value: Any, words: Words) -> Answer:
        """seconds, peaks: of the whole file, for browsers that cannot decode it."""
        recording = self._clip(value).recording()
        return {"seconds": len(recording.samples) / recording.sample_rate, "peaks": peaks(recording)}

    def examine_clip(self, value: Any, words: Words) -> Answer:
        """verdict, light, rows, best, spoken: what the doctor finds in the chosen part."""
        clip = self._clip(value)
        found = views.examined(clip.recording(), clip.start, words)
        return {
            "verdict": words(f"doctor.verdict_{found.light}"),
            "light": found.light,
            "rows": found.rows,
            "best": found.best,
            "spoken": found.spoken,
        }

    def check_words(self, value: Any, words: Words) -> Answer:
        """row: whether `words` are about as many as `spoken` seconds of speech hold."""
        written = parsed(Written, value)
        if written.spoken is None:
            raise InvalidInput("Those are no words of a clip. Reload the page.")
        return {"row": views.compared(written.words[:MAX_WORDS], written.spoken, words)}

    def mend_clip(self, value: Any, words: Words) -> Answer:
        """wav: the chosen part with a `fix` applied."""
        return _sound(views.mended(self._clip(value).audio(), parsed(Mend, value).fix))

    def hear_back(self, value: Any, words: Words) -> Answer:
        """wav: what the codec keeps of the chosen part."""
        engine = self._house.engine
        made = engine.encode_voice("clip", [(self._clip(value).audio(), "Any words.")])  # codes know nothing of them
        return _sound(wav_bytes(engine.reconstruct(made.voice), engine.sample_rate))

    def write_words(self, value: Any, words: Words) -> Answer:
        """words: those that are heard in the chosen part."""
        return {"words": transcribe(self._clip(value).audio())}

    def forget_clip(self, value: Any, words: Words) -> Answer:
        """Deletes a clip that was taken off the list."""
        self._clip(value).forget(self._house.folder)
        return {}

    def _clip(self, value: Any) -> ChosenClip:
        return chosen_clip(value, self._house.folder)

    def _function(self, answer: Callable[[Any, Words], Answer]) -> Callable[..., Awaitable[Answer]]:
        """The answer as Gradio calls it: on the event loop, so that clips never take the threads of what is quick."""
        quick = answer.__name__ in QUICK

        async def ask(value: Any, request: gr.Request) -> Answer:
            words = self._house.words(request)
            work = partial(answer, value, words)
            try:
                return await run_sync(work) if quick else await self._pool.run(address_of(request), work)
            except Exception as error:
                return {"problem": sentence_of(error, words)}

        ask.__name__ = answer.__name__
        return ask


def _sound(wav: bytes) -> Answer:
    return {"wav": base64.b64encode(wav).decode()}
