"""Paths that tests use, and compiled code for processes with paths of their own."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
MINIATURE = FIXTURES / "s2_tiny"  # a miniature release, with golden tensors of the public reference implementation
QWEN = FIXTURES / "qwen3_tts_tiny"  # the same for Qwen3-TTS; see `scripts/make_qwen3_tts.py`
SPEECH = FIXTURES / "speech"
CLIP = SPEECH / "flite_slt.flac"  # three seconds of a woman's voice
BUNDLED = ROOT / "assets" / "bundled"


def in_memory(room: int = 0) -> Path | None:
    """Return the folder for files in memory, or None if the system has none with `room` free bytes."""
    folder = Path("/dev/shm")
    usable = folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= room
    return folder if usable else None


def share_native_code(cache: Path) -> None:
    """Copy the compiled code of this process to `cache`, another one's XDG_CACHE_HOME: compiling takes seconds."""
    from engine.models.native.build import built_folder

    if (compiled := built_folder()).is_dir():
        shutil.copytree(compiled, cache / "reprise" / "native", dirs_exist_ok=True)
