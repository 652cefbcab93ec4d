"""The forms that were saved last. A page whose connection broke off during Save may send a form again."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from web.tabs.new_voice.clips import ChosenClip
    from web.ui.payloads import Payload

MAX_FORMS = 200


def form_digest(form: Payload, clips: Sequence[ChosenClip] = ()) -> bytes:
    """Return a digest of a form's fields and of its clips, whose files may be uploaded again under other paths."""
    digest = hashlib.blake2b(form.model_dump_json().encode())
    for clip in clips:
        with clip.path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
        digest.update(repr((clip.words, clip.start, clip.end)).encode())
    return digest.digest()


class SavedForms:
    """Digests of the latest saved forms, by the id of the voice that was made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._digests: dict[str, bytes] = {}  # the oldest first

    def add(self, voice_id: str, digest: bytes) -> None:
        """Note that a voice was made from a form."""
        with self._lock:
            self._digests[voice_id] = digest
            while len(self._digests) > MAX_FORMS:
                del self._digests[next(iter(self._digests))]

    def made(self, voice_id: str, digest: bytes) -> bool:
        """Whether a voice was made from this form."""
        with self._lock:
            return self._digests.get(voice_id) == digest
