"""Places that tests read from."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
MINIATURE = FIXTURES / "s2_tiny"  # a release in miniature, with the tensors that the public reference computed from it
QWEN = FIXTURES / "qwen3_tts_tiny"  # the same for Qwen3-TTS; see `scripts/make_qwen3_tts.py`
SPEECH = FIXTURES / "speech"
CLIP = SPEECH / "flite_slt.flac"  # three seconds of a woman's voice
BUNDLED = ROOT / "assets" / "bundled"


def in_memory(room: int = 0) -> Path | None:
    """The folder for files in memory; None where the system has none, or fewer than `room` bytes are free in it."""
    folder = Path("/dev/shm")
    usable = folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= room
    return folder if usable else None
