"""The library is built once for a source, a compiler and a processor, and what prevents it is one phrase."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from engine.models.native import build
from engine.models.native.build import NoNativeCode


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and a library that is not loaded yet, as in a new process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build, "_found", cache(build._found.__wrapped__))
    return tmp_path / "cache" / "reprise" / "native"


@pytest.fixture
def small_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A source that is compiled quickly. Tests of `native.run` build and use the real one."""
    source = tmp_path / "small.c"
    source.write_text("int reprise_register(void) { return 0; }\n")
    monkeypatch.setattr(build, "SOURCE", source)
    return source


def compiler(monkeypatch: pytest.MonkeyPatch, path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))


@pytest.mark.usefixtures("small_source")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_it_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    calls = tmp_path / "calls"
    compiler(monkeypatch, tmp_path / "counting", f'echo "$1" >> {calls}; exec cc "$@"')
    cc = str(tmp_path / "counting")
    path = build._built(cc)
    assert [each.name for each in folder.iterdir()] == [path.name]
    assert build._built(cc) == path
    assert calls.read_text().split() == ["--version", "-O3", "--version"]
    assert build.library().reprise_register() == 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_another_source_is_another_library(small_source: Path) -> None:
    path = build._built("cc")
    small_source.write_text(small_source.read_text() + "\n")
    assert build._built("cc") != path


@pytest.mark.usefixtures("small_source")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_compiler_may_have_a_launcher_and_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such as `ccache gcc`. Other options are another library."""
    calls = tmp_path / "calls"
    compiler(monkeypatch, tmp_path / "launcher", f'echo "$1 $2" >> {calls}; exec "$@"')
    launcher = tmp_path / "launcher"
    monkeypatch.setenv("CC", f"{launcher} cc  -DFAST")
    assert build.library().reprise_register() == 0
    assert calls.read_text().splitlines() == ["cc -DFAST"] * 2
    assert build._key([str(launcher), "cc", "-DFAST"]) != build._key([str(launcher), "cc"])


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_path_of_the_compiler_may_contain_a_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler(monkeypatch, tmp_path / "my compiler", 'exec cc "$@"')
    assert build._compiler() == [str(tmp_path / "my compiler")]
    for unset in ("", " "):
        monkeypatch.setenv("CC", unset)
        assert build._compiler() == [shutil.which("cc")]


def test_a_missing_compiler_is_a_phrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(NoNativeCode, match=r"^no C compiler$"):
        build.library()


def test_a_compiler_that_fails_is_a_phrase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    compiler(monkeypatch, tmp_path / "failing", '[ "$1" = --version ] && exit 0; echo "rows.c: no room" >&2; exit 1')
    with pytest.raises(NoNativeCode, match=r"^the C compiler failed: rows.c: no room$"):
        build.library()
    assert list(folder.iterdir()) == [], "nothing half-built is left"


def test_a_failure_is_not_repeated_in_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model asks for the library several times, and a compiler that hangs takes two minutes each time."""
    calls = tmp_path / "calls"
    compiler(monkeypatch, tmp_path / "failing", f'echo "$1" >> {calls}; exit 1')
    for _ in range(3):
        with pytest.raises(NoNativeCode, match="exit status 1"):
            build.library()
    assert calls.read_text().split() == ["--version"]


def test_a_file_that_is_no_library_is_a_phrase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler(
        monkeypatch,
        tmp_path / "lying",
        'for last; do :; done; while [ "$1" ]; do [ "$1" = -o ] && : > "$2"; shift; done',
    )
    with pytest.raises(NoNativeCode, match=r"too short|invalid"):
        build.library()


def test_a_cache_that_cannot_be_written_is_a_phrase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compiler(monkeypatch, tmp_path / "fine", "exit 0")
    with pytest.raises(NoNativeCode):
        build.library()
