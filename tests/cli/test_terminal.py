"""Errors and output, also of a program that was started without standard streams."""

import errno
import sys
from io import BytesIO, TextIOWrapper

import pytest
import typer

from cli.terminal import escape_unprintable, exit_on_error, is_terminal, print_secret, say, status_line
from engine.errors import InvalidInput


def test_closed_standard_error_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as Python sets it for `2>&-`
    assert not is_terminal(sys.stderr)
    status_line("0.5 s spoken")
    say("Wrote out.wav.")


def test_secret_needs_an_open_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match="Standard output is closed"):
        print_secret("secret")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EACCES, "Permission denied", "/data/voices.db"), "/data/voices.db: Permission denied."),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device."),
        (OSError("Only text."), "Only text."),
        (InvalidInput("Say more."), "Say more."),
    ],
)
def test_error_is_one_sentence(error: Exception, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), exit_on_error():
        raise error
    assert capsys.readouterr().err == f"{says}\n"


def test_closed_pipe_is_no_error_to_report(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokenPipeError), exit_on_error():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    assert capsys.readouterr().err == ""


def test_names_that_standard_output_cannot_encode_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written := BytesIO(), "latin-1", write_through=True))
    escape_unprintable()
    print("Zoë 😀")
    assert written.getvalue() == "Zoë \\U0001f600\n".encode("latin-1")
