"""`library`: copy the whole library to another database, list its owners, and erase the data of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli import options
from cli.context import context_of
from cli.terminal import exit_on_error, say, status_line
from engine.errors import InvalidOption

if TYPE_CHECKING:
    from storage.repositories.voices.usage import OwnerCounts

library = typer.Typer(
    help="The whole library: copy it, list its owners, erase one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


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


@library.command()
def owners(context: typer.Context, database: options.DatabaseAfter = None) -> None:
    """List the owners of data. An owner is local, user:NAME for an account, hub:NAME or browser:ID."""
    command = context_of(context, database=database)
    with exit_on_error(), command.storage() as storage:
        found = storage.all_counts()
        for owner, counts in found.items():
            typer.echo("\t".join([owner, *_counts(counts)]))
        if not found:
            say("No owner has any data yet.")


@library.command()
def erase(
    context: typer.Context,
    owner: options.ErasedOwner,
    yes: options.Yes = False,
    database: options.DatabaseAfter = None,
) -> None:
    """Delete all data and keys of an owner for good. “Delete all my data” on the page does the same."""
    command = context_of(context, database=database)
    with exit_on_error(), command.storage() as storage:
        owner = options.stored_owner(owner)
        if owner not in storage.owners():
            raise InvalidOption(f"There is no data of “{owner}”: “library owners” lists all owners.")
        if not yes:
            counts = ", ".join(_counts(storage.owner_counts(owner=owner)))
            typer.confirm(f"Delete all data of “{owner}” for good ({counts}, settings and keys)?", abort=True, err=True)
        storage.delete_owner(owner)
        say(f"All data of “{owner}” is deleted.")


def _counts(counts: OwnerCounts) -> list[str]:
    return [
        f"voices: {counts.voices}",
        f"takes: {counts.history} in the history, {counts.takes} in scripts",
        f"scripts: {counts.scripts}",
        f"{counts.storage.total / 1e6:,.1f} MB",
    ]


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
