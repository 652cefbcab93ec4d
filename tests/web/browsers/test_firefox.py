"""The page in Firefox: a clip becomes a voice, which is heard while it speaks."""

from collections.abc import Callable

import pytest

from storage import Storage, VoiceLibrary
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, Script
from tests.web.browsers.firefox import NoFirefox, open_firefox
from tests.web.browsers.main_path import clone_and_speak

# Counts the reads of the output latency, and prevents them.
COUNT_READS = """(window.latencyReads = 0, Object.defineProperty(
    AudioContext.prototype, "outputLatency", { get: () => (window.latencyReads += 1, 0) }), 1)"""
pytestmark = pytest.mark.slow


@pytest.mark.flaky(reruns=1)
def test_a_clip_becomes_a_voice_that_is_heard_while_it_speaks(
    serve: Callable[..., str], storage: Storage, library: VoiceLibrary
) -> None:
    url = serve(FakeEngine(Script(pace=0.8, seconds_per_character=0.015)), storage)
    try:
        with open_firefox() as firefox:
            firefox.open(url)
            firefox.evaluate(COUNT_READS)
            clone_and_speak(firefox, lambda: firefox.choose("#rp-clip-block input[type=file]", CLIP), library)
            assert firefox.evaluate("window.latencyReads") == 0, "Firefox may freeze when it is asked for the latency"
    except NoFirefox as error:
        pytest.skip(str(error))
