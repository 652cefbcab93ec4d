"""Check whether a file was made by Reprise, in the Status tab.

Event `check`: the upload (`path`, `name`), `number`. Answer: `name`, `verdict` ("ours", "marked", "not_ours", or "bad"
for a file that cannot be read), `lines` (messages), `number`, `nonce` (differs each time).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput
from studio.provenance.provenance import check_file, voice_names
from web.gradio_internals import event_value
from web.ui.events import with_nonce
from web.ui.messages import error_message
from web.uploads.file_pool import FilePool
from web.uploads.files import uploaded_name, uploaded_path

if TYPE_CHECKING:
    from web.context import WebContext


class FileCheckHandlers:
    """Checks uploaded files and deletes them immediately."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._files = FilePool(context.folder)

    async def check_file(self, token: Any, event: gr.EventData, request: gr.Request) -> dict[str, Any]:
        """Output: the answer."""
        texts, value = self._context.texts(request), event_value(event)
        try:
            verdict, lines = await self._files.run(request, value, partial(self._check, value, token, request))
        except Exception as error:
            verdict, lines = "bad", [error_message(error, texts)]
        number = value.get("number") if isinstance(value, dict) else None
        return with_nonce({"name": uploaded_name(value), "verdict": verdict, "lines": lines, "number": number})

    def _check(self, value: Any, token: Any, request: gr.Request) -> tuple[str, list[str]]:
        """Return the answer's verdict and lines. Raises RepriseError for a file that cannot be read."""
        context, texts = self._context, self._context.texts(request)
        owner, path = context.owner(token, request), uploaded_path(value, context.folder)
        if path is None:
            raise InvalidInput("notice.upload_gone")
        checked = check_file(path)
        names = voice_names(checked.provenance, context.storage.voices, owner.key) if checked.provenance else ()
        verdict = "ours" if checked.provenance else "marked" if checked.ours else "not_ours"
        return verdict, [texts.write(message) for message in checked.messages(names)]
