"""The recogniser is installed while the server runs, and says why where it is not."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import EngineBusy, EngineFailed, InvalidOption
from storage import Storage
from studio import recognition as module
from studio.recognition import Installation, Recognition, can_install, pip_install
from tests.support.waiting import until

PACKAGE = "faster-whisper>=1.1,<2"


class Machine:
    """Whether the package is there, and which models were loaded."""

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
def recognition(machine: Machine, storage: Storage) -> Recognition:
    return Recognition(storage.settings, machine.install)


def test_it_is_installed_with_its_model_and_ready_at_once(
    recognition: Recognition, machine: Machine, storage: Storage
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
    assert Recognition(storage.settings).name == recognition.name, "the choice outlives the process"


def test_why_it_cannot_be_installed_is_told_and_it_can_be_tried_again(
    recognition: Recognition, machine: Machine
) -> None:
    machine.failure = EngineFailed("engine.recogniser_not_installed", why="no space left", package=PACKAGE)
    recognition.install("tiny")
    until(lambda: recognition.installation.step is None)
    assert recognition.installation.failure == machine.failure.sentence
    assert "no space left" in str(recognition.installation.failure)
    machine.failure = None
    recognition.install("tiny")
    until(lambda: recognition.installation.step is None)
    assert recognition.installation.failure is None
    assert machine.loaded == ["tiny"]


def test_only_known_models_and_folders_with_a_model(recognition: Recognition, tmp_path: Path) -> None:
    for model in ("huge", "", "../tiny", str(tmp_path)):
        with pytest.raises(InvalidOption, match="There is no recogniser"):
            recognition.install(model)
    (tmp_path / "model.bin").touch()
    recognition.choose(str(tmp_path))
    assert recognition.name == str(tmp_path)


def test_pip_says_why_it_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # as without a connection
    seen: list[str] = []
    with pytest.raises(EngineFailed, match="No matching distribution found for reprise-has-no-such-package"):
        pip_install("reprise-has-no-such-package", seen.append)
    assert seen == []


def test_pip_is_told_what_to_leave_as_it_is_and_reports_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake, told = tmp_path / "python", tmp_path / "told"
    fake.write_text(
        f"#!/bin/sh\necho Collecting 'ctranslate2<5,>=4.0'\nfor last; do :; done; echo $last > {told}\n"
        f'while [ "$1" != --constraint ]; do shift; done; cat "$2" >> {told}\n'
    )
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    seen: list[str] = []
    pip_install(PACKAGE, seen.append)
    assert seen == ["ctranslate2"]
    first, *installed = told.read_text().splitlines()
    assert first == PACKAGE
    assert any(line.startswith("torch==") for line in installed), "torch is in use"


def test_an_environment_of_somebody_else_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_given: True)
    assert can_install()
    monkeypatch.setattr("os.access", lambda *_given: False)
    assert not can_install()
