"""Services shared by the page's handlers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studio.context import AppContext
from web.limits.budgets import Budgets

if TYPE_CHECKING:
    import gradio as gr

    from web.downloads.links import DownloadLinks
    from web.identity.owners import Owner, OwnerResolver
    from web.ui.i18n import Texts, Translations


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
