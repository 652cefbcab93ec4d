"""Admission of callers: with a key from anywhere, without one only from this machine, and within limits."""

import time
from contextlib import suppress
from typing import Any, cast
from unittest.mock import Mock

import pytest

from engine.errors import EngineBusy
from engine.text import GrowingText
from storage import Storage
from storage.api_keys import Allowance, NewKey
from storage.errors import DatabaseUnavailable
from studio.access import Access, Caller, KeyRefused, LimitReached, describe_allowance
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from studio.speech_service import RequestedOptions, SpeechService, VoiceChoice
from tests.support.fake_engine import FakeEngine, FakeSpeech, Script


def test_local_calls_need_no_key_until_one_exists(storage: Storage) -> None:
    access = Access(storage.keys)
    assert access.admit(None, local=True) == access.admit("not-needed", local=True) == Caller()
    for key in (None, "not-needed"):
        with pytest.raises(KeyRefused):
            access.admit(key, local=False)
    record, key = storage.keys.create(NewKey("Home", "user:ann", voices={"Alloy": "Anna"}))
    for local in (True, False):
        assert access.admit(key, local=local) == Caller("user:ann", record, {"alloy": "Anna"})
        with pytest.raises(KeyRefused, match="needs an API key"):
            access.admit(None, local=local)
        with pytest.raises(KeyRefused, match="not valid"):
            access.admit("not-needed", local=local)
    storage.keys.revoke("Home")
    with pytest.raises(KeyRefused):
        access.admit(key, local=False)


def test_request_rate_is_limited(storage: Storage) -> None:
    access = Access(storage.keys)
    _, key = storage.keys.create(NewKey("Home", "local", rate=Allowance(2, 3600)))
    caller = access.admit(key, local=False)
    access.count_request(caller)
    access.count_request(caller)
    with pytest.raises(LimitReached, match=r"2 requests in 1 hour; try again in \d+ s") as refused:
        access.count_request(caller)
    assert refused.value.wait is not None
    assert 3500 < refused.value.wait <= 3601
    for _ in range(3):
        access.count_request(Caller())


def test_requests_are_admitted_when_the_clock_was_set_back(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(storage.keys)
    _, key = storage.keys.create(NewKey("Home", "local", rate=Allowance(1, 60)))
    caller = access.admit(key, local=False)
    now = time.time()
    access.count_request(caller)
    for seconds in (0, 59):
        monkeypatch.setattr(time, "time", lambda later=now + seconds: later)
        with pytest.raises(LimitReached, match="try again in"):
            access.count_request(caller)
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    access.count_request(caller)


def test_key_is_checked_again_at_each_further_request(storage: Storage) -> None:
    access = Access(storage.keys)
    _, key = storage.keys.create(NewKey("Home", "local", rate=Allowance(2, 3600), voices={"Alloy": "Anna"}))
    caller = access.admit(key, local=False)
    assert access.admit_again(caller) == access.admit_again(caller) == caller
    with pytest.raises(LimitReached):
        access.admit_again(caller)
    storage.keys.revoke("Home")
    with pytest.raises(KeyRefused, match="revoked, has expired"):
        access.admit_again(caller)
    assert access.admit_again(Caller()) == Caller()


def test_character_quota_is_limited(storage: Storage) -> None:
    access = Access(storage.keys)
    _, key = storage.keys.create(NewKey("Home", "local", quota=Allowance(10, 86_400)))
    caller = access.admit(key, local=False)
    access.spend(caller, 8)
    with pytest.raises(LimitReached, match="10 characters in 1 day, and these 3 are more") as refused:
        access.spend(caller, 3)
    assert refused.value.quota
    assert refused.value.wait
    with pytest.raises(LimitReached, match="10 characters in 1 day, and the text has 1,000: shorten it") as refused:
        access.spend(caller, 1_000)
    assert refused.value.wait is None
    access.spend(caller, 2)
    access.spend(Caller(), 10**9)


class BusyEngine(FakeEngine):
    """Refuses a speech only when it is read, as engines on a cluster and on ZeroGPU do. spoken: chunks before that."""

    style_tags = True

    def __init__(self, spoken: int) -> None:
        super().__init__(Script(fail_after=spoken, failure=EngineBusy("engine.busy", limit=1)))

    def speak(self, *_: object, **__: object) -> FakeSpeech:
        return FakeSpeech("Hi there.", self.default_options, self.script)


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize(("spoken", "used"), [(0, 0), (1, 9)])
def test_speech_refused_before_its_first_audio_is_refunded(
    storage: Storage, spoken: int, used: int, grows: bool
) -> None:
    access = Access(storage.keys)
    _, key = storage.keys.create(NewKey("Home", "local", quota=Allowance(100, 86_400)))
    caller = access.admit(key, local=False)
    engine = cast(Any, BusyEngine(spoken))
    service = SpeechService(AppContext.create(ModelManager(engine), storage), access)
    text = GrowingText() if grows else "Hi there."
    speech = service.speak(caller, text, VoiceChoice(), RequestedOptions(instructions="Calmly."))
    if isinstance(text, GrowingText):
        service.extend(caller, text, "Hi there.")
    assert storage.keys.list()[0].used == 9
    for _ in range(2):  # it is refunded once
        with suppress(EngineBusy):
            list(speech)
        assert storage.keys.list()[0].used == used


def test_failed_refund_does_not_hide_the_refusal(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    access = Access(storage.keys)
    _, key = storage.keys.create(NewKey("Home", "local", quota=Allowance(100, 86_400)))
    service = SpeechService(AppContext.create(ModelManager(cast(Any, BusyEngine(0))), storage), access)
    speech = service.speak(access.admit(key, local=False), "Hi there.", VoiceChoice())
    monkeypatch.setattr(storage.keys, "spend", Mock(side_effect=DatabaseUnavailable("database.busy")))
    with pytest.raises(EngineBusy):
        list(speech)
    assert "9 characters of a refused request stay counted" in caplog.text


def test_allowances_are_described_in_the_largest_unit() -> None:
    assert describe_allowance(Allowance(1, 60), "request") == "1 request in 1 minute"
    assert describe_allowance(Allowance(5000, 2_592_000), "character") == "5,000 characters in 30 days"
