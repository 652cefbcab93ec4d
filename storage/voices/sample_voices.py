"""The sample voices of the distribution: reading and installing them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from engine.errors import InvalidVoiceFile, RepriseError
from engine.voice import Voice
from storage.repositories.voices.shared_voices import SampleVoice
from storage.voices.library import VoiceLibrary

SAMPLES = Path(__file__).parents[2] / "assets" / "samples"
INDEX = "index.json"

log = logging.getLogger(__name__)


def read_sample_voices(folder: Path = SAMPLES) -> list[SampleVoice]:
    """Read the sample voices of a folder: voice files, and `index.json` with a demo sentence for each.

    Raises InvalidVoiceFile, and OSError for missing files.
    """
    index = (folder / INDEX).read_text("utf-8")
    try:
        entries: list[tuple[str, str]] = [_entry(voice) for voice in json.loads(index)["voices"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidVoiceFile("voicefile.no_index", file=str(folder / INDEX)) from error
    return [SampleVoice(Voice.from_bytes((folder / file).read_bytes()), demo) for file, demo in entries]


def install_samples(library: VoiceLibrary, folder: Path = SAMPLES) -> None:
    """Make the folder's voices the shared voices of a library; write nothing if they already are.

    Errors are logged, not raised: the product works without samples.
    """
    try:
        library.share(read_sample_voices(folder))
    except (OSError, RepriseError) as error:
        log.warning("The sample voices could not be put into the library. %s", error)


def _entry(voice: Any) -> tuple[str, str]:
    file, demo = voice["file"], voice["demo"]
    if not (isinstance(file, str) and isinstance(demo, str)):
        raise TypeError("a file and a sentence are text")
    return file, demo
