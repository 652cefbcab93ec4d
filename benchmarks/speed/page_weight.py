"""Size of the page's own files that a visit loads, and the time until the page can be used.

    python -m benchmarks.speed.page_weight [--runs 5]

Serves the page with the bundled model and a new library, and visits it with headless Chromium, each time as a new
visitor with an empty cache, then once more with a full one. The sizes of the first visit are those of the compressed
responses: our modules, words, styles and markup, separately from fonts and from Gradio's own files.

Times count from the navigation, on the page's own clock. First paint: the first text or picture (First Contentful
Paint). Usable: the voices are shown, and Speak is enabled and its player loaded. Interactive: usable, and the last task
of more than 50 ms before five seconds without any has ended (Time to Interactive).
"""

import sys
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, Response

from benchmarks._report import Cell
from benchmarks.browser import chromium, served_app
from benchmarks.speed._shared import Table, keep, parser, spread

PORT = 7898
OURS = "/reprise/static/"
READY = """() => {
  const speak = document.querySelector('#rp-speak');
  const ready = document.querySelector('.rp-rail-row[data-picked]') && speak && !speak.disabled && window.reprisePlayer;
  return ready ? performance.now() : null;
}"""
WATCH = """
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) window.longTasks.push(startTime + duration);
  }).observe({ type: 'longtask', buffered: true });
"""
QUIET = 5_000  # ms without a long task
BUDGET = 350_000  # bytes of our files without fonts
_TIMEOUT = 60_000  # ms
TIMES = ("first paint", "usable", "interactive")
Times = dict[str, float]


def kind_of(url: str) -> str:
    """Classify a file as a font, ours or Gradio's."""
    if url.endswith(".woff2"):
        return "fonts"
    return "ours" if OURS in url else "Gradio's, and the page itself"


def visit(browser: Browser, url: str) -> tuple[Times, Times, Counter[str]]:
    """Visit with an empty cache, then with a full one. Return the times of both, and bytes of the first by kind."""
    context = browser.new_context()
    context.request.get(url)  # exchanges the link's token for a cookie, and loads nothing else
    page = context.new_page()
    page.add_init_script(WATCH)
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(url.partition("?")[0], wait_until="commit")
    first = times(page)
    sizes: Counter[str] = Counter()
    for answer in answers:
        if answer.request.method == "GET" and answer.status == 200 and "queue/data" not in answer.url:
            sent = answer.request.sizes()["responseBodySize"]
            sizes[kind_of(answer.url)] += sent if sent >= 0 else len(answer.body())
    page.reload(wait_until="commit")
    again = times(page)
    context.close()
    return first, again, sizes


def times(page: Page) -> Times:
    """Wait until a page that was just opened is interactive. Return the seconds by the names in TIMES."""
    usable = float(page.wait_for_function(READY, timeout=_TIMEOUT).json_value())
    quiet = f"""() => {{
      const last = Math.max({usable}, ...window.longTasks);
      return performance.now() > last + {QUIET} ? last : null;
    }}"""
    interactive = float(page.wait_for_function(quiet, timeout=_TIMEOUT).json_value())
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return dict(zip(TIMES, (paint / 1000, usable / 1000, interactive / 1000), strict=True))


def measure(runs: int) -> dict[str, Any]:
    """Visit the page `runs` times."""
    with served_app("--port", str(PORT)) as url, chromium() as browser:
        visits = [visit(browser, url) for _ in range(runs)]
    kinds = sorted(visits[0][2])
    return {
        "device": "cpu",
        "runs": runs,
        "bytes": {kind: median(sizes[kind] for _, _, sizes in visits) for kind in kinds},
        "first": {name: spread(first[name] for first, _, _ in visits) for name in TIMES},
        "again": {name: spread(again[name] for _, again, _ in visits) for name in TIMES},
    }


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    rows: list[list[Cell]] = [[f"sent, {kind}", f"{size / 1000:.0f} kB", None] for kind, size in found["bytes"].items()]
    for name in TIMES:
        both = (found["first"][name], found["again"][name])
        rows.append([name, *(f"{time['median']:.2f} s (worst {time['worst']:.2f} s)" for time in both)])
    note = f"Of ours at most {BUDGET / 1000:.0f} kB may be sent before fonts."
    return Table(f"{found['runs']} visitors, medians", ["", "first visit", "another visit"], rows, [note])


def main() -> None:
    """Measure, print the table and save the figures."""
    made = parser(__doc__)
    made.add_argument("--runs", type=int, default=5)
    found = measure(made.parse_args().runs)
    table(found).show()
    keep("page_weight", found)
    if found["bytes"]["ours"] > BUDGET:
        sys.exit("The page sends more of ours than it may.")


if __name__ == "__main__":
    main()
