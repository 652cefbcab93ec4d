"""What a first visit to the page loads of ours, and how long until it can be used.

    python -m benchmarks.speed.page_weight [--runs 5]

Serves the page over the bundled model with a new library, visits it with headless Chromium and an empty cache, and adds
up what was sent: our modules, words, styles and markup, compressed as they were sent, apart from fonts and from
Gradio's own files. The time to interactive is from the navigation until the voices are shown and Speak can be pressed.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Response

from benchmarks.browser import chromium
from benchmarks.speed._shared import Table, keep, parser, spread

ROOT = Path(__file__).resolve().parents[2]
PORT = 7898
OURS = "/reprise/static/"
READY = "() => document.querySelector('.rp-rail-row[data-picked]') && document.querySelector('#rp-speak')"
_PATIENCE = 60_000  # ms


@contextmanager
def served() -> Iterator[str]:
    """Serve the app with a new library; yields its link."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "app.py", "--port", str(PORT), "--no-open", "--database", f"{folder}/voices.db"]
        app = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert app.stdout is not None
            yield next(found.group() for line in app.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            app.terminate()
            app.wait()


def kind_of(url: str) -> str:
    """Whose file it is."""
    if url.endswith(".woff2"):
        return "fonts"
    return "ours" if OURS in url else "Gradio's, and the page itself"


def visit(browser: Browser, url: str) -> tuple[float, Counter[str]]:
    """Visit once with an empty cache. Returns seconds until it can be used, and bytes by kind."""
    context = browser.new_context()
    context.request.get(url)  # exchanges the link's token for a cookie, and loads nothing else
    page = context.new_page()
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    began = time.perf_counter()
    page.goto(url.partition("?")[0], wait_until="commit")
    page.wait_for_function(READY, timeout=_PATIENCE)
    seconds = time.perf_counter() - began
    page.wait_for_load_state("load")
    sizes: Counter[str] = Counter()
    for answer in answers:
        if answer.request.method == "GET" and answer.status == 200 and "queue/data" not in answer.url:
            sent = answer.request.sizes()["responseBodySize"]
            sizes[kind_of(answer.url)] += sent if sent >= 0 else len(answer.body())
    context.close()
    return seconds, sizes


def measure(runs: int) -> dict[str, Any]:
    """Visit so many times."""
    with served() as url, chromium() as browser:
        visits = [visit(browser, url) for _ in range(runs)]
    kinds = sorted(visits[0][1])
    return {
        "device": "cpu",
        "bytes": {kind: median(sizes[kind] for _, sizes in visits) for kind in kinds},
        "seconds": spread(seconds for seconds, _ in visits),
    }


def table(found: Mapping[str, Any]) -> Table:
    """The figures as a table."""
    rows = [[kind, f"{size / 1000:.0f} kB"] for kind, size in found["bytes"].items()]
    seconds = found["seconds"]
    rows.append(["time to interactive", f"{seconds['median']:.2f} s (worst {seconds['worst']:.2f} s)"])
    return Table("A first visit", ["what", "value"], rows)


def main() -> None:
    """Measure, print the table and save the figures."""
    made = parser(__doc__)
    made.add_argument("--runs", type=int, default=5)
    found = measure(made.parse_args().runs)
    table(found).show()
    keep("page_weight", found)


if __name__ == "__main__":
    main()
