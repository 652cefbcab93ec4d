"""The script runner speaks queued cards in order, continues after failures, and stops on request."""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy.exc import ProgrammingError

from engine.errors import EngineBusy, EngineClosed, InvalidText
from engine.families.family import Capabilities
from engine.messages import UserMessage
from engine.options import SpeakOptions
from engine.voice import Voice
from storage import Storage
from storage.errors import ClaimLost
from storage.pronunciations import Pronunciation
from storage.repositories.scripts.cards import CardRecord
from storage.repositories.scripts.runs import LAPSES
from studio.script import Card
from studio.script.runner import ScriptRunner
from tests.storage.speaking import spoken
from tests.studio.engines.test_speech_metrics import counted
from tests.support.fake_engine import FakeEngine, FakeSpeech, Script, voice
from tests.support.waiting import until
from tests.web.conftest import make_context

OWNER = "browser:ann"
TEXTS = ("The first card.", "The second card.", "The third card.", "The fourth card.")


VISITOR = ContextVar("VISITOR", default="nobody")


class HeldSpeech(FakeSpeech):
    """Yields no audio until its gate opens."""

    def __init__(self, gate: threading.Event, *args: Any) -> None:
        super().__init__(*args)
        self._gate = gate

    def __next__(self) -> Any:
        while not self.cancelled and not self._gate.wait(0.01):
            continue
        return super().__next__()


class SilentSpeech(FakeSpeech):
    """Ends without audio."""

    def __next__(self) -> Any:
        for _ in self._chunks:
            continue
        raise StopIteration


class Actor(FakeEngine):
    """An engine with three slots that holds the given texts and raises the given errors."""

    slots = 3

    def __init__(self) -> None:
        super().__init__(Script())
        self.gates: dict[str, threading.Event] = {}
        self.errors: dict[str, list[Exception]] = {}
        self.silent = False
        self.visitors: list[str] = []  # context variable of each call

    def hold(self, *texts: str) -> None:
        self.gates |= {text: threading.Event() for text in texts}

    def speak(
        self, text: str, voice: Voice | None = None, options: SpeakOptions | None = None, *, owner: str = ""
    ) -> FakeSpeech:
        self.visitors.append(VISITOR.get())
        if self.errors.get(text):
            raise self.errors[text].pop(0)
        made = super().speak(text, voice, options, owner=owner)
        place = self.speeches.index(made)  # not the last one if another thread calls meanwhile
        if self.silent:
            self.speeches[place] = made = SilentSpeech(text, options or SpeakOptions(), self.script)
        if text in self.gates:
            self.speeches[place] = made = HeldSpeech(self.gates[text], text, options or SpeakOptions(), self.script)
        return made

    @property
    def said(self) -> list[str]:
        return [text for text, _, _ in self.asked]


@pytest.fixture
def actor() -> Actor:
    return Actor()


@pytest.fixture
def runner(actor: Actor, storage: Storage, tmp_path: Path) -> ScriptRunner:
    return ScriptRunner(make_context(actor, storage, tmp_path).engine, storage)


@pytest.fixture
def script(storage: Storage) -> str:
    ann = storage.voices.add(voice("Ann"), owner=OWNER)
    return storage.scripts.create("Play", [Card(text) for text in TEXTS], voice_id=ann.id, owner=OWNER).id


@pytest.fixture
def cards(storage: Storage, script: str) -> Callable[[], list[CardRecord]]:
    return lambda: storage.scripts.cards(script, owner=OWNER)


def begin(storage: Storage, runner: ScriptRunner, script: str, owner: str = OWNER) -> None:
    storage.scripts.queue(script, owner=owner)
    runner.start(owner, script)


def finished(runner: ScriptRunner, script: str, owner: str = OWNER) -> Callable[[], bool]:
    return lambda: runner.speaking(owner, script) is None


