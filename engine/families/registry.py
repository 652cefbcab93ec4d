"""Supported model families, by the `model_type` in a release's `config.json`."""

from collections.abc import Callable
from pathlib import Path

from engine.config import shown
from engine.errors import UnknownFamily
from engine.families.family import Release
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from engine.families.s2.release import S2Release
from engine.files.bounded import read_object

_READERS: dict[str, Callable[[Path], Release]] = {
    "fish_qwen3_omni": S2Release,
    "dual_ar": S2Release,
    "qwen3_tts": Qwen3TTSRelease,
}
_NAMES = ("S2", "S1", "Qwen3-TTS")


def read_release(folder: Path) -> Release:
    """Read the sizes and the tokenizer of the release in `folder`.

    Raises UnknownFamily if the family is not supported, and InvalidConfig, InvalidCheckpoint or a ReleaseError if the
    release cannot be used.
    """
    kind = read_object(folder / "config.json").get("model_type")
    if kind is None:
        raise UnknownFamily("release.no_family", known=_NAMES)
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise UnknownFamily(
            "release.unknown_family", family=kind[:60] if isinstance(kind, str) else shown(kind), known=_NAMES
        )
    return reader(folder)
