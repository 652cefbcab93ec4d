"""Installation of the recogniser while the server runs, and its errors."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import EngineBusy, EngineFailed, InvalidOption
from storage import Storage
from studio import recognition as module
from studio.recognition import Installation, WhisperRecogniser, can_install, pip_install
from tests.support.waiting import until

PACKAGE = "faster-whisper>=1.1,<2"


class Machine:
    """Simulates the installation of the package, and records loaded models."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.installed, self.loaded = False, list[str]()
        self.go_on = threading.Event()
        self.go_on.set()
        self.failure: Exception | None = None
        monkeypatch.setattr(module, "can_transcribe", lambda: self.installed)
        monkeypatch.setattr(module, "load_model", self.load)

    def install(self, requirement: str, report: Callable[[str], object]) -> None:
        assert requirement == PACKAGE
        report("ctranslate2")
        assert self.go_on.wait(60)
        if self.failure:
            raise self.failure
        self.installed = True

    def load(self, model: str) -> None:
        self.loaded.append(model)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.fixture
def recognition(machine: Machine, storage: Storage) -> WhisperRecogniser:
    return WhisperRecogniser(storage.settings, machine.install)


def test_recogniser_and_model_are_installed_and_ready(
    recognition: WhisperRecogniser, machine: Machine, storage: Storage
) -> None:
    machine.go_on.clear()
    assert (recognition.ready, recognition.name) == (False, "small")
    recognition.install("tiny")
    until(lambda: recognition.installation.part)
    assert recognition.installation == Installation("package", "ctranslate2")
    with pytest.raises(EngineBusy, match="being installed already"):
        recognition.install("base")
    assert recognition.name == "tiny"
    machine.go_on.set()
    until(lambda: recognition.installation.step is None)
    assert (recognition.ready, recognition.installation) == (True, Installation())
    assert machine.loaded == ["tiny"]
    assert WhisperRecogniser(storage.settings).name == recognition.name, "the choice is stored"


def test_failed_installation_is_reported_and_can_be_repeated(recognition: WhisperRecogniser, machine: Machine) -> None:
    machine.failure = EngineFailed("engine.recogniser_not_installed", why="no space left", package=PACKAGE)
    recognition.install("tiny")
    until(lambda: recognition.installation.step is None)
    assert recognition.installation.failure == machine.failure.message
    assert "no space left" in str(recognition.installation.failure)
    machine.failure = None
    recognition.install("tiny")
    until(lambda: recognition.installation.step is None)
    assert recognition.installation.failure is None
    assert machine.loaded == ["tiny"]


def test_only_known_models_and_model_folders_are_accepted(recognition: WhisperRecogniser, tmp_path: Path) -> None:
    for model in ("huge", "", "../tiny", str(tmp_path)):
        with pytest.raises(InvalidOption, match="There is no recogniser"):
            recognition.install(model)
    (tmp_path / "model.bin").touch()
    recognition.choose(str(tmp_path))
    assert recognition.name == str(tmp_path)


def test_pip_failure_contains_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # simulates a missing connection
    monkeypatch.setenv("PIP_USER", "1")  # as some hosts set it, for packages outside environments
    seen: list[str] = []
    with pytest.raises(EngineFailed, match="No matching distribution found for reprise-has-no-such-package"):
        pip_install("reprise-has-no-such-package", seen.append)
    assert seen == []


def test_pip_gets_constraints_and_reports_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake, arguments = tmp_path / "python", tmp_path / "arguments"
    fake.write_text(
        f"#!/bin/sh\necho Collecting 'ctranslate2<5,>=4.0'\nfor last; do :; done; echo $last > {arguments}\n"
        f'while [ "$1" != --constraint ]; do shift; done; cat "$2" >> {arguments}\n'
    )
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    seen: list[str] = []
    pip_install(PACKAGE, seen.append)
    assert seen == ["ctranslate2"]
    first, *installed = arguments.read_text().splitlines()
    assert first == PACKAGE
    assert any(line.startswith("torch==") for line in installed), "torch is in use"


def test_read_only_environment_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_given: True)
    assert can_install()
    monkeypatch.setattr("os.access", lambda *_given: False)
    assert not can_install()
