"""The history as the page shows it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from studio.provenance.origin import public_name
from web.downloads.sounds import sound_facts

if TYPE_CHECKING:
    from storage.repositories.generations import GenerationRecord
    from storage.repositories.library.usage import StorageUse
    from web.downloads.links import DownloadLinks
    from web.identity.owners import Owner
    from web.ui.i18n import Words

RETENTION_DAYS = (1, 7, 30, 90, 365, 3650)
_MEGABYTE = 1_000_000


def entry_view(record: GenerationRecord, owner: Owner, links: DownloadLinks) -> dict[str, Any]:
    """An entry, as rows.js takes it, with links that are valid for minutes."""
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


def retention_choices(current: int, words: Words) -> list[tuple[str, int]]:
    """The retention times to choose from, in days, with the current one, which may be none of the usual."""
    return [(words("history.days", days=days), days) for days in sorted({*RETENTION_DAYS, current})]


def storage_use_html(use: StorageUse, words: Words) -> str:
    """HTML of what takes and voices occupy."""
    text = words("history.used", takes=megabytes(use.generations, words), voices=megabytes(use.voices, words))
    return f'<p class="rp-facts">{escape(text)}</p>'


def question_html(question: str) -> str:
    """HTML of a question before something is deleted for good."""
    return f'<p class="rp-question" role="alert">{escape(question)}</p>'


def megabytes(size: int, words: Words) -> str:
    """A number of bytes in megabytes, as text."""
    return words.number(size / _MEGABYTE, 1)
