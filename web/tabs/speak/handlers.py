"""Handlers of the Speak tab. Speaking is a generator of messages to the player, so that it can be queued and cancelled.

All messages have the page's `ticket`, a sequence `number`, and `status`, a sentence for the page:

    start   rate (Hz), expected (seconds, estimated from the text), facts (text and voice, for details.js),
            take (the id under which it will be saved)
    wait    while the take waits for its turn (added by `web.tabs.speak.streaming`)
    chunk   start (sample), pcm (base64 of 16-bit little-endian samples), words (the next words of the text, as
            `TimedWord`)
    end     total (samples), stop_reason ("end", "short", "length", "cancelled", None after an error),
            take (id of the saved take, or None), wav (None, or its `url`, a link that expires, `name`, `tags`, and
            whether the file is `marked` with a watermark; the chunks are not),
            problem (whether the status is an error), unspeakable (true if the text is the reason),
            facts (further details if the take was saved)

New links to a sound's files (`renew_links`) are a message with its `id` and `links` only.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import EngineBusy, InvalidInput, InvalidOption, InvalidText, RepriseError
from engine.options import MAX_SEED, SpeakOptions
from engine.text import MAX_PAUSE, speaking_time
from engine.text.ssml import plain_text
from storage.errors import VoiceNotFound
from storage.repositories.takes import MAX_TEXT
from storage.validation import new_id
from studio.files.file_names import take_file_name
from studio.provenance.provenance import Provenance, public_name
from studio.takes.requests import TakeRequest, UnfinishedTake
from studio.takes.settings import FASTEST, SLOWEST
from studio.tracebacks import describe_error
from web.downloads.sounds import sound_facts, sound_links
from web.tabs.speak.settings import NAMES
from web.tabs.speak.views import LINK_SECONDS, voice_card_view, writing_hints
from web.ui import messages
from web.ui.events import skip_on_error
from web.ui.payloads import (
    Id,
    Payload,
    SelectedId,
    ShortText,
    SoundId,
    Ticket,
    UnexpectedPayload,
    default_if_invalid,
    parse_payload,
)
from web.ui.voice_picker import SelectedVoice, require_voice

if TYPE_CHECKING:
    from engine.outputs import SpeechResult
    from storage.repositories.takes import TakeRecord, TimedWord
    from studio.engines.measured_speech import MeasuredSpeech
    from studio.engines.model_manager import ModelManager
    from studio.takes.buffer import TakeBuffer
    from studio.takes.running import RunningTake, TakeStop
    from web.context import WebContext
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

log = logging.getLogger(__name__)

Message = dict[str, Any]
MAX_TAKES = 4  # takes of a text at once


class SpeakForm(Payload):
    """The inputs of the Speak tab. `parse_options` checks the settings.

    language: a tag, or "". model: the one that temperature, top-p and top-k were set for.
    """

    text: str | None
    voice: SelectedId
    seed: ShortText | int | None
    temperature: float
    top_p: float
    top_k: Annotated[float, Field(allow_inf_nan=False)]
    paragraph_pause: Annotated[float, Field(ge=0, le=MAX_PAUSE, allow_inf_nan=False)]
    speed: Annotated[float, Field(ge=SLOWEST, le=FASTEST)]
    language: ShortText
    model: ShortText


class RepeatedTake(Payload):
    """A take to generate again, with the same seed if `same`."""

    id: Id
    same: bool
    ticket: Ticket


class FurtherTakes(Payload):
    """The tickets of further takes of the same text."""

    tickets: Annotated[list[Ticket], Field(min_length=1, max_length=MAX_TAKES - 1)]


class Stop(Payload):
    """How takes are stopped. unheard: as `TakeStop`."""

    unheard: bool = False

    @property
    def reason(self) -> TakeStop:
        return "unheard" if self.unheard else "cancelled"


class StoppedTakes(FurtherTakes, Stop):
    """Further takes to stop."""


class TakeTicket(Payload):
    """The ticket of a take, None for an invalid one."""

    ticket: Annotated[Ticket | None, default_if_invalid(None)]


class StoppedTake(TakeTicket, Stop):
    """A take to stop."""


class PlayedSound(Payload):
    """A sound of the player."""

    id: SoundId


@dataclass(frozen=True)
class PendingTake:
    """A take being generated, with the data needed to save it. deletion_token: as for `TakeStore.save`."""

    id: str
    deletion_token: str
    owner: Owner
    take: UnfinishedTake
    running: RunningTake


class SpeakHandlers:
    """Event handlers of the Speak tab, except those of the list of takes."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    @skip_on_error(2)
    def show_voice(self, voice_id: Any, token: Any, request: gr.Request) -> tuple[Any, Any]:
        """Outputs: voice card (None if no voice is selected), hints below the text."""
        owner, voice = self._context.owner(token, request), None
        with suppress(VoiceNotFound):
            selected = parse_payload(SelectedVoice, voice=voice_id).voice
            voice = self._context.voices.get(selected, owner=owner.key)
            self._context.prepare_voice(selected, owner.key)
        card = voice_card_view(voice, owner, self._context.links, self._context.texts(request)) if voice else None
        return card, writing_hints(self._context.engine, voice)

    def speak(self, request: gr.Request, *inputs: Any) -> Generator[Message, None, None]:
        """Yield the messages of one take. Never raises: errors become the status of the last message.

        inputs: those of `parse_request`, the owner's token, and the ticket.
        """
        *form, token, ticket = inputs

        def take_request(_owner: str, texts: Texts) -> TakeRequest:
            return parse_request(form, self._context.engine, texts)

        own = parse_payload(TakeTicket, ticket=ticket).ticket
        yield from self._numbered(own, self._generate(take_request, token, own, request))

    def speak_more(self, request: gr.Request, event: gr.EventData, *inputs: Any) -> list[tuple[str, Iterator[Message]]]:
        """Return the tickets and messages of further takes of a text, each with its own seed.

        inputs: those of `parse_request`, and the owner's token.
        A given seed is used for the first take; further takes use the following seeds. Empty for an unexpected payload.
        """
        try:
            tickets = parse_payload(FurtherTakes, event).tickets
        except UnexpectedPayload:
            return []
        *form, token = inputs

        def asked(number: int) -> Callable[[str, Texts], TakeRequest]:
            def take_request(_owner: str, texts: Texts) -> TakeRequest:
                request = parse_request(form, self._context.engine, texts)
                if (seed := request.options.seed) is None:
                    return request
                return replace(request, options=replace(request.options, seed=(seed + number) % (MAX_SEED + 1)))

            return take_request

        return [
            (ticket, self._generate(asked(number), token, ticket, request)) for number, ticket in enumerate(tickets, 1)
        ]

    def stop_more(self, event: gr.EventData) -> None:
        """Stop further takes."""
        with suppress(UnexpectedPayload):
            stopped = parse_payload(StoppedTakes, event)
            for ticket in stopped.tickets:
                self._context.running.stop(ticket, stopped.reason)

    def speak_again(self, token: Any, request: gr.Request, event: gr.EventData) -> Generator[Message, None, None]:
        """As `speak`, with the text, voice and settings of take `id`, and its seed if `same`, else a new one."""
        repeated = _repeated_take(event)

        def take_request(owner: str, texts: Texts) -> TakeRequest:
            assert repeated is not None, "a take without a ticket is refused before"
            kept = self._context.takes.get(repeated.id, owner=owner)
            require_voice(kept.voice_id, texts)
            return TakeRequest.again(kept, kept.seed if repeated.same else None)

        ticket = repeated.ticket if repeated else None
        yield from self._numbered(ticket, self._generate(take_request, token, ticket, request))

    def stop(self, event: gr.EventData) -> None:
        """Stop the take with the page's ticket. Its generator then ends with its last message."""
        with suppress(UnexpectedPayload):  # no running take has an invalid ticket
            stopped = parse_payload(StoppedTake, event)
            self._context.running.stop(stopped.ticket or "", stopped.reason)

    @skip_on_error(1)
    def renew_links(self, token: Any, request: gr.Request, event: gr.EventData) -> Any:
        """Output: player, with new links to a sound's files. Whether it exists is checked when they are followed."""
        owner, sound = self._context.owner(token, request), parse_payload(PlayedSound, event).id
        return {"id": sound, "links": sound_links(sound, owner, self._context.links, LINK_SECONDS)}

    def _numbered(self, ticket: str | None, messages: Iterator[Message]) -> Iterator[Message]:
        for number, message in enumerate(messages):
            yield {"ticket": ticket, "number": number, **message}

    def _generate(
        self,
        take_request: Callable[[str, Texts], TakeRequest],
        token: Any,
        ticket: str | None,
        request: gr.Request,
    ) -> Iterator[Message]:
        """Generate and save a take. take_request: parses the inputs, given an owner's key; its errors end the take."""
        context, texts, pending = self._context, self._context.texts(request), None
        try:
            if ticket is None:
                raise UnexpectedPayload
            owner = context.owner(token, request)
            deletion_token = context.takes.deletion_token(owner=owner.key)
            asked = take_request(owner.key, texts)
            session = getattr(request, "session_hash", None) or ""
            with context.budgets.reserve_take(owner, speaking_time(asked.text), texts) as reservation:
                with context.running.register(ticket, session) as running:
                    take_id = new_id()
                    start = self._start_message(take_id, asked, texts)
                    yield start
                    take = context.take_starter.begin(asked, owner=owner.key)
                    with closing(take.speech) as speech:
                        if speech.sample_rate != start["rate"]:  # the model was switched since
                            raise EngineBusy("engine.model_loading")
                        context.running.attach(ticket, speech)
                        pending = PendingTake(take_id, deletion_token, owner, take, running)
                        try:
                            yield from self._chunk_messages(take.buffer, speech, texts)
                        finally:
                            reservation.spoken = take.buffer.spoken_seconds
                result = speech.result
                assert result is not None, "a speech that ended has a result"
                end, pending = self._end_message(pending, result, messages.ending(result, texts), texts), None
                yield end  # when the generator resumes, the page has fetched all messages
        except GeneratorExit:
            if pending and pending.take.buffer.length:
                # The page is gone. In a thread, because Gradio's event loop is blocked by this generator.
                unfinished = (pending, None, pending.running.stopped or "disconnected")
                threading.Thread(target=self._store, args=unfinished, name="reprise-keep").start()
            raise
        except Exception as error:
            end = self._end_message(pending, None, messages.error_message(error, texts), texts)
            yield {**end, "unspeakable": True} if isinstance(error, InvalidText) else end

    def _store(self, pending: PendingTake, result: SpeechResult | None, reason: str) -> TakeRecord | None:
        """Store a take as `TakeStore.save` does, unless its page has given it up. reason: of one without a result."""
        if pending.running.stopped == "unheard":
            return None
        spoken = pending.take.finish(self._context.engine.info.name, result, reason)
        if spoken.stop_reason == "cancelled" and pending.running.stopped:
            spoken = replace(spoken, stop_reason=pending.running.stopped)
        spoken = replace(spoken, id=pending.id)
        return self._context.takes.save(spoken, owner=pending.owner.key, deletion_token=pending.deletion_token)

    def _start_message(self, take_id: str, asked: TakeRequest, texts: Texts) -> Message:
        expected = max(1.0, speaking_time(asked.text) / asked.speed)
        status = texts("speech.getting_ready")
        facts = {"text": asked.text, "voice": {"id": asked.voice_id}}
        rate = self._context.engine.info.sample_rate
        start: Message = {"kind": "start", "take": take_id, "rate": rate, "expected": expected}
        return {**start, "status": status, "facts": facts}

    def _chunk_messages(self, take: TakeBuffer, speech: MeasuredSpeech, texts: Texts) -> Iterator[Message]:
        status, failure = "", None
        try:
            for chunk in speech:
                known, samples = len(take.words), take.add(chunk)
                status = messages.progress(chunk, take.seconds, texts)
                yield _chunk_message(take, samples, status, take.words[known:])
        except Exception as error:
            failure = error
        if len(rest := take.finish()):
            yield _chunk_message(take, rest, status)
        if failure:
            raise failure

    def _end_message(
        self, pending: PendingTake | None, result: SpeechResult | None, status: str, texts: Texts
    ) -> Message:
        """Return the last message. Without a result, `status` is an error."""
        end: Message = {"kind": "end", "stop_reason": result.stop_reason if result else None, "problem": result is None}
        if pending is None or not pending.take.buffer.length:
            return {**end, "status": status, "total": 0, "take": None, "wav": None}
        return {**end, "total": pending.take.buffer.length, **self._save(pending, result, status, texts)}

    def _save(self, pending: PendingTake, result: SpeechResult | None, status: str, texts: Texts) -> Message:
        """Save a take, and return `take`, `wav`, `status` and `facts` of the last message."""
        separator = " · " if result else " "  # error messages end with a full stop
        wav = {
            "name": take_file_name(pending.take.voice, pending.take.request.text) + ".wav",
            "url": None,
            "tags": Provenance.from_take(
                self._context.engine.info.name, pending.take.request.voice_id, pending.take.speech.seed
            ).tags(),
            "marked": self._context.watermark is not None,
        }
        try:
            kept = self._store(pending, result, "error")
        except RepriseError as error:  # too large for history and memory; the page still has the audio
            log.warning("a take could not be kept: %s", describe_error(error))
            return {"take": None, "wav": wav, "status": status + separator + texts("speech.not_kept")}
        if kept is None:
            return {"take": None, "wav": wav, "status": status + separator + texts("speech.forgotten")}
        if result is None:
            time = texts.length(pending.take.buffer.seconds)
            status += separator + texts("speech.kept", time=time)
        facts = sound_facts(kept, pending.owner, self._context.links)
        wav["url"] = facts["links"]["wav"]
        return {"take": kept.id, "wav": wav, "status": status, "facts": facts}


