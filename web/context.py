"""Services shared by the page's handlers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studio.context import AppContext
from web.downloads.links import DownloadLinks
from web.downloads.scripts import script_producer
from web.downloads.sounds import clip_producer, take_producer
from web.downloads.voices import archive_producer, voice_producer
from web.identity.owners import OwnerResolver, owner_mode
from web.limits.budgets import Budgets

if TYPE_CHECKING:
    import gradio as gr

    from web.identity.owners import Deployment, Owner
    from web.ui.i18n import Texts, Translations

SIGNING = "signing"  # name of the secret that signs tokens and links


@dataclass(frozen=True)
class WebContext(AppContext):
    """The services of the application and of the page.

    owners: identifies visitors. links: signs download links. folder: the upload folder (Gradio's GRADIO_TEMP_DIR),
    which is deleted when the server stops. budgets: limits per visitor.
    """

    owners: OwnerResolver
    links: DownloadLinks
    translations: Translations
    folder: Path
    budgets: Budgets = field(default_factory=Budgets)

    def owner(self, token: Any, request: gr.Request | None) -> Owner:
        """Return the owner whose data an event reads or changes. token: sent by the page. Raises InvalidInput."""
        return self.owners.resolve(request, token)

    def texts(self, request: gr.Request | None) -> Texts:
        """Return the texts in the language of the browser that sent a request."""
        return self.translations.texts(request)

    def label(self, key: str) -> str:
        """Return a marker that Gradio translates in the browser: for labels, infos, placeholders and buttons."""
        return self.translations.label(key)


def create_context(
    app: AppContext, folder: str | Path, translations: Translations, deployment: Deployment, owners: str
) -> WebContext:
    """Create the page's services on top of the application's. owners: as for `serve`. Raises InvalidOption."""
    return WebContext(
        **vars(app),
        owners=OwnerResolver(owner_mode(owners, deployment), app.storage.voices.secret(SIGNING)),
        links=create_links(app, deployment.root_path, translations),
        translations=translations,
        folder=Path(folder),
    )


def create_links(app: AppContext, root_path: str = "", translations: Translations | None = None) -> DownloadLinks:
    """Create the download links for voices, clips, takes and scripts."""
    voices = app.storage.voices
    producers = {
        "voice": voice_producer(voices),
        "voices": archive_producer(voices),
        "clip": clip_producer(voices),
        "take": take_producer(app.takes),
        "script": script_producer(app.storage.scripts),
    }
    secret = voices.secret(SIGNING)
    return DownloadLinks(secret, producers, root_path=root_path, translations=translations)
