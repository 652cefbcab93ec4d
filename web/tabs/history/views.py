"""Views of the history for the page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from studio.provenance.provenance import public_name
from web.downloads.sounds import sound_facts

if TYPE_CHECKING:
    from storage.repositories.takes import TakeRecord
    from storage.repositories.voices.usage import StorageUse
    from web.downloads.links import DownloadLinks
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

RETENTION_DAYS = (1, 7, 30, 90, 365, 3650)
_MEGABYTE = 1_000_000


def entry_view(record: TakeRecord, owner: Owner, links: DownloadLinks) -> dict[str, Any]:
    """Return an entry for entry_row.js. Its links are valid for minutes."""
    facts = sound_facts(record, owner, links)
    return {
        "id": record.id,
        "when": record.created.isoformat(),
        "text": record.text,
        "voice": record.voice_name,
        "seed": record.seed,
        "settings": facts["settings"],
        "seconds": record.duration,
        "factor": record.real_time_factor,
        "model": public_name(record.model),
        "ending": record.stop_reason,
        "starred": record.starred,
        "script": record.script_id is not None,
        "links": facts["links"],
        "facts": facts,
    }


def retention_choices(current: int, texts: Texts) -> list[tuple[str, int]]:
    """Return the retention times to choose from, in days, including the current one."""
    return [(retention_time(days, texts), days) for days in sorted({*RETENTION_DAYS, current})]


def retention_time(days: int, texts: Texts) -> str:
    """Return a retention time in words."""
    return texts("history.day") if days == 1 else texts("history.days", days=days)


def storage_use_html(use: StorageUse, texts: Texts) -> str:
    """Return HTML of the storage used by takes and voices."""
    text = texts("history.used", takes=megabytes(use.takes, texts), voices=megabytes(use.voices, texts))
    return f'<p class="rp-facts">{escape(text)}</p>'


def question_html(question: str) -> str:
    """Return HTML of a question before permanent deletion."""
    return f'<p class="rp-question" role="alert">{escape(question)}</p>'


def megabytes(size: int, texts: Texts) -> str:
    """Format a number of bytes as megabytes."""
    return texts.number(size / _MEGABYTE, 1)
