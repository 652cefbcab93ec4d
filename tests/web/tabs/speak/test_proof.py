"""Takes that are checked and repaired, without a page."""

from typing import Any

import gradio as gr
import pytest

from engine.options import SpeakOptions
from storage import VoiceLibrary
from storage.validation import LOCAL
from studio import recognition
from studio.takes.requests import TakeRequest
from tests.support.fake_engine import FakeEngine, voice
from web.context import WebContext
from web.limits.budgets import LEAST, Budgets, Limits
from web.tabs.speak.proof import TakeProofHandlers

TEXT = "The second card."


def spoken(context: WebContext, voice_id: str) -> str:
    take = context.take_starter.begin(TakeRequest(TEXT, voice_id, SpeakOptions(), 0.0), owner=LOCAL)
    for chunk in take.speech:
        take.buffer.add(chunk)
    kept = context.takes.save(
        take.finish("fake", take.speech.result), owner=LOCAL, deletion_token=context.takes.deletion_token(owner=LOCAL)
    )
    assert kept is not None
    return kept.id


def test_what_is_spoken_is_charged(
    context: WebContext, library: VoiceLibrary, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = ["the second guard", "the second guard", "the second guard", "the second card"]
    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcribe", lambda *_given: heard.pop(0))
    budgets = Budgets({"local": Limits(hourly=60)})
    object.__setattr__(context, "budgets", budgets)
    take = spoken(context, library.add(voice("Ann")).id)

    def check(repair: bool) -> dict[str, Any]:
        event = gr.EventData(None, {"ids": [take], "id": take, "repair": repair, "ticket": "t"})
        *_, last = TakeProofHandlers(context).check(None, None, event)  # type: ignore[arg-type]
        proof: dict[str, Any] = last["proof"]
        return proof

    assert "message" not in check(repair=False)
    assert check(repair=True)["added"]
    assert heard == []
    *_, first, second, third = (speech.result.seconds for speech in engine.speeches if speech.result)
    charged = [seconds for _, seconds in budgets._ledgers["owner", LOCAL].spent]
    assert charged == [LEAST, first + second + third]
