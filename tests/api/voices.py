"""Voices of tests that share a library."""

from storage import VoiceLibrary


def delete_voices(library: VoiceLibrary, owner: str) -> None:
    """Delete all voices of an owner, including the trash."""
    for record in library.list(owner=owner):
        if not record.shared:
            library.delete(record.id, owner=owner)
    library.empty_trash(owner=owner)
