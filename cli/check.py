"""`check`: whether a file was made with Reprise."""

from __future__ import annotations

import typer

from cli import options
from cli.context import context_of
from cli.terminal import exit_on_error, say

NOT_OURS = 3  # exit status


def check(
    context: typer.Context,
    file: options.CheckedFile,
    database: options.DatabaseAfter = None,
) -> None:
    """Check whether a file was made with Reprise. The exit status is 3 if nothing indicates it."""
    command = context_of(context, database=database)
    with exit_on_error():
        from studio.provenance.provenance import check_file, voice_names

        checked = check_file(file)
        names: tuple[str, ...] = ()
        if checked.provenance and checked.provenance.voices:
            with command.library() as library:
                names = voice_names(checked.provenance, library)
    say(" ".join(str(message) for message in checked.messages(names)))
    if not checked.ours:
        raise typer.Exit(NOT_OURS)
