"""Speaking as a Gradio event: a generator of messages to the player, so that queueing and cancelling hold.

Messages, all with the page's `ticket`, a running `number`, and `status`, a sentence for the page:

    start   rate (Hz), expected (seconds, a guess from the text)
    wait    while it has no turn yet (`web.tabs.speak.streaming` adds these)
    chunk   start (sample), pcm (base64 of 16-bit little-endian samples)
    end     total (samples), stop_reason ("end", "length", "cancelled", None after an error),
            take (the id of what is kept, or None), wav (its `url`, a link that is good for a while, and `name`, or
            None), problem (whether the status is an error)
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr

from engine.engine import MAX_SEED, SpeakOptions
from engine.errors import InvalidInput, InvalidOption, RepriseError
from engine.text import speaking_time
from storage.repositories.generations import MAX_TEXT, Spoken
from studio.takes.take import Take
from studio.traces import reason
from web.downloads.sounds import take_name
from web.tabs.library import views
from web.ui import messages
from web.ui.events import Id, Line, OutOfStep, Picked, Sent, Ticket, otherwise, parsed

if TYPE_CHECKING:
    from engine.request import SpeechResult
    from studio.model_manager import MeasuredSpeech
    from web.context import House
    from web.identity.owners import Owner
    from web.ui.i18n import Words

log = logging.getLogger(__name__)

FIRST_TEXT = "The rain has stopped, and the first birds are singing again. Now it is your turn to say something."
SETTINGS = ("temperature", "top_p", "top_k")
Message = dict[str, Any]


class Speak(Sent):
    """The Speak tab. Its settings are checked by `speak_options`."""

    text: str | None
    voice: Picked
    seed: Line | int | None
    temperature: float
    top_p: float
    top_k: int


class Again(Sent):
    """A take to speak again: with its own seed if `same`."""

    id: Id
    same: bool
    ticket: Ticket


class Own(Sent):
    """The take that the page means, None for what can be no ticket."""

    ticket: Annotated[Ticket | None, otherwise(None)]


@dataclass(frozen=True)
class Wish:
    """What is to be spoken."""

    text: str
    voice_id: str
    options: SpeakOptions


@dataclass(frozen=True)
class Underway:
    """A take that is being spoken, and what it takes to keep it. begun: as `Takes.begin` gives it."""

    begun: float
    owner: Owner
    wish: Wish
    voice: str
    seed: int
    take: Take

    def spoken(self, model: str, result: SpeechResult | None, ending: str) -> Spoken:
        """As the history has it; without a result it ended as `ending` says. Raises InvalidInput."""
        settings = {name: value for name, value in asdict(self.wish.options).items() if name in SETTINGS}
        return Spoken(
            text=self.wish.text,
            audio=self.take.encode("flac"),
            duration=self.take.seconds,
            seed=self.seed,
            voice_name=self.voice,
            voice_id=self.wish.voice_id,
            settings=settings,
            model=model,
            stop_reason=result.stop_reason if result else ending,
            real_time_factor=result.real_time_factor if result else None,
            first_audio=result.first_audio if result else None,
        )


class Speaking:
    """The events of Speak and Stop. Values come as the browser sent them, so each is checked."""

    def __init__(self, house: House) -> None:
        self._house = house

    def speak(
        self,
        text: Any,
        voice_id: Any,
        seed: Any,
        temperature: Any,
        top_p: Any,
        top_k: Any,
        token: Any,
        ticket: Any,
        request: gr.Request,
    ) -> Generator[Message, None, None]:
        """Messages of one take. Never raises: an error is the sentence of the last message."""

        def wish(_owner: str, words: Words) -> Wish:
            sent = parsed(
                Speak, text=text, voice=voice_id, seed=seed, temperature=temperature, top_p=top_p, top_k=top_k
            )
            options = speak_options(sent.seed, sent.temperature, sent.top_p, sent.top_k, words)
            return Wish(checked_text(sent.text, words), views.checked_id(sent.voice, words), options)

        own = parsed(Own, ticket=ticket).ticket
        yield from self._numbered(own, self._told(wish, token, own, request))

    def again(self, token: Any, request: gr.Request, event: gr.EventData) -> Generator[Message, None, None]:
        """As `speak`, of what a take was made of: `id`; with its own seed if `same`, else with a new one."""

        sent = _again(event)

        def wish(owner: str, words: Words) -> Wish:
            assert sent is not None, "without a ticket nothing is wished for"
            kept = self._house.takes.get(sent.id, owner=owner)
            options: dict[str, Any] = {name: value for name, value in kept.settings.items() if name in SETTINGS}
            seed = kept.seed if sent.same else None
            return Wish(kept.text, views.checked_id(kept.voice_id, words), SpeakOptions(**options, seed=seed))

        ticket = sent.ticket if sent else None
        yield from self._numbered(ticket, self._told(wish, token, ticket, request))

    def stop(self, event: gr.EventData) -> None:
        """Ends the take whose ticket the page sends; the take's own event then says so."""
        with suppress(OutOfStep):  # what names no take is nothing to stop
            self._house.running.stop(parsed(Own, event).ticket or "")

    def _numbered(self, ticket: str | None, messages: Iterator[Message]) -> Iterator[Message]:
        for number, message in enumerate(messages):
            yield {"ticket": ticket, "number": number, **message}

    def _told(
        self, wish_of: Callable[[str, Words], Wish], token: Any, ticket: str | None, request: gr.Request
    ) -> Iterator[Message]:
        words, underway, begun = self._house.words(request), None, self._house.takes.begin()
        try:
            if ticket is None:
                raise OutOfStep
            owner = self._house.owner(token, request)
            wish = wish_of(owner.key, words)
            session = getattr(request, "session_hash", None) or ""
            with self._house.budgets.take(owner, speaking_time(wish.text), words) as spending:
                with self._house.running.ticket(ticket, session):
                    yield self._start(wish, words)
                    speech, voice = self._begun(wish, owner)
                    with closing(speech):
                        self._house.running.began(ticket, speech)
                        take = Take(self._house.engine.sample_rate)
                        underway = Underway(begun, owner, wish, voice, speech.seed, take)
                        try:
                            yield from self._chunks(take, speech, words)
                        finally:
                            spending.spoken = take.seconds
                result = speech.result
                assert result is not None, "a speech that ended has a result"
                end, underway = self._end(underway, result, messages.ending(result, words), words), None
                yield end  # its page has fetched all when the generator goes on
        except GeneratorExit:
            if underway and underway.take.length:  # in a thread, as Gradio's loop waits for the end of this
                threading.Thread(target=self._keep_left, args=(underway,), name="reprise-keep").start()
            raise
        except Exception as error:
            yield self._end(underway, None, messages.sentence_of(error, words), words)

    def _keep_left(self, underway: Underway) -> None:
        """Its page is gone; what was spoken is in the history all the same."""
        spoken = underway.spoken(self._house.engine.name, None, "cancelled")
        self._house.takes.keep(spoken, owner=underway.owner.key, begun=underway.begun)

    def _start(self, wish: Wish, words: Words) -> Message:
        expected = max(1.0, speaking_time(wish.text))
        status = words("speech.getting_ready")
        return {"kind": "start", "rate": self._house.engine.sample_rate, "expected": expected, "status": status}

    def _begun(self, wish: Wish, owner: Owner) -> tuple[MeasuredSpeech, str]:
        """The speech, and whose voice it is in."""
        engine = self._house.engine
        voices = self._house.studio.voices
        voice = voices.ready(wish.voice_id, engine.codec_fingerprint, engine.reencode, owner=owner.key)
        return engine.speak(wish.text, voice, wish.options, owner=owner.key), voice.name

    def _chunks(self, take: Take, speech: MeasuredSpeech, words: Words) -> Iterator[Message]:
        for chunk in speech:
            samples = take.add(chunk)
            pcm = base64.b64encode(samples.astype("<i2").tobytes()).decode()
            status = messages.progress(chunk, take.seconds, words)
            yield {"kind": "chunk", "start": take.length - len(samples), "pcm": pcm, "status": status}

    def _end(self, underway: Underway | None, result: SpeechResult | None, status: str, words: Words) -> Message:
        """The last message; without a result it is that of an error."""
        end: Message = {"kind": "end", "stop_reason": result.stop_reason if result else None, "problem": result is None}
        if underway is None or not underway.take.length:
            return {**end, "status": status, "total": 0, "take": None, "wav": None}
        return {**end, "total": underway.take.length, **self._kept(underway, result, status, words)}

    def _kept(self, underway: Underway, result: SpeechResult | None, status: str, words: Words) -> Message:
        then = " · " if result else " "  # the sentence of an error has its full stop
        wav = {"name": take_name(underway.voice, underway.wish.text) + ".wav", "url": None}
        try:
            spoken = underway.spoken(self._house.engine.name, result, "error")
            kept = self._house.takes.keep(spoken, owner=underway.owner.key, begun=underway.begun)
        except RepriseError as error:  # too large for either place; the page has its sound all the same
            log.warning("a take could not be kept: %s", reason(error))
            return {"take": None, "wav": wav, "status": status + then + words("speech.not_kept")}
        if kept is None:
            return {"take": None, "wav": wav, "status": status + then + words("speech.forgotten")}
        if result is None:
            status += then + words("speech.kept", seconds=messages.number(underway.take.seconds, 1, words))
        wav["url"] = self._house.links.sign(underway.owner, "take", f"{kept.id}.wav")
        return {"take": kept.id, "wav": wav, "status": status}


def _again(event: gr.EventData) -> Again | None:
    try:
        return parsed(Again, event)
    except OutOfStep:
        return None


def checked_text(text: Any, words: Words) -> str:
    """Raises InvalidInput for nothing, or for more than can be kept."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(words("writing.no_text"))
    if len(text) > MAX_TEXT:
        raise InvalidInput(words("speech.too_long", most=f"{MAX_TEXT:,}"))
    return text


def speak_options(seed: Any, temperature: Any, top_p: Any, top_k: Any, words: Words) -> SpeakOptions:
    """The page's settings; an empty seed is a new one. Raises InvalidOption."""
    wanted = str(seed if seed is not None else "").strip()
    if wanted and not (wanted.isascii() and wanted.isdigit() and len(wanted) <= 10 and int(wanted) <= MAX_SEED):
        raise InvalidOption(words("speech.bad_seed", most=MAX_SEED))
    try:
        values = float(temperature), float(top_p), int(top_k)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidOption(words("speech.out_of_step")) from error
    return SpeakOptions(*values, seed=int(wanted) if wanted else None)
