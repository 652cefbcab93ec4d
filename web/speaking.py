"""Speaking as a Gradio event: a generator of messages to the player, so that queueing and cancelling hold.

Messages, all with the page's `ticket`, a running `number`, and `status`, a sentence for the page:

    start   rate (Hz), expected (seconds, a guess from the text)
    chunk   start (sample), pcm (base64 of 16-bit little-endian samples)
    end     total (samples), stop_reason ("end", "length", "cancelled", None after an error),
            wav (the finished file or None), problem (whether the status is an error)
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.engine import SpeakOptions
from engine.errors import InvalidInput, InvalidOption
from web import sentences
from web.owners import owner_of
from web.running import Running
from web.take import Take

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.speech import Speech
    from storage import VoiceLibrary

CHARACTERS_PER_SECOND = 14.0  # of English read aloud
Message = dict[str, Any]


class Speaking:
    """The events of Speak and Stop. Values come as the browser sent them, so each is checked."""

    def __init__(self, engine: Engine, library: VoiceLibrary, folder: str | Path) -> None:
        """`folder`: where finished takes are written for the browser to fetch."""
        self._engine = engine
        self._library = library
        self._folder = folder
        self._running = Running()

    def speak(
        self,
        text: Any,
        voice_id: Any,
        seed: Any,
        temperature: Any,
        top_p: Any,
        top_k: Any,
        ticket: Any,
        request: gr.Request,
    ) -> Iterator[Message]:
        """Messages of one take. Never raises: an error is the sentence of the last message."""
        take = Take(self._engine.sample_rate)
        settings = (seed, temperature, top_p, top_k)
        number = 0
        try:
            with closing(self._messages(take, text, voice_id, settings, ticket, request)) as messages:
                for number, message in enumerate(messages):
                    yield {"ticket": ticket, "number": number, **message}
        except Exception as error:
            status = sentences.sentence_of(error)
            if take.length:
                status += f" What was spoken is kept: {take.seconds:.1f} s."
            end = self._end(take, status, stop_reason=None, problem=True)
            yield {"ticket": ticket, "number": number + 1, **end}

    def stop(self, event: gr.EventData) -> None:
        """Ends the take whose ticket the page sends; the take's own event then says so."""
        self._running.stop(str(event.ticket))

    def _messages(
        self, take: Take, text: Any, voice_id: Any, values: tuple[Any, ...], ticket: Any, request: gr.Request
    ) -> Generator[Message, None, None]:
        if not isinstance(ticket, str) or not ticket:
            raise InvalidInput("The page is out of step with the server. Reload it.")
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("There is nothing to say yet. Write a sentence first.")
        if not isinstance(voice_id, str) or not voice_id:
            raise InvalidInput("Pick a voice first, or make a new one.")
        options = speak_options(*values)
        with self._running.ticket(ticket):
            expected = max(1.0, len(text) / CHARACTERS_PER_SECOND)
            yield {
                "kind": "start",
                "rate": take.sample_rate,
                "expected": expected,
                "status": "Getting ready …",
            }
            engine = self._engine
            voice = self._library.ready(voice_id, engine.codec_fingerprint, engine.reencode, owner=owner_of(request))
            with closing(engine.speak(text, voice, options)) as speech:
                self._running.began(ticket, speech)
                yield from self._speech(take, speech, voice.name)

    def _speech(self, take: Take, speech: Speech, name: str) -> Iterator[Message]:
        for chunk in speech:
            samples = take.add(chunk)
            pcm = base64.b64encode(samples.astype("<i2").tobytes()).decode()
            status = sentences.progress(chunk, take.seconds)
            yield {"kind": "chunk", "start": take.length - len(samples), "pcm": pcm, "status": status}
        result = speech.result
        assert result is not None, "a speech that ended has a result"
        yield self._end(take, sentences.ending(result), result.stop_reason, name=name)

    def _end(
        self, take: Take, status: str, stop_reason: str | None, *, name: str = "", problem: bool = False
    ) -> Message:
        wav = self._finished_file(take, name) if take.length else None
        end = {"stop_reason": stop_reason, "total": take.length, "wav": wav, "problem": problem}
        return {"kind": "end", "status": status, **end}

    def _finished_file(self, take: Take, name: str) -> dict[str, Any]:
        """The take as a WAV where Gradio's `delete_cache` finds it, under a path that nobody can guess."""
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(dir=folder)) / f"{file_name(name)}.wav"
        path.write_bytes(take.encode("wav"))
        return gr.FileData(path=str(path), orig_name=path.name).model_dump()


def file_name(name: str) -> str:
    """A voice's name as a file's, without what some system or browser would refuse."""
    kept = "".join(letter if letter.isalnum() or letter in " -_" else "_" for letter in name)
    return kept.strip()[:40] or "take"


def speak_options(seed: Any, temperature: Any, top_p: Any, top_k: Any) -> SpeakOptions:
    """The page's settings; a seed of None is one at random. Raises InvalidOption."""
    try:
        whole = int(seed) if str(seed or "").strip() else None
        values = float(temperature), float(top_p), int(top_k)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidOption("The seed is a whole number, or empty for a new one each time.") from error
    return SpeakOptions(*values, seed=whole)