def test_all_cards_are_spoken_in_order_and_stored(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.slots = 2  # one for others and one for the script, so that its order is deterministic
    before = runner.real_time_factor
    assert before is None
    VISITOR.set("Ann")
    begin(storage, runner, script)
    until(finished(runner, script))
    assert actor.said == list(TEXTS)
    assert counted(runner._engine.metrics, "script")["speeches"] == len(TEXTS)
    assert actor.visitors == ["Ann"] * 4, "cards are spoken in the context of the caller of `start`"
    assert [card.state for card in cards()] == ["spoken"] * 4
    factor = runner.real_time_factor
    assert factor is not None
    actor.slots = 4
    assert runner.real_time_factor == factor / 2, "two cards are spoken at once"
    (take,) = storage.scripts.takes(cards()[0].id, owner=OWNER)
    assert (take.text, take.voice_name, take.seed, take.model, take.stop_reason) == (TEXTS[0], "Ann", 7, "fake", "end")
    assert take.settings == {"temperature": actor.default_options.temperature, "top_p": 0.8, "top_k": 30}
    assert take.duration == pytest.approx(actor.speeches[0].result.seconds)  # type: ignore[union-attr]
    assert cards()[0].duration == take.duration > 0


def test_two_cards_are_spoken_concurrently(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.hold(*TEXTS[:2])
    begin(storage, runner, script)
    until(lambda: len(actor.said) == 2)
    assert sorted(runner.speaking(OWNER, script) or ()) == sorted(card.id for card in cards()[:2])
    actor.gates[TEXTS[1]].set()
    until(lambda: cards()[3].state == "spoken")
    assert set(actor.said[:2]) == set(TEXTS[:2]), "the order of the first two threads is undefined"
    assert actor.said[2:] == list(TEXTS[2:])
    assert [card.state for card in cards()] == ["queued", "spoken", "spoken", "spoken"]
    actor.gates[TEXTS[0]].set()
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken"] * 4


def test_engine_with_one_slot_speaks_one_card_at_a_time(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str
) -> None:
    actor.slots = 1
    actor.hold(TEXTS[0])
    begin(storage, runner, script)
    until(lambda: actor.said)
    assert len(runner.speaking(OWNER, script) or ()) == 1
    actor.gates[TEXTS[0]].set()
    until(finished(runner, script))
    assert actor.said == list(TEXTS)


def test_failed_card_has_a_reason_and_the_next_is_spoken(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.errors = {TEXTS[0]: [InvalidText("This cannot be said.")], TEXTS[2]: [ValueError("a mistake of ours")]}
    storage.voices.add(voice("Ben"), owner=OWNER)
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["failed", "spoken", "failed", "spoken"]
    assert str(cards()[0].failure) == "This cannot be said."
    assert "no fault of yours" in str(cards()[2].failure)
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken"] * 4, "failed cards are spoken when they are queued again"


def test_failure_that_cannot_be_stored_ends_the_run(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    """The card stays queued, and would be spoken again without end."""
    actor.slots = 1
    actor.errors = {TEXTS[1]: [InvalidText("x" * 5_000)]}
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken", "queued", "queued", "queued"]
    assert runner.failure(OWNER, script) is not None


def test_word_in_phones_needs_a_model_with_phones(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    first = cards()[0]
    storage.pronunciations.put([Pronunciation(first.text.split()[0].strip(".,!?"), "/N W IH1 N/")], owner=OWNER)
    storage.scripts.queue(script, [first.id], owner=OWNER)
    runner.start(OWNER, script)
    until(finished(runner, script))
    assert "is given in phones" in str(cards()[0].failure)
    actor.capabilities = Capabilities(phones=True)
    storage.scripts.queue(script, [first.id], owner=OWNER)
    runner.start(OWNER, script)
    until(finished(runner, script))
    assert actor.said[0].startswith("{{n_w_ih_n}}")
    assert cards()[0].text == first.text


def test_card_without_a_voice_or_with_a_deleted_one_fails(
    runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    ben = storage.voices.add(voice("Ben"), owner=OWNER)
    first, second, *_ = cards()
    storage.scripts.set_voice(first.id, None, owner=OWNER)
    storage.scripts.set_voice(second.id, ben.id, owner=OWNER)
    storage.voices.delete(ben.id, owner=OWNER)
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["failed", "failed", "spoken", "spoken"]
    assert cards()[0].failure == UserMessage("cards.no_voice")
    assert "no such voice" in str(cards()[1].failure)


def test_silent_speech_fails_the_card(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.silent = True
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.failure for card in cards()] == [UserMessage("cards.nothing_spoken")] * len(cards())


def test_stop_ends_current_cards_and_keeps_finished_ones(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.hold(TEXTS[1], TEXTS[2])
    begin(storage, runner, script)
    until(lambda: len(actor.said) == 3 and cards()[0].state == "spoken")
    runner.stop(OWNER, script)
    assert finished(runner, script)()
    assert storage.scripts.unqueue(script, owner=OWNER) == 3
    until(lambda: all(speech.closed for speech in actor.speeches))
    assert [card.state for card in cards()] == ["spoken", "new", "new", "new"]
    assert len(actor.said) == 3
    actor.gates.clear()
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken"] * 4


def test_stop_affects_only_its_own_script(actor: Actor, runner: ScriptRunner, storage: Storage, script: str) -> None:
    other = "browser:ben"
    his = storage.voices.add(voice("Ben"), owner=other)
    theirs = storage.scripts.create("Other", [Card("His own words.")], voice_id=his.id, owner=other).id
    actor.slots = 5
    actor.hold(*TEXTS, "His own words.")
    begin(storage, runner, script)
    begin(storage, runner, theirs, other)
    until(lambda: "His own words." in actor.said)
    runner.stop(OWNER, script)
    runner.stop(OWNER, theirs)
    runner.stop(other, script)
    assert runner.speaking(other, theirs) is not None
    actor.gates["His own words."].set()
    until(finished(runner, theirs, other))
    assert storage.scripts.get(theirs, owner=other).done == 1


def test_card_edited_while_spoken_is_spoken_again(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.hold(TEXTS[0])
    begin(storage, runner, script)
    until(lambda: actor.said)
    storage.scripts.edit(cards()[0].id, "Other words.", owner=OWNER)
    actor.gates[TEXTS[0]].set()
    until(finished(runner, script))
    assert "Other words." in actor.said
    assert [card.state for card in cards()] == ["spoken"] * 4
    assert cards()[0].takes == 2


def test_card_edited_before_it_fails_is_spoken_again(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    first = cards()[0].id

    def edit_and_fail(_: int) -> Exception:
        storage.scripts.edit(first, "Other words.", owner=OWNER)
        return InvalidText("This cannot be said.")

    actor.errors = {TEXTS[0]: Mock(pop=edit_and_fail)}
    storage.scripts.queue(script, [first], owner=OWNER)
    runner.start(OWNER, script)
    until(finished(runner, script))
    assert (cards()[0].state, cards()[0].failure) == ("spoken", None)


def test_deleted_card_or_script_does_not_stop_the_runner(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.hold(TEXTS[0], TEXTS[3])
    begin(storage, runner, script)
    until(lambda: actor.said)
    storage.scripts.delete_card(cards()[0].id, owner=OWNER)
    actor.gates[TEXTS[0]].set()
    until(lambda: [card.state for card in cards()][:2] == ["spoken", "spoken"] and TEXTS[3] in actor.said)
    storage.scripts.discard(script, owner=OWNER)
    actor.gates[TEXTS[3]].set()
    until(finished(runner, script))
    assert runner.failure(OWNER, script) is None


def test_busy_engine_is_retried(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.errors = {TEXTS[0]: [EngineBusy("Too many are waiting.")]}
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken"] * 4


def test_cards_stay_queued_when_the_engine_closes(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    actor.slots = 1
    actor.errors = {TEXTS[1]: [EngineClosed(), EngineClosed()]}
    begin(storage, runner, script)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken", "queued", "queued", "queued"]
    assert runner.failure(OWNER, script) == EngineClosed().message
    actor.errors.clear()
    runner.start(OWNER, script)
    assert runner.failure(OWNER, script) is None
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken"] * 4


def test_cards_queued_while_running_are_spoken(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    last = cards()[3].id
    actor.hold(TEXTS[3])
    storage.scripts.queue(script, [last], owner=OWNER)
    runner.start(OWNER, script)
    until(lambda: actor.said == [TEXTS[3]])
    storage.scripts.queue(script, [cards()[0].id], owner=OWNER)
    runner.start(OWNER, script)
    until(lambda: cards()[0].state == "spoken")
    actor.gates[TEXTS[3]].set()
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken", "new", "new", "spoken"]


def test_each_end_callback_is_called_once(actor: Actor, runner: ScriptRunner, storage: Storage, script: str) -> None:
    over: list[str] = []
    actor.hold(TEXTS[0])
    storage.scripts.queue(script, owner=OWNER)
    runner.start(OWNER, script, lambda: over.append("spoken"))
    runner.start(OWNER, script, lambda: over.append("asked again"))
    until(lambda: actor.said)
    assert over == []
    actor.gates[TEXTS[0]].set()
    until(finished(runner, script))
    until(lambda: over == ["spoken", "asked again"])  # callbacks follow the end of the run
    assert set(actor.owners) == {OWNER}, "all turns belong to the owner"
    actor.hold(TEXTS[0])
    storage.scripts.queue(script, [storage.scripts.cards(script, owner=OWNER)[0].id], owner=OWNER)
    runner.start(OWNER, script, lambda: over.append("stopped"))
    until(lambda: len(actor.said) > len(TEXTS))
    runner.stop(OWNER, script)
    until(lambda: over[2:] == ["stopped"])


def test_end_that_cannot_be_stored_is_told(
    runner: ScriptRunner, storage: Storage, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a newer version upgrades the library. The visitor would have a script less."""
    ended = threading.Event()
    monkeypatch.setattr(storage.scripts, "end_run", Mock(side_effect=ProgrammingError("UPDATE", {}, ValueError())))
    runner.start(OWNER, script, ended.set)
    until(ended.is_set)


@pytest.mark.parametrize("fails", [False, True])
def test_a_callback_at_the_end_may_use_the_runner(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, fails: bool
) -> None:
    seen: list[object] = []
    if fails:
        actor.errors = {TEXTS[0]: [EngineClosed()], TEXTS[1]: [EngineClosed()]}
    storage.scripts.queue(script, owner=OWNER)
    runner.start(OWNER, script, lambda: seen.append(runner.speaking(OWNER, script)))
    until(lambda: seen)
    assert seen == [None]


@pytest.fixture
def others_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often at the cards of other processes, and whether they have stopped a script."""
    monkeypatch.setattr("studio.script.runner.RENEW_SECONDS", 0.01)
    monkeypatch.setattr("studio.script.runner.OTHERS_SECONDS", 0.01)


@pytest.fixture
def other(actor: Actor, storage: Storage, tmp_path: Path) -> ScriptRunner:
    """The runner of another process: it shares only the database and, here, the engine."""
    return ScriptRunner(make_context(actor, storage, tmp_path).engine, storage)


def test_two_processes_speak_each_card_once(
    actor: Actor,
    runner: ScriptRunner,
    other: ScriptRunner,
    storage: Storage,
    script: str,
    cards: Callable[[], list[CardRecord]],
    others_at_once: None,
) -> None:
    actor.hold(*TEXTS)
    begin(storage, runner, script)
    until(lambda: len(actor.said) == 2)
    assert sorted(other.all_speaking(OWNER)[script]) == sorted(card.id for card in cards()[:2])
    begin(storage, other, script)
    until(lambda: len(actor.said) == 4)
    assert other.speaking(OWNER, script) is not None
    for gate in actor.gates.values():
        gate.set()
    until(finished(runner, script))
    until(finished(other, script))
    assert sorted(actor.said) == sorted(TEXTS)
    assert [card.takes for card in cards()] == [1] * 4
    until(lambda: other.all_speaking(OWNER) == {})


def test_stop_in_another_process_ends_the_cards_of_this_one(
    actor: Actor,
    runner: ScriptRunner,
    other: ScriptRunner,
    storage: Storage,
    script: str,
    cards: Callable[[], list[CardRecord]],
    others_at_once: None,
) -> None:
    actor.hold(*TEXTS)
    begin(storage, runner, script)
    until(lambda: len(actor.speeches) == 2)
    other.stop(OWNER, script)
    storage.scripts.unqueue(script, owner=OWNER)
    until(finished(runner, script))
    assert all(speech.cancelled for speech in actor.speeches)
    assert [card.state for card in cards()] == ["new"] * 4
    assert runner.failure(OWNER, script) is None


def test_cards_of_a_dead_process_are_spoken_by_another(
    actor: Actor, runner: ScriptRunner, storage: Storage, script: str, cards: Callable[[], list[CardRecord]]
) -> None:
    now = datetime.now(UTC)
    dead = Storage(storage._database, clock=lambda: now - LAPSES - timedelta(seconds=1))
    storage.scripts.queue(script, owner=OWNER)
    assert dead.scripts.claim(script, "d" * 32, owner=OWNER) == cards()[0]
    assert runner.all_speaking(OWNER) == {}
    runner.start(OWNER, script)
    until(finished(runner, script))
    assert [card.takes for card in cards()] == [1] * 4
    with pytest.raises(ClaimLost):
        dead.scripts.attach(cards()[0].id, spoken(TEXTS[0]), owner=OWNER, run_id="d" * 32)
    assert [card.takes for card in cards()] == [1] * 4


def test_cards_of_another_process_are_spoken_when_it_ends(
    runner: ScriptRunner,
    storage: Storage,
    script: str,
    cards: Callable[[], list[CardRecord]],
    others_at_once: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others_speak = Mock(wraps=storage.scripts.others_speak)
    monkeypatch.setattr(storage.scripts, "others_speak", others_speak)
    storage.scripts.queue(script, [cards()[0].id], owner=OWNER)
    storage.scripts.claim(script, "d" * 32, owner=OWNER)
    runner.start(OWNER, script)
    until(lambda: others_speak.called)
    storage.scripts.end_run(script, "d" * 32, owner=OWNER)
    until(finished(runner, script))
    assert [card.state for card in cards()] == ["spoken", "new", "new", "new"]
