"""Server functions of the recorder. They are stateless: clips are uploads, whose paths only the uploader knows."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from anyio.to_thread import run_sync
from pydantic import ConfigDict, Field, Strict

from engine.audio import wav_bytes
from engine.audio.doctor import Fix, repair
from engine.errors import InvalidInput
from web.identity.addresses import client_address
from web.limits.worker_pool import WorkerPool
from web.tabs.new_voice import views
from web.tabs.new_voice.clips import MAX_WORDS, ChosenClip, chosen_clip, peaks
from web.ui.messages import error_message
from web.ui.payloads import Payload, default_if_invalid, parse_payload
from web.uploads.files import delete_upload, mark_used

if TYPE_CHECKING:
    from web.context import WebContext
    from web.ui.i18n import Texts

Answer = dict[str, Any]
QUICK = ("check_words", "keep_clips", "forget_clip")
THREADS, CAPACITY, PER_ADDRESS = 2, 16, 4  # threads; running and waiting jobs; jobs per address


class Transcript(Payload):
    """A transcript, and the seconds of speech in its clip."""

    words: Annotated[str, default_if_invalid("")] = ""
    speech_seconds: Annotated[float, Field(ge=0, lt=1_000, allow_inf_nan=False)]


class ClipPaths(Payload):
    """The uploads that a page still needs."""

    paths: Annotated[list[str], Field(max_length=100)]


class FixRequest(Payload):
    """The fix to apply to a clip."""

    model_config = ConfigDict(extra="ignore")  # fields of the clip

    fix: Annotated[Fix, Strict(False)]


class ClipServer:
    """Server functions of `clip_input`. Most take a clip in the browser's format (clips.js)."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._pool = WorkerPool(THREADS, CAPACITY, PER_ADDRESS)

    def functions(self) -> list[Callable[..., Awaitable[Answer]]]:
        """Return the functions for `clip_input`. On failure they return `{"problem": sentence}`."""
        answers = (
            self.clip_peaks,
            self.examine_clip,
            self.check_words,
            self.repair_clip,
            self.preview_codec,
            self.write_words,
            self.keep_clips,
            self.forget_clip,
        )
        return [self._function(answer) for answer in answers]

    def clip_peaks(self, value: Any, texts: Texts) -> Answer:
        """Return `seconds` and `peaks` of a clip, for browsers that cannot decode it."""
        recording = self._clip(value).recording()
        return {"seconds": len(recording.samples) / recording.sample_rate, "peaks": peaks(recording)}

    def examine_clip(self, value: Any, texts: Texts) -> Answer:
        """Return the doctor's report on the selected part, as `views.examine_part` does."""
        clip = self._clip(value)
        return views.examine_part(clip.recording(), clip.start, texts)

    def check_words(self, value: Any, texts: Texts) -> Answer:
        """Return `row`: whether the number of `words` fits `speech_seconds` seconds of speech."""
        transcript = parse_payload(Transcript, value)
        return {"row": views.compare_transcript(transcript.words[:MAX_WORDS], transcript.speech_seconds, texts)}

    def repair_clip(self, value: Any, texts: Texts) -> Answer:
        """Return `wav`: the selected part with a `fix` applied."""
        return _sound(repair(self._clip(value).audio(), [parse_payload(FixRequest, value).fix]))

    def preview_codec(self, value: Any, texts: Texts) -> Answer:
        """Return `wav`: the selected part as reconstructed by the codec."""
        engine = self._context.engine
        made = engine.encode_voice(
            "clip", [(self._clip(value).audio(), "Any words.")]
        )  # codes do not depend on the transcript
        return _sound(wav_bytes(engine.reconstruct(made.voice), engine.info.sample_rate))

    def write_words(self, value: Any, texts: Texts) -> Answer:
        """Return `words`: the transcript of the selected part."""
        return {"words": self._context.recognition.transcribe(self._clip(value).audio())}

    def keep_clips(self, value: Any, texts: Texts) -> Answer:
        """Mark the clips of an open page as used. Return `gone`: the paths of those that are deleted."""
        gone = []
        for path in parse_payload(ClipPaths, value).paths:
            try:
                self._clip({"path": path})
            except InvalidInput:
                gone.append(path)
        return {"gone": gone}

    def forget_clip(self, value: Any, texts: Texts) -> Answer:
        """Delete a clip that was removed from the list."""
        delete_upload(self._clip(value).path)
        return {}

    def _clip(self, value: Any) -> ChosenClip:
        clip = chosen_clip(value, self._context.folder)
        mark_used(clip.path)
        return clip

    def _function(self, answer: Callable[[Any, Texts], Answer]) -> Callable[..., Awaitable[Answer]]:
        """Wrap a function for Gradio. It runs on the event loop, so that clips never occupy the handlers' threads."""
        quick = answer.__name__ in QUICK

        async def ask(value: Any, request: gr.Request) -> Answer:
            texts = self._context.texts(request)
            work = partial(answer, value, texts)
            try:
                return await run_sync(work) if quick else await self._pool.run(client_address(request), work)
            except Exception as error:
                return {"problem": error_message(error, texts)}

        ask.__name__ = answer.__name__
        return ask


def _sound(wav: bytes) -> Answer:
    return {"wav": base64.b64encode(wav).decode()}
