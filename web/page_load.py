"""Handlers of page events: load, and changes of voices."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput
from storage.errors import DatabaseUnavailable
from studio.provenance.provenance import public_name
from web.ui.events import broadcast_change, skip_on_error
from web.ui.messages import error_message, notice
from web.ui.payloads import parse_payload
from web.ui.voice_picker import SelectedVoice, select_voice, update_choices, voice_label

if TYPE_CHECKING:
    from studio.voices.available_voices import ListedVoice
    from web.context import WebContext
    from web.ui.i18n import Texts

Updates = tuple[Any, ...]


class PageLoadHandlers:
    """Event handlers of the page as a whole."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    def load_page(self, token: Any, remembered: Any, request: gr.Request) -> Updates:
        """Outputs: heading, token to store, welcome, notice, voice picker, change broadcast (it fills the tabs)."""
        context, texts = self._context, self._context.texts(request)
        try:
            return self._load(token, parse_payload(SelectedVoice, voice=remembered).voice, request)
        except (InvalidInput, DatabaseUnavailable) as error:
            message = notice(error_message(error, texts), "bad")
            return heading_html(context, request), gr.skip(), gr.skip(), message, gr.skip(), gr.skip()

    def _load(self, token: Any, remembered: str, request: gr.Request) -> Updates:
        context, texts = self._context, self._context.texts(request)
        issued = context.owners.resolve_or_issue(request, token)
        message = notice(texts("owner.refused"), "bad") if issued.rejected else ""
        voices = context.voices.list(owner=issued.owner.key)
        picker = select_voice(voices, remembered, texts)
        welcome = self._welcome(voices, issued.owner.key)
        changes = {**broadcast_change("voices", "history"), "owner": context.owners.alias(issued.owner)}
        return heading_html(context, request), issued.token, welcome, message, picker, changes

    @skip_on_error(4)
    def refresh_page(self, selected: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: heading, welcome, voice picker, notice. The selection stays while its voice exists."""
        context, texts = self._context, self._context.texts(request)
        owner = context.owner(token, request).key
        voices = context.voices.list(owner=owner)
        voice_id = parse_payload(SelectedVoice, voice=selected).voice
        is_gone = voice_id and voices and all(voice.id != voice_id for voice in voices)
        message = notice(texts("voice.gone", name=voice_label(voices[0], texts)), "bad") if is_gone else gr.skip()
        picker = update_choices(voices, voice_id, texts)
        return heading_html(context, request), self._welcome(voices, owner), picker, message

    def _welcome(self, voices: Sequence[ListedVoice], owner: str) -> dict[str, bool]:
        """Return the value of the welcome: whether the owner has made a voice, or used one."""
        own = any(not voice.shared for voice in voices)
        return {"made": own or bool(self._context.storage.uses.all(owner=owner))}


def heading_html(context: WebContext, request: gr.Request | None) -> str:
    """Return HTML with the names of the page, the model and the visitor's account.

    Its data attributes are used by new_voice.css. request: None while the page is built.
    """
    engine, texts = context.engine, context.texts(request)
    licence = escape(texts.write(engine.info.notice))
    remarks = f'<details class="rp-model-notice"><summary>{licence}</summary></details>' if licence else ""
    name = f"<strong>{escape(public_name(engine.info.name))}</strong>"
    model = texts("heading.running", name=name, device=escape(engine.info.device))
    capabilities = engine.info.capabilities
    makes = "clones" if capabilities.clones else "describes" if capabilities.designs_voices else ""
    facts = {
        "makes": makes,
        "words": "" if capabilities.needs_transcript else "optional",
        "languages": "" if engine.info.capabilities.english_only else "many",
    }
    data = " ".join(f'data-{name}="{value}"' for name, value in facts.items())
    return f"""
<header class="rp-heading">
  <div><h1>Reprise</h1><p>{escape(texts("heading.tagline"))}</p></div>
  <aside class="rp-model" {data} aria-label="{escape(texts("heading.model"))}">
    <p>{model}</p>
    {_account_html(context.owners.account(request), texts)}
    {remarks}
  </aside>
</header>"""


def _account_html(name: str | None, texts: Texts) -> str:
    """Return HTML of who is logged in, with a link that logs out in this browser only; "" without accounts."""
    if name is None:
        return ""
    title = escape(texts("heading.logged_in", name=name))
    out = f'<a href="logout?all_session=false">{escape(texts("heading.log_out"))}</a>'
    return f'<p class="rp-account"><span title="{title}">{escape(name)}</span> {out}</p>'
