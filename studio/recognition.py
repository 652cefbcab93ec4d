"""Speech recognition: the choice of the model, its installation, and transcription.

faster-whisper is an optional package. If allowed, it can be installed while the server runs, without a restart.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import subprocess
import sys
import sysconfig
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, Protocol

from engine.audio.transcription import (
    MODEL,
    PACKAGE,
    HeardWord,
    TranscribedClip,
    can_transcribe,
    check_model,
    load_model,
    model_is_here,
    transcribe,
    transcribe_words,
    transcript_of,
)
from engine.errors import EngineBusy, EngineFailed
from engine.messages import UserMessage
from studio.user_messages import user_message

if TYPE_CHECKING:
    from engine.audio.decode import Source
    from storage.server_settings import ServerSettings

log = logging.getLogger(__name__)

SETTING = "recogniser"  # its name in storage
_COLLECTING = re.compile(r"(?:Collecting|Downloading|Installing) (\S+)")

Report = Callable[[str], object]
Installer = Callable[[str, Report], object]


class Recogniser(Protocol):
    """A speech recogniser."""

    @property
    def name(self) -> str:
        """Name of its model."""

    def transcribe(self, sound: bytes, language: str = "") -> str:
        """Transcribe an audio file. language: of the words, "" if unknown. Raises EngineFailed."""

    def transcribe_words(self, sound: bytes, language: str = "") -> Sequence[HeardWord]:
        """Like `transcribe`, with the time of each word."""


@dataclass(frozen=True)
class Installation:
    """State of an installation. step: the current one; None when it is over. part: the package that pip processes."""

    step: Literal["package", "model"] | None = None
    part: str = ""
    failure: UserMessage | None = None


class WhisperRecogniser:
    """faster-whisper with the model chosen for this server. Thread-safe."""

    def __init__(self, settings: ServerSettings, installer: Installer | None = None) -> None:
        """installer: installs a requirement and reports each package; pip in this environment by default."""
        self._settings, self._installer = settings, installer or pip_install
        self._lock = threading.Lock()
        self._installation = Installation()

    @property
    def name(self) -> str:
        return self._settings.get(SETTING) or MODEL

    @property
    def ready(self) -> bool:
        return can_transcribe()

    @property
    def model_is_here(self) -> bool:
        """Whether the chosen model is on this machine; else it is downloaded before the first transcript."""
        return model_is_here(self.name)

    @property
    def installation(self) -> Installation:
        """State of the current or the last installation."""
        return self._installation

    def transcribe(self, sound: Source, language: str = "") -> str:
        """Like `engine.audio.transcription.transcribe`, with the chosen model."""
        return transcribe(sound, self.name, language)

    def transcribe_words(self, sound: Source, language: str = "") -> list[HeardWord]:
        """Like `engine.audio.transcription.transcribe_words`, with the chosen model."""
        return transcribe_words(sound, self.name, language)

    def transcript_of(
        self, sound: Source, language: str = "", *, prompt: str = "", word_times: bool = False
    ) -> TranscribedClip:
        """Like `engine.audio.transcription.transcript_of`, with the chosen model."""
        return transcript_of(sound, self.name, language, prompt=prompt, word_times=word_times)

    def choose(self, model: str) -> None:
        """Choose the model. The choice is stored across restarts. Raises InvalidOption."""
        check_model(model)
        self._settings.put(SETTING, model)

    def install(self, model: str) -> None:
        """Choose a model; in the background, install the package if it is missing, and download and load the model.

        Raises InvalidOption for an unknown model, EngineBusy while an installation is under way.
        """
        check_model(model)
        with self._lock:
            if self._installation.step:
                raise EngineBusy("engine.recogniser_installing")
            self.choose(model)
            self._installation = Installation("model" if self.ready else "package")
        threading.Thread(target=self._install, args=(model,), name="reprise-install", daemon=True).start()

    def _install(self, model: str) -> None:
        failure = None
        try:
            if not self.ready:
                self._installer(PACKAGE, self._report)
            self._installation = Installation("model")
            load_model(model)
        except Exception as error:
            failure = user_message(error)
            log.warning("the recogniser could not be installed: %s", failure)
        self._installation = Installation(failure=failure)

    def _report(self, part: str) -> None:
        self._installation = replace(self._installation, part=part)


def can_install() -> bool:
    """Return whether pip is available and can install packages into this environment."""
    places = sysconfig.get_paths()
    managed = sys.prefix == sys.base_prefix and (Path(places["stdlib"]) / "EXTERNALLY-MANAGED").exists()
    return importlib.util.find_spec("pip") is not None and os.access(places["purelib"], os.W_OK) and not managed


def pip_install(requirement: str, report: Report) -> None:
    """Install a package and its dependencies without changing installed packages, which may be in use.

    report: called with the name of each package. Raises EngineFailed with pip's reason.
    """
    with TemporaryDirectory() as folder:
        constraints = Path(folder) / "installed.txt"
        constraints.write_text("\n".join(sorted(_installed())), "utf-8")
        command = [sys.executable, "-m", "pip", "install", "--no-user", "--no-input", "--disable-pip-version-check"]
        command += ["--progress-bar", "off", "--constraint", str(constraints), requirement]
        output = deque[str](maxlen=200)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
            assert pip.stdout is not None, "it is a pipe"
            for line in pip.stdout:
                output.append(line.strip())
                if found := _COLLECTING.match(output[-1]):
                    report(re.split(r"[<>=!~\[;-]", found[1])[0])
    if pip.returncode:
        why = next((line for line in reversed(output) if line.startswith("ERROR:")), output[-1] if output else "pip")
        raise EngineFailed(
            "engine.recogniser_not_installed", why=why.removeprefix("ERROR:").strip()[:200], package=requirement
        )
    importlib.invalidate_caches()


def _installed() -> set[str]:
    """Return the packages of this environment as pip constraints."""
    return {f"{each.name}=={each.version}" for each in importlib.metadata.distributions() if each.name and each.version}
