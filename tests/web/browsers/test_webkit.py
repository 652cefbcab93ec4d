"""The page in WebKit, the engine of Safari."""

from collections.abc import Callable
from urllib.parse import urljoin

import pytest

from storage import Storage, VoiceLibrary
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, Script
from tests.web.browsers.webkit import NoWebKit, open_webkit

pytestmark = pytest.mark.slow


@pytest.mark.flaky(reruns=1)
def test_a_clip_becomes_a_voice_and_a_page_shown_again_speaks_again(
    serve: Callable[..., str], storage: Storage, library: VoiceLibrary
) -> None:
    engine = FakeEngine(Script(pace=0.8, seconds_per_character=0.03))
    url = serve(engine, storage)
    try:
        with open_webkit() as webkit:
            webkit.open(url)
            webkit.collect_troubles()
            webkit.click("#rp-tab-new-button")
            webkit.wait_for("document.querySelector('.rp-record')?.checkVisibility()")
            webkit.fill(".rp-file", str(CLIP))
            webkit.wait_for("document.querySelector('textarea.rp-words')?.checkVisibility()")
            webkit.fill("textarea.rp-words", "The old clock in the hall struck nine.")
            webkit.fill("#rp-name :is(input, textarea)", "Anna")
            webkit.click("#rp-consent input")
            webkit.click("#rp-save")
            webkit.wait_for("document.querySelector('#rp-text textarea')?.checkVisibility()")
            assert [voice.name for voice in library.list()] == ["Anna"]

            webkit.click("#rp-speak")
            webkit.wait_for("player.finished && player.position >= player.length - 1")
            heard = webkit.evaluate("window.reprisePlayer.stats")
            assert heard["playedAtFinish"] > 0, "playback starts before the take is complete"
            assert (heard["output"], heard["lost"], heard["stopReason"]) == ("worklet", 0, "end")
            assert webkit.troubles == []

            # The browser keeps a page that is left in its memory, without its requests.
            engine.script.seconds_per_character = 0.3
            webkit.click("#rp-speak")
            webkit.wait_for("player.chunks > 0 && !player.finished")
            webkit.open(urljoin(url, "/reprise/alive"))
            webkit.back()
            webkit.wait_for("player?.finished")
            assert webkit.evaluate("Array.isArray(window.troubles)"), "it is the same page"
            engine.script.seconds_per_character = 0.03
            webkit.click("#rp-speak")
            webkit.wait_for("player.finished && player.stopReason === 'end'")
    except NoWebKit as error:
        pytest.skip(str(error))
