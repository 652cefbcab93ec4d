"""What every part of the page works with, and who asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from web.limits.budgets import Budgets
from web.tabs.speak.running import Running

if TYPE_CHECKING:
    import gradio as gr

    from storage import Storage
    from studio.model_manager import Engines
    from studio.takes.kept import Takes
    from web.downloads.links import Links
    from web.identity.owners import Owner, Owners
    from web.ui.i18n import Translations, Words


@dataclass(frozen=True)
class House:
    """The engine, what is kept, and how visitors are told apart, spoken to and handed files.

    folder: where the page's uploads lie (Gradio's GRADIO_TEMP_DIR); no place for anything that is kept.
    takes: what was spoken, in the history or not. budgets: what visitors may have at once. running: takes under way.
    """

    engine: Engines
    studio: Storage
    owners: Owners
    links: Links
    translations: Translations
    folder: Path
    takes: Takes
    budgets: Budgets = field(default_factory=Budgets)
    running: Running = field(default_factory=Running)

    def owner(self, token: Any, request: gr.Request | None) -> Owner:
        """Whose voices an event is about. token: as the page sent it. Raises InvalidInput."""
        return self.owners.owner_of(request, token)

    def words(self, request: gr.Request | None) -> Words:
        """The words for whoever sent this request."""
        return self.translations.words(request)

    def label(self, key: str) -> str:
        """A mark that Gradio translates in the browser: labels, infos, placeholders, values of buttons."""
        return self.translations.label(key)