def _chunk_message(
    take: TakeBuffer, samples: NDArray[np.int16], status: str, words: Sequence[TimedWord] = ()
) -> Message:
    """Return the message of the take's last samples."""
    pcm = base64.b64encode(samples.astype("<i2").tobytes()).decode()
    start = take.length - len(samples)
    return {"kind": "chunk", "start": start, "pcm": pcm, "status": status, "words": [tuple(word) for word in words]}


def _repeated_take(event: gr.EventData) -> RepeatedTake | None:
    try:
        return parse_payload(RepeatedTake, event)
    except UnexpectedPayload:
        return None


def check_text(text: Any, texts: Texts) -> str:
    """Return the text to speak. Raises InvalidInput if it is empty or too long for storage."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(texts("writing.no_text"))
    if len(text) > MAX_TEXT:
        raise InvalidInput(texts("speech.too_long", most=MAX_TEXT))
    return text


def parse_request(form: Sequence[Any], engine: ModelManager, texts: Texts) -> TakeRequest:
    """Parse the inputs of the Speak tab into a take request. Raises InvalidInput, InvalidOption.

    form: text, voice, and the settings in the order of `NAMES`.
    If the settings were made for another model, the defaults of the loaded model are used instead, with the same seed.
    """
    sent = parse_payload(SpeakForm, **dict(zip(("text", "voice", *NAMES), form, strict=True)))
    options = parse_options(sent.seed, sent.temperature, sent.top_p, sent.top_k, texts)
    if sent.model == public_name(engine.info.name):
        options = replace(options, language=sent.language)
    else:
        options = replace(engine.info.default_options, seed=options.seed)
    text, voice_id = plain_text(check_text(sent.text, texts)), require_voice(sent.voice, texts)
    return TakeRequest(text, voice_id, options, sent.paragraph_pause, sent.speed)


def parse_options(seed: str | int | None, temperature: float, top_p: float, top_k: float, texts: Texts) -> SpeakOptions:
    """Parse the page's settings. An empty seed means a random one; top-k is rounded. Raises InvalidOption."""
    wanted = str(seed if seed is not None else "").strip()
    if wanted and not (wanted.isascii() and wanted.isdigit() and len(wanted) <= 10 and int(wanted) <= MAX_SEED):
        raise InvalidOption(texts("speech.bad_seed", most=str(MAX_SEED)))
    return SpeakOptions(temperature, top_p, round(top_k), seed=int(wanted) if wanted else None)
