"""Proofreading of scripts: takes are transcribed, and those with wrong words repeated until they improve."""

import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from engine.errors import EngineFailed, InvalidInput
from engine.messages import UserMessage
from storage import Storage
from storage.repositories.scripts.hearings import Hearing
from studio.proof.repair import MAX_ATTEMPTS
from studio.proof.runner import ProofProgress, ProofRunner
from studio.recognition import SETTING, WhisperRecogniser
from studio.script import Card
from studio.script.runner import ScriptRunner
from tests.studio.proof.fake_recogniser import FakeRecogniser
from tests.studio.script.test_runner import Actor, finished
from tests.support.fake_engine import voice
from tests.support.waiting import until
from tests.web.conftest import make_context

OWNER = "browser:ann"
TEXTS = ("The first card.", "The second card.", "The third card.")


class ProofScript:
    """A script of three spoken cards. `words` lists the recogniser's transcripts, in order."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self.actor, self.storage = Actor(), storage
        self.actor.slots = 2  # speaks the cards in order
        self.words: list[str] = []
        self.recogniser = FakeRecogniser(lambda _sound: self.words.pop(0))
        self.scripts = ScriptRunner(make_context(self.actor, storage, folder).engine, storage)
        self.proofs = ProofRunner(storage, self.scripts, self.recogniser)
        ann = storage.voices.add(voice("Ann"), owner=OWNER)
        self.id = storage.scripts.create("Play", [Card(text) for text in TEXTS], voice_id=ann.id, owner=OWNER).id

    def speak(self) -> None:
        self.storage.scripts.queue(self.id, owner=OWNER)
        self.scripts.start(OWNER, self.id)
        until(finished(self.scripts, self.id))

    def prove(self, *words: str, cards: list[str] | None = None, repair: bool = False) -> int:
        self.words = list(words)
        count = self.proofs.start(OWNER, self.id, cards, repair=repair)
        until(lambda: self.proofs.progress(OWNER, self.id) is None)
        return count

    @property
    def cards(self) -> list[str]:
        return [card.id for card in self.storage.scripts.cards(self.id, owner=OWNER)]

    @property
    def takes(self) -> list[str | None]:
        return [card.take_id for card in self.storage.scripts.cards(self.id, owner=OWNER)]

    @property
    def heard(self) -> list[Hearing | None]:
        kept = self.storage.hearings.of_script(self.id, owner=OWNER)
        return [kept.get(take or "") for take in self.takes]


@pytest.fixture
def studio(storage: Storage, tmp_path: Path) -> ProofScript:
    made = ProofScript(storage, tmp_path)
    made.speak()
    return made


def test_chosen_model_is_read_once_for_all_cards(studio: ProofScript) -> None:
    studio.prove("the first card", "the second card", "the third card")
    settings = studio.storage.settings
    settings.put(SETTING, studio.recogniser.name)
    proofs = ProofRunner(studio.storage, studio.scripts, WhisperRecogniser(settings))
    with mock.patch.object(settings, "get", wraps=settings.get) as read:
        assert proofs.start(OWNER, studio.id) == 0
    assert read.call_count == 1


def test_script_is_proofread_and_hearings_are_stored(studio: ProofScript) -> None:
    before = studio.storage.scripts.get(studio.id, owner=OWNER).updated
    assert studio.prove("the first card", "the second guard", "the third card") == 3
    assert [hearing and hearing.word_error for hearing in studio.heard] == [0, pytest.approx(1 / 3), 0]
    assert studio.heard[1] == Hearing("the second guard", 1 / 3, ((11, 16),), "fake")
    assert studio.recogniser.heard == ["en"] * 3
    assert studio.storage.scripts.get(studio.id, owner=OWNER).updated > before, "pages detect changes by this time"
    assert studio.prove() == 0, "they are already proofread"
    studio.recogniser.name = "better"
    assert studio.prove(*TEXTS) == 3, "another recogniser proofreads them again"
    assert len(studio.actor.said) == 3, "nothing is spoken"


def test_wrong_cards_are_repeated_until_they_are_right(studio: ProofScript) -> None:
    takes = studio.takes
    assert studio.prove(TEXTS[0], "a second", "the second guard", TEXTS[1], TEXTS[2], repair=True) == 3
    assert studio.actor.said[3:] == [TEXTS[1], TEXTS[1]]
    assert [hearing and hearing.word_error for hearing in studio.heard] == [0, 0, 0]
    assert [now == then for now, then in zip(studio.takes, takes, strict=True)] == [True, False, True]
    assert studio.words == []


def test_best_take_is_kept_after_the_last_try(studio: ProofScript) -> None:
    wrong = ["no", "the second guard", *["the no"] * (MAX_ATTEMPTS - 1)]
    studio.prove(*wrong, cards=[studio.cards[1]], repair=True)
    assert studio.words == [], "at most MAX_ATTEMPTS"
    hearing = studio.heard[1]
    assert hearing is not None
    assert (hearing.heard, hearing.word_error) == ("the second guard", pytest.approx(1 / 3))
    assert len(studio.storage.scripts.takes(studio.cards[1], owner=OWNER)) == 2, "worse takes are not kept"


def test_earlier_hearings_are_repaired_but_not_locked_cards(studio: ProofScript) -> None:
    studio.prove("no", "no", TEXTS[2])
    studio.storage.scripts.lock(studio.cards[0], owner=OWNER)
    assert studio.prove("no", TEXTS[1], repair=True) == 1
    assert [hearing and hearing.word_error for hearing in studio.heard] == [1, 0, 0]


def test_stop_during_a_repeated_take(studio: ProofScript) -> None:
    studio.actor.hold(TEXTS[0])
    studio.words = ["no"]
    over = threading.Event()
    studio.proofs.start(OWNER, studio.id, [studio.cards[0]], repair=True, on_end=over.set)
    until(lambda: len(studio.actor.said) == 4)
    assert studio.proofs.progress(OWNER, studio.id) == ProofProgress(1, 0, studio.cards[0], 1)
    studio.proofs.stop(OWNER, studio.id)
    assert studio.proofs.progress(OWNER, studio.id) is None
    studio.actor.gates[TEXTS[0]].set()
    assert over.wait(60)
    assert studio.words == [], "the interrupted take is not transcribed"
    assert studio.heard[0] is not None, "the earlier hearing stays"


def test_card_changed_during_repair_is_left_alone(studio: ProofScript) -> None:
    change: list[Callable[[], object]] = [
        lambda: studio.storage.scripts.edit(studio.cards[0], "Other words.", owner=OWNER)
    ]

    def hear(_sound: bytes) -> str:
        if change and len(studio.recogniser.heard) == 2:  # the replacement of the first take
            change.pop()()
        return "no" if len(studio.recogniser.heard) == 1 else TEXTS[0]

    studio.recogniser.words = hear
    studio.prove(cards=[studio.cards[0]], repair=True)
    assert (studio.takes[0], studio.heard[0]) == (None, None)
    assert studio.prove(cards=["0" * 32, studio.cards[0]]) == 2, "an unknown card and one without a take"
    assert len(studio.recogniser.heard) == 2


@pytest.mark.parametrize("queued", [False, True])
def test_choice_of_another_take_during_repair_is_kept(studio: ProofScript, queued: bool) -> None:
    """Also a request to speak the card again, whose take is to be chosen."""
    scripts, (first, *_) = studio.storage.scripts, studio.cards
    mine = str(studio.takes[0])
    scripts.queue(studio.id, [first], owner=OWNER)
    studio.scripts.start(OWNER, studio.id)
    until(finished(studio.scripts, studio.id))
    wrong = str(studio.takes[0])

    def hear(_sound: bytes) -> str:
        if len(studio.recogniser.heard) == 1:
            return "no"
        if queued:
            scripts.queue(studio.id, [first], owner=OWNER)
        else:
            scripts.choose(first, mine, owner=OWNER)
        return TEXTS[0]

    studio.recogniser.words = hear
    studio.prove(cards=[first], repair=True)
    card = scripts.card(first, owner=OWNER)
    assert (card.state, card.take_id) == (("queued", wrong) if queued else ("spoken", mine))
    heard = studio.heard[0]
    assert (heard and heard.heard) == ("no" if queued else None), "the hearing of the new take is not that of another"
    (better,) = {take.id for take in scripts.takes(first, owner=OWNER)} - {mine, wrong}
    scripts.choose(first, better, owner=OWNER)
    assert studio.heard[0] == Hearing(TEXTS[0], 0, (), "fake")


def test_failure_is_reported_and_cleared(studio: ProofScript) -> None:
    def fail(_sound: bytes) -> str:
        raise EngineFailed("engine.no_transcriber")

    studio.recogniser.words = fail
    studio.prove()
    assert studio.proofs.failure(OWNER, studio.id) == UserMessage("engine.no_transcriber")
    studio.proofs.stop(OWNER, studio.id)
    assert studio.proofs.failure(OWNER, studio.id) is None


def test_hearing_belongs_to_a_take_of_its_card(studio: ProofScript) -> None:
    hearing = Hearing("no", 1.0, (), "fake")
    assert studio.takes[1] is not None
    for take in (studio.takes[1], "0" * 32, "../x"):
        with pytest.raises(InvalidInput):
            studio.storage.hearings.keep(studio.cards[0], take, hearing, owner=OWNER)
    studio.storage.hearings.keep(studio.cards[1], studio.takes[1], hearing, owner=OWNER)
    studio.storage.history.delete(studio.takes[1], owner=OWNER)
    assert studio.storage.hearings.of_script(studio.id, owner=OWNER) == {}, "it is deleted with its take"


def test_a_run_that_ends_during_start_calls_back_once(studio: ProofScript) -> None:
    """The run ends when `start` releases the lock, before it returns."""
    gate, ended = threading.Event(), threading.Event()
    called: list[str] = []

    class Lock:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()
            if threading.current_thread() is threading.main_thread() and not gate.is_set():
                gate.set()
                ended.wait(30)

    def hear(_sound: bytes) -> str:
        gate.wait(30)
        return TEXTS[0]

    def note(name: str) -> None:
        called.append(name)
        if name == "second":
            ended.set()

    studio.recogniser.words = hear
    studio.proofs.start(OWNER, studio.id, [studio.cards[0]], on_end=lambda: note("first"))
    studio.proofs._lock = Lock()  # type: ignore[assignment]
    assert studio.proofs.start(OWNER, studio.id, [], on_end=lambda: note("second")) == 0
    assert called == ["first", "second"]
    studio.proofs.start(OWNER, studio.id, [], on_end=lambda: note("third"))
    assert called == ["first", "second", "third"], "without a run it is called at once"
