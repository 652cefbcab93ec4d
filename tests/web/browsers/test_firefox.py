"""The page in Firefox: a clip becomes a voice, which is heard while it speaks."""

from collections.abc import Callable

import pytest

from storage import Storage, VoiceLibrary
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, Script
from tests.web.browsers.firefox import NoFirefox, open_firefox

# Counts the reads of the output latency, and prevents them.
COUNT_READS = """(window.latencyReads = 0, Object.defineProperty(
    AudioContext.prototype, "outputLatency", { get: () => (window.latencyReads += 1, 0) }), 1)"""
pytestmark = pytest.mark.slow


@pytest.mark.flaky(reruns=1)
def test_a_clip_becomes_a_voice_that_is_heard_while_it_speaks(
    serve: Callable[..., str], storage: Storage, library: VoiceLibrary
) -> None:
    url = serve(FakeEngine(Script(pace=0.8, seconds_per_character=0.03)), storage)
    try:
        with open_firefox() as firefox:
            firefox.open(url)
            firefox.click("#rp-tabs [role=tab]:nth-of-type(2)")
            firefox.wait_for("document.querySelector('.rp-record')?.checkVisibility()")
            firefox.choose("#rp-clip-block input[type=file]", CLIP)
            firefox.fill("textarea.rp-words", "The old clock in the hall struck nine.")
            firefox.fill("#rp-name :is(input, textarea)", "Anna")
            firefox.click("#rp-consent input")
            firefox.click("#rp-save")
            firefox.wait_for("document.querySelector('#rp-text textarea')?.checkVisibility()")
            assert [voice.name for voice in library.list()] == ["Anna"]

            firefox.evaluate(COUNT_READS)
            firefox.click("#rp-speak")
            firefox.wait_for("player.finished && player.position >= player.length - 1")
            heard = firefox.evaluate("window.reprisePlayer.stats")
            assert heard["playedAtFinish"] > 0, "playback starts before the take is complete"
            assert (heard["output"], heard["lost"], heard["stopReason"]) == ("worklet", 0, "end")
            assert firefox.evaluate("window.latencyReads") == 0, "Firefox may freeze when it is asked for the latency"
            assert firefox.troubles == []
    except NoFirefox as error:
        pytest.skip(str(error))
