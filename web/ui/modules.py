"""Serves the ES modules and fonts of `web/static`: one script per language, of all modules and the page's texts, and
single modules for audio worklets.

Their paths contain a hash of all contents, so that browsers can cache them forever and never mix versions. The page's
`<head>` (`head`) loads the script before Gradio's own: module scripts run in document order, so `window.reprise`
(main.js) exists when Gradio runs the `js_on_load` of a component. Like those of Gradio's own scripts, their paths are
relative to the page, so any `root_path`, proxy or tunnel that works for Gradio works for them.
"""

from __future__ import annotations

import hashlib
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import FileResponse, Response
from starlette.routing import Route

from web.ui import page_version
from web.ui.bundle import bundle, imported_modules

if TYPE_CHECKING:
    from starlette.requests import Request

    from web.ui.i18n import Translations

STATIC = Path(__file__).parents[1] / "static"
PLACE = "/reprise/static/"
PLAYOUT = "player/playout/playout_worklet.js"
GROUPS = (
    "card", "check", "clip", "connection", "examples", "history", "library", "links", "list", "owner", "player", "rail",
    "recogniser", "script", "shell", "status", "takes", "welcome", "words", "writing",
)  # fmt: skip
# The page's name, shown on a slow network above Gradio's spinner until the first component is mounted. The other styles
# arrive with Gradio's scripts.
_LOADING = (
    "html:not([data-rp-mounted]) body::before{content:'Reprise…';position:fixed;inset:0 0 9rem;display:grid;"
    "place-items:center;font:600 1.45rem Inter,sans-serif;color:#79716b;pointer-events:none;"
    "animation:rp-loading .3s .4s backwards}"
    "@keyframes rp-loading{from{opacity:0}}"
)
_TYPES = {".js": "text/javascript", ".woff2": "font/woff2"}
# Inter for Latin letters; other scripts use system fonts. Unicode ranges as on Google Fonts.
_FONTS = {
    "inter-latin": "U+0000-00FF,U+0131,U+0152-0153,U+02BB-02BC,U+02C6,U+02DA,U+02DC,U+0304,U+0308,U+0329,U+2000-206F,"
    "U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215,U+FEFF,U+FFFD",
    "inter-latin-ext": "U+0100-02BA,U+02BD-02C5,U+02C7-02CC,U+02CE-02D7,U+02DD-02FF,U+0304,U+0308,U+0329,U+1D00-1DBF,"
    "U+1E00-1E9F,U+1EF2-1EFF,U+2020,U+20A0-20AB,U+20AD-20C0,U+2113,U+2C60-2C7F,U+A720-A7FF",
}


class Modules:
    """The modules of one server. Create it after the page: only labels requested by then are included."""

    def __init__(self, translations: Translations) -> None:
        self._translations = translations
        self._files = {
            path.relative_to(STATIC).as_posix(): path for path in sorted(STATIC.rglob("*")) if path.suffix in _TYPES
        }
        self._sources = {name: path.read_text("utf-8") for name, path in self._files.items() if path.suffix == ".js"}
        self._pages = {f"page-{language}.js": self._page_script(language) for language in translations.languages}
        contents = [name.encode() + path.read_bytes() for name, path in self._files.items()]
        contents += [name.encode() + text.encode() for name, text in self._pages.items()]
        self.version = hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]

    def routes(self) -> list[Route]:
        """Return the routes for Gradio's `launch`."""
        return [Route(f"{PLACE}{self.version}/{{name:path}}", self._answer, methods=["GET"])]

    def head(self, accepted: str, page: str) -> str:
        """Return HTML for the start of the page's `<head>`.

        accepted: the browser's Accept-Language header. page: the page's version (`page_version`), read by server.js.
        """
        texts = self._translations.texts_for(accepted)
        tags = [f'<meta name="{page_version.META}" content="{page}">']
        tags += [f'<meta name="description" content="{escape(texts("heading.tagline"))}">']
        tags += [f'<script type="module" src="{self._path(f"page-{texts.language}.js")}"></script>']
        tags += [f'<link rel="modulepreload" href="{self._path(name)}">' for name in self._worklets()]
        return "".join([*tags, f"<style>{self._faces()}{_LOADING}</style>"])

    def _worklets(self) -> list[str]:
        """Return the modules of the playback worklet. Browsers would request them at the first click on Speak."""
        return imported_modules(PLAYOUT, self._sources)

    def _faces(self) -> str:
        """Return the `@font-face` rules. Browsers only load the fonts that a page needs."""
        return "".join(
            f"@font-face{{font-family:Inter;font-weight:100 900;font-display:swap;unicode-range:{letters};"
            f'src:url("{self._path(f"fonts/{name}.woff2")}") format("woff2")}}'
            for name, letters in _FONTS.items()
        )

    def _path(self, name: str) -> str:
        return escape(f".{PLACE}{self.version}/{name}")

    async def _answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name in self._files:
            path = self._files[name]
            return FileResponse(path, media_type=_TYPES[path.suffix])
        if name in self._pages:
            return Response(self._pages[name], media_type=_TYPES[".js"])
        return Response(status_code=404)

    def _page_script(self, language: str) -> str:
        texts = self._translations.browser_texts(language, GROUPS)
        examples = self._translations.browser_texts("en", ("examples",), labels=False)
        words = (
            'import { translateGradio, useWords } from "./ui/words.js";\n'
            f"useWords({_json(texts)}, {_json(examples)}, {_json(language)});\n"
            f"translateGradio(window.gradio_config, {_json(language)});\n"
        )
        return bundle(["words.js", "main.js"], {**self._sources, "words.js": words})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
