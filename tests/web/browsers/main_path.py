"""The main path of the page: a clip becomes a voice, which is heard while it speaks."""

from collections.abc import Callable
from typing import Any, Protocol

from storage import VoiceLibrary


class Page(Protocol):
    """A page in a browser. troubles: errors of its scripts and on its console."""

    @property
    def troubles(self) -> list[str]: ...

    def evaluate(self, expression: str) -> Any: ...

    def wait_for(self, condition: str) -> None: ...

    def click(self, selector: str) -> None: ...

    def fill(self, selector: str, text: str) -> None: ...


def clone_and_speak(page: Page, choose_clip: Callable[[], None], library: VoiceLibrary) -> None:
    """Clone the voice of a clip on the page just opened, and speak the text that is there."""
    page.click("#rp-tab-new-button")
    page.wait_for("document.querySelector('.rp-record')?.checkVisibility()")
    choose_clip()
    page.wait_for("document.querySelector('textarea.rp-words')?.checkVisibility()")
    page.fill("textarea.rp-words", "It struck nine.")
    page.fill("#rp-name :is(input, textarea)", "Anna")
    page.click("#rp-consent input")
    page.click("#rp-save")
    page.wait_for("document.querySelector('#rp-text textarea')?.checkVisibility()")
    assert [voice.name for voice in library.list()] == ["Anna"]
    page.wait_for("document.documentElement.hasAttribute('data-rp-welcomed')")  # the page moves when the first steps go

    page.click("#rp-speak")
    page.wait_for("player.finished && player.position >= player.length - 1")
    heard = page.evaluate("window.reprisePlayer.stats")
    assert (heard["output"], heard["lost"], heard["stopReason"]) == ("worklet", 0, "end")
    assert page.troubles == []
