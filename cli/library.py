"""`library`: copy the whole library to another database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from cli import options
from cli.context import context_of
from cli.terminal import exit_on_error, say, status_line
from engine.errors import InvalidOption

library = typer.Typer(
    help="The whole library: voices, history, scripts and keys of all owners.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@library.callback()
def group() -> None:
    """The whole library: voices, history, scripts and keys of all owners."""


@library.command()
def copy(
    context: typer.Context,
    source: options.CopySource,
    target: options.CopyTarget,
    source_sounds: options.SourceSounds = None,
    target_sounds: options.TargetSounds = None,
) -> None:
    """Copy the library to an empty database and verify the copy. Stop the server first."""
    from storage import Storage

    with (
        exit_on_error(),
        _unmigrated(source) as readable,
        Storage.open(readable, audio_store=source_sounds or context_of(context).sounds) as original,
        Storage.open(target, audio_store=target_sounds) as copied,
    ):
        try:
            tables = original.copy_to(copied, lambda table, done, rows: status_line(f"{table} … {done} of {rows}"))
        finally:
            status_line("")
        rows = sum(content.rows for content in tables.values())
        sounds = sum(content.sounds for content in tables.values()) / 1e6
        say(
            f"Copied {tables['voices'].rows} voices and {tables['generations'].rows} takes, {rows} rows and "
            f"{sounds:,.1f} MB of sound in all; read again, every row is the same."
        )


@contextmanager
def _unmigrated(source: str) -> Iterator[str | Path]:
    """Yield the library to open for the copy, as `storage.sqlite.backup.unmigrated` does for a file.

    Raises InvalidOption, DatabaseUnavailable.
    """
    from storage.database import library_file
    from storage.sqlite.backup import unmigrated

    file = library_file(source)
    if file is None:
        yield source
        return
    if not file.exists():
        raise InvalidOption(f"There is no library to copy: the file {file} does not exist.")
    with unmigrated(file) as library:
        yield library
