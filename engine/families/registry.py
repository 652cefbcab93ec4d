"""The families that Reprise reads, by the `model_type` in a release's `config.json`."""

from collections.abc import Callable
from pathlib import Path

from engine.config import shown
from engine.errors import InvalidConfig
from engine.families.family import Release
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from engine.families.s2.release import S2Release
from engine.files.bounded import read_object

_READERS: dict[str, Callable[[Path], Release]] = {
    "fish_qwen3_omni": S2Release,
    "dual_ar": S2Release,
    "qwen3_tts": Qwen3TTSRelease,
}
_KNOWN = "fish_qwen3_omni (S2), dual_ar (S1) and qwen3_tts (Qwen3-TTS)"


def read_release(folder: Path) -> Release:
    """Read the sizes and the tokenizer of the release in `folder`.

    Raises InvalidConfig for a release of another family, and InvalidConfig, InvalidCheckpoint or a ReleaseError for one
    that cannot be used.
    """
    kind = read_object(folder / "config.json").get("model_type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise InvalidConfig(f"The model's config.json says model_type {shown(kind)}; Reprise reads {_KNOWN}.")
    return reader(folder)
