"""Proofreading of single takes: transcribed, and repeated until they improve."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InvalidInput
from engine.options import SpeakOptions
from storage import Storage
from storage.errors import TakeNotFound, VoiceNotFound
from storage.repositories.takes import TakeRecord
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from studio.proof import takes as proof_takes
from studio.proof.repair import MAX_ATTEMPTS
from studio.proof.takes import TakeProofs
from studio.takes.requests import TakeRequest
from tests.studio.proof.fake_recogniser import FakeRecogniser
from tests.support.fake_engine import FakeEngine, voice

OWNER = "browser:ann"
TEXT = "The second card."


class ProofTake:
    """An owner's take of TEXT with seed 5. `words` lists the recogniser's transcripts, in order."""

    def __init__(self, storage: Storage) -> None:
        self.engine, self.storage = FakeEngine(), storage
        self.app = AppContext.create(ModelManager(self.engine), storage)  # type: ignore[arg-type]
        self.words: list[str] = []
        self.recogniser = FakeRecogniser(lambda _sound: self.words.pop(0))
        app = self.app
        self.proofs = TakeProofs(app.engine, app.takes, app.take_starter, app.voices, self.recogniser)
        ann = storage.voices.add(voice("Ann"), owner=OWNER)
        self.take = self.spoken(TakeRequest(TEXT, ann.id, SpeakOptions(temperature=0.3, seed=5), 1.5)).id

    def spoken(self, request: TakeRequest) -> TakeRecord:
        take = self.app.take_starter.begin(request, owner=OWNER)
        for chunk in take.speech:
            take.buffer.add(chunk)
        spoken = take.finish("fake", take.speech.result)
        kept = self.app.takes.save(spoken, owner=OWNER, deletion_token=self.app.takes.deletion_token(owner=OWNER))
        assert kept is not None
        return kept

    def repair(self, *words: str, attach: Callable[[Any], object] = lambda _speech: None) -> TakeRecord | None:
        self.words = list(words)
        tries = self.proofs.repair(self.take, owner=OWNER, attach=attach)
        self.attempts: list[int] = []
        while True:
            try:
                self.attempts.append(next(tries))
            except StopIteration as over:
                made: TakeRecord | None = over.value
                return made

    @property
    def kept(self) -> int:
        return self.storage.history.page(owner=OWNER).total


@pytest.fixture
def studio(storage: Storage, tmp_path: Path) -> ProofTake:
    return ProofTake(storage)


def test_hearing_is_isolated_by_owner_and_forgotten_with_the_take(studio: ProofTake) -> None:
    studio.words = ["the second guard"]
    hearing = studio.proofs.hear(studio.take, owner=OWNER)
    assert (hearing.word_error, hearing.marks) == (pytest.approx(1 / 3), ((11, 16),))
    assert studio.recogniser.heard == ["en"]
    assert studio.proofs.hearing(studio.take, owner=OWNER) == hearing
    assert studio.proofs.hearing(studio.take, owner="browser:ben") is None
    with pytest.raises(TakeNotFound):
        studio.proofs.hear(studio.take, owner="browser:ben")
    studio.proofs.forget(OWNER, "0" * 32)
    assert studio.proofs.hearing(studio.take, owner=OWNER) == hearing
    studio.proofs.forget(OWNER, studio.take)
    assert studio.proofs.hearing(studio.take, owner=OWNER) is None


def test_take_deleted_while_it_is_heard_leaves_no_hearing(studio: ProofTake) -> None:
    def delete(_sound: bytes) -> str:
        studio.app.takes.delete(studio.take, owner=OWNER)
        studio.proofs.forget(OWNER, studio.take)
        return TEXT

    studio.recogniser.words = delete
    with pytest.raises(TakeNotFound):
        studio.proofs.hear(studio.take, owner=OWNER)
    assert studio.proofs.hearing(studio.take, owner=OWNER) is None


def test_best_try_becomes_a_take_with_the_same_settings(studio: ProofTake) -> None:
    made = studio.repair("no", "nothing", "the second guard", "the no", "no")
    assert made is not None
    assert studio.attempts == [1, 2, 3, 4]
    assert studio.kept == 2, "worse takes are not kept"
    hearing = studio.proofs.hearing(made.id, owner=OWNER)
    assert hearing is not None
    assert hearing.heard == "the second guard"
    assert (made.text, made.settings["temperature"], made.settings["paragraph_pause"]) == (TEXT, 0.3, 1.5)
    assert [options.seed for _, _, options in studio.engine.asked] == [5, *[None] * MAX_ATTEMPTS]


def test_correct_and_unimproved_takes_are_kept(studio: ProofTake) -> None:
    assert studio.repair(TEXT) is None
    assert (studio.attempts, studio.words) == ([], [])
    studio.proofs.forget(OWNER)
    assert studio.repair("the second guard", *["no"] * MAX_ATTEMPTS) is None
    assert (studio.words, studio.kept) == ([], 1)
    assert studio.repair("no", TEXT) is not None, "the earlier hearing is reused"
    assert studio.attempts == [1, 2]


def test_stop_ends_the_tries(studio: ProofTake) -> None:
    assert studio.repair("no", attach=lambda speech: speech.cancel()) is None
    assert (studio.attempts, studio.words, studio.kept) == ([1], [], 1)


def test_take_without_voice_or_too_long_is_rejected(studio: ProofTake, monkeypatch: pytest.MonkeyPatch) -> None:
    studio.storage.voices.trash(studio.app.takes.get(studio.take, owner=OWNER).voice_id or "", owner=OWNER)
    with pytest.raises(VoiceNotFound):
        studio.repair("no")
    assert studio.recogniser.heard == [""], "it is transcribed even without its voice"
    monkeypatch.setattr(proof_takes, "MAX_TEXT", 5)
    with pytest.raises(InvalidInput, match="more than 5 characters"):
        studio.proofs.hear(studio.take, owner=OWNER)


def test_number_of_hearings_is_bounded(studio: ProofTake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_takes, "MAX_HEARINGS", 1)
    voice_id = studio.app.takes.get(studio.take, owner=OWNER).voice_id or ""
    other = studio.spoken(TakeRequest(TEXT, voice_id, SpeakOptions()))
    studio.words = ["a", "b"]
    studio.proofs.hear(studio.take, owner=OWNER)
    studio.proofs.hear(other.id, owner=OWNER)
    assert studio.proofs.hearing(studio.take, owner=OWNER) is None
    assert studio.proofs.hearing(other.id, owner=OWNER) is not None
