"""Paths that tests use."""

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
