"""The ES modules of the page: imports, serving, and one language for each visitor."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from storage import Storage
from tests.support.fake_engine import FakeEngine
from tests.web.conftest import serving
from tests.web.visitor import page_config
from web.http import alive
from web.ui.i18n import Translations
from web.ui.modules import STATIC

Serve = Callable[..., str]
TESTS = Path(__file__).parents[1] / "js"
IMPORT = re.compile(
    r'^(?:import|const) (?:\{([^}]*)\}|\* as \w+) (?:from |= await import\()"(\.[^"]+)"\)?;', re.MULTILINE
)
EXPORT = re.compile(r"^export (?:async )?(?:const|function|class) (\w+)", re.MULTILINE)


def imports(path: Path) -> set[tuple[Path, str]]:
    """Return the imports of a module as (file, name); the name is "" for a whole file."""
    found = IMPORT.findall(path.read_text("utf-8"))
    return {
        ((path.parent / file).resolve(), name.partition(" as ")[0].strip())
        for names, file in found
        for name in (names.split(",") or [""])
    }


def test_imports_exist_and_all_exports_are_imported() -> None:
    modules = sorted(STATIC.rglob("*.js"))
    used = {each for path in (*modules, *TESTS.rglob("*.js")) for each in imports(path)}
    assert {file for file, _ in used if not file.is_file()} == set()
    exported = {(path, name) for path in modules for name in EXPORT.findall(path.read_text("utf-8"))}
    mounts = {(path, "mount") for path, name in used if name == ""}
    # Used by the script of a language (web/ui/modules.py), and by a test in the browser.
    others = {
        ("ui/words.js", "translateGradio"),
        ("player/playout/outputs.js", "WorkletOutput"),
    }
    assert exported - used - mounts == {(STATIC / path, name) for path, name in others}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Storage.open(tmp_path_factory.mktemp("library") / "voices.db") as storage, serving() as serve:
        yield serve(FakeEngine(), storage)


def sources(url: str, language: str) -> list[str]:
    """Return the URLs of the module scripts of the page in a language, in order."""
    html = httpx.get(url, headers={"accept-language": language}).text
    return [urljoin(url, source) for source in re.findall(r'<script type="module"[^>]* src="([^"]+)"', html)]


def test_own_script_comes_before_that_of_gradio_and_contains_all_modules_once(url: str) -> None:
    own, gradio = sources(url, "de-AT,de;q=0.9")
    assert re.fullmatch(r".*/reprise/static/\w+/page-de\.js", own), "paths in it are relative to the modules' root"
    assert "/assets/" in gradio
    names = re.findall(r'^modules\["([^"]+)"\] = ', httpx.get(own).text, re.MULTILINE)
    modules = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js")}
    assert sorted(names) == sorted({each for each in modules if not each.endswith("_worklet.js")} | {"words.js"})
    assert names.index("words.js") < names.index("connection/server.js"), "the labels are translated first"


def test_modules_of_the_playback_worklet_are_loaded_with_the_page(url: str) -> None:
    preloaded = re.findall(r'<link rel="modulepreload" href="\./reprise/static/\w+/([^"]+)"', httpx.get(url).text)
    assert "player/playout/playout_worklet.js" in preloaded
    for name in preloaded:
        assert {path.relative_to(STATIC).as_posix() for path, _ in imports(STATIC / name)} <= set(preloaded)


def test_page_has_a_description_in_the_language_of_its_visitor(url: str) -> None:
    html = httpx.get(url, headers={"accept-language": "fr"}).text
    tagline = Translations.load().languages["fr"]["heading.tagline"]
    assert re.findall(r'<meta name="description" content="([^"]*)"', html) == [tagline]


def test_modules_are_immutable_and_nothing_else_is_served(url: str) -> None:
    main = re.sub("page-en.js$", "main.js", sources(url, "en")[0])
    for script in (main, main.replace("main.js", "page-en.js")):
        answer = httpx.get(script)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        assert "immutable" in answer.headers["cache-control"]
    base = main.removesuffix("main.js")
    version = base.rstrip("/").rpartition("/")[2]
    others = [
        base + name
        for name in ("page-it.js", "connection/owner.html", "styles/page.css", "ui", "", "../main.js", "nothing.js")
    ]
    for other in [*others, main.replace(version, "0" * 16), base + "..%2f..%2fserve.py", base + "%2fetc%2fpasswd.js"]:
        assert httpx.get(other).status_code == 404, other


@pytest.mark.parametrize("language", ["de", "en", "ja"])
def test_visitor_is_sent_one_language(url: str, language: str) -> None:
    page = httpx.get(url, headers={"accept-language": language})
    assert page.headers["vary"].lower().count("accept-language") == 1
    assert page_config(page.text)["i18n_translations"] is None
    words = httpx.get(sources(url, language)[0]).text
    sent = page.text + words
    languages = Translations.load().languages
    for other in set(languages) - {language, "en"}:
        assert languages[other]["player.waiting"] not in sent, other
    assert json.dumps(languages[language]["player.waiting"], ensure_ascii=False) in words
    assert json.dumps(languages[language]["speech.speak"], ensure_ascii=False) in words, (
        "labels of Gradio's components are sent"
    )
    assert "locked.text" not in words, "texts that only the server uses are not sent"


def test_page_is_compressed_if_the_browser_accepts_it(url: str) -> None:
    sent = {coding: httpx.get(url, headers={"accept-encoding": coding}) for coding in ("gzip, br", "identity")}
    assert {coding: page.headers.get("content-encoding") for coding, page in sent.items()} == {
        "gzip, br": "gzip",
        "identity": None,
    }
    lengths = [int(page.headers["content-length"]) for page in sent.values()]
    assert lengths[0] < lengths[1] / 5
    assert all("accept-encoding" in page.headers["vary"].lower() for page in sent.values())
    assert page_config(sent["gzip, br"].text).keys() == page_config(sent["identity"].text).keys()
    head = httpx.head(url, headers={"accept-encoding": "gzip"})
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("root", ["/voices", "/reprise"])
def test_paths_are_relative_to_the_page_behind_a_proxy(
    serve: Serve, engine: FakeEngine, storage: Storage, root: str
) -> None:
    url = serve(engine, storage, root_path=root)
    html = httpx.get(url).text
    assert set(re.findall(r'(?:href|src)="([^"]*/reprise/static/)', html)) == {"./reprise/static/"}
    for own in (sources(url, "en")[0], url + alive.PATH.lstrip("/")):
        assert httpx.get(own).status_code == 200
        passed_on = own.replace("/reprise/", f"{root}/reprise/", 1)
        assert httpx.get(passed_on).status_code == 200, "a proxy may pass its path on"
