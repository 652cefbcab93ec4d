"""The page in WebKit, the engine of Safari."""

from collections.abc import Callable
from urllib.parse import urljoin

import pytest

from storage import Storage, VoiceLibrary
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, Script
from tests.web.browsers.main_path import clone_and_speak
from tests.web.browsers.webkit import NoWebKit, open_webkit

pytestmark = pytest.mark.slow


@pytest.mark.flaky(reruns=1)
def test_a_clip_becomes_a_voice_and_a_page_shown_again_speaks_again(
    serve: Callable[..., str], storage: Storage, library: VoiceLibrary
) -> None:
    engine = FakeEngine(Script(pace=0.8, seconds_per_character=0.015))
    url = serve(engine, storage)
    try:
        with open_webkit() as webkit:
            webkit.open(url)
            webkit.collect_troubles()
            clone_and_speak(webkit, lambda: webkit.fill(".rp-file", str(CLIP)), library)

            # The browser keeps a page that is left in its memory, without its requests.
            engine.script.seconds_per_character = 0.3
            webkit.click("#rp-speak")
            webkit.wait_for("player.chunks > 0 && !player.finished")
            webkit.open(urljoin(url, "/reprise/alive"))
            webkit.back()
            webkit.wait_for("player?.finished")
            assert webkit.evaluate("Array.isArray(window.troubles)"), "it is the same page"
            webkit.wait_for("document.querySelector('#rp-picker input').value === 'Anna'")
            engine.script.seconds_per_character = 0.015
            webkit.click("#rp-speak")
            webkit.wait_for("player.finished && player.stopReason === 'end'")
    except NoWebKit as error:
        pytest.skip(str(error))
