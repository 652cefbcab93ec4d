"""What an open page costs while nobody uses it."""

from collections.abc import Callable

from playwright.sync_api import Browser, expect

from storage import Storage
from tests.support.fake_engine import FakeEngine
from tests.support.waiting import until
from tests.web.visiting import visit

COUNT_FRAMES = """{
  const request = window.requestAnimationFrame.bind(window);
  window.framesAsked = 0;
  window.nextFrame = () => new Promise(request);
  window.requestAnimationFrame = (callback) => { window.framesAsked += 1; return request(callback); };
}"""
ASKED_DURING_TEN_FRAMES = """async () => {
  const before = window.framesAsked;
  for (let frame = 0; frame < 10; frame += 1) await window.nextFrame();
  return window.framesAsked - before;
}"""


def test_idle_page_asks_for_no_animation_frames(chromium: Browser, serve: Callable[..., str], storage: Storage) -> None:
    with visit(chromium, serve(FakeEngine(), storage)) as page:
        page.add_init_script(COUNT_FRAMES)
        page.reload()
        expect(page.locator("#rp-speak")).to_be_visible()
        assert page.evaluate("requestAnimationFrame(() => {}), window.framesAsked") > 0, "frames are counted"
        until(lambda: page.evaluate(ASKED_DURING_TEN_FRAMES) == 0)  # the logo's animation ends 3 s after loading
        page.context.close()  # another visit must not count frames
