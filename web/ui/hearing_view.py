"""View of a recogniser's result for heard.js."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storage.repositories.scripts.hearings import Hearing


def hearing_view(text: str, hearing: Hearing, *, under_way: bool = False) -> dict[str, Any]:
    """Return the text in parts, each with whether it is wrong. under_way: whether it is being checked or repaired."""
    parts: list[tuple[str, bool]] = []
    end = 0
    for start, stop in hearing.marks:
        parts += [(text[end:start], False), (text[start:stop], True)]
        end = stop
    parts.append((text[end:], False))
    return {
        "parts": [part for part in parts if part[0]],
        "heard_text": hearing.heard,
        "right": not hearing.word_error,
        "under_way": under_way,
    }
