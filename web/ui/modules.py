"""The ES modules of `web/static` as files, and one module per language with the page's words.

All have paths below a hash of their contents, so that browsers keep them for ever and never mix versions. The page's
`<head>` (`head`) loads them before Gradio's own script: module scripts run in document order, so `window.reprise`
(main.js) is there when Gradio runs the `js_on_load` of a component. Paths in it are relative to the page, as those of
Gradio's own scripts are; so any `root_path`, proxy or tunnel works that works for Gradio.
"""

from __future__ import annotations

import hashlib
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import FileResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

    from web.ui.i18n import Translations

STATIC = Path(__file__).parents[1] / "static"
PLACE = "/reprise/static/"
GROUPS = (
    "card", "clip", "connection", "examples", "history", "library", "owner", "player", "script", "status", "takes",
    "writing",
)  # fmt: skip
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
_TYPE = "text/javascript"


class Modules:
    """The modules of one server. Labels must have been asked of `translations` before."""

    def __init__(self, translations: Translations) -> None:
        self._translations = translations
        self._files = {path.relative_to(STATIC).as_posix(): path for path in sorted(STATIC.rglob("*.js"))}
        self._words = {f"words/{language}.js": self._words_of(language) for language in translations.languages}
        contents = [name.encode() + path.read_bytes() for name, path in self._files.items()]
        contents += [name.encode() + text.encode() for name, text in self._words.items()]
        self.version = hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]

    def routes(self) -> list[Route]:
        """For Gradio's `launch`."""
        return [Route(f"{PLACE}{self.version}/{{name:path}}", self._answer, methods=["GET"])]

    def head(self, accepted: str) -> str:
        """HTML for the start of the page's `<head>`. `accepted`: the browser's Accept-Language header."""
        words = f"words/{self._translations.language(accepted)}.js"
        preloads = [name for name in self._files if not name.endswith(("main.js", "_worklet.js"))]
        tags = [f'<link rel="modulepreload" href="{self._path(name)}">' for name in preloads]
        tags += [f'<script type="module" src="{self._path(name)}"></script>' for name in (words, "main.js")]
        return "".join(tags)

    def _path(self, name: str) -> str:
        return escape(f".{PLACE}{self.version}/{name}")

    async def _answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name in self._files:
            return FileResponse(self._files[name], media_type=_TYPE, headers=_FOR_EVER)
        if name in self._words:
            return Response(self._words[name], media_type=_TYPE, headers=_FOR_EVER)
        return Response(status_code=404)

    def _words_of(self, language: str) -> str:
        texts = self._translations.texts(language, GROUPS)
        examples = self._translations.texts("en", ("examples",), labels=False)
        return (
            'import { translateGradio, useWords } from "../ui/words.js";\n'
            f"useWords({_json(texts)}, {_json(examples)});\n"
            f"translateGradio(window.gradio_config, {_json(language)});\n"
        )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
