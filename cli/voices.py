"""`voices`: list, add, rename, delete, export and import saved voices."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli import options
from cli.context import context_of
from cli.outputs import PIPE, VOICE, write
from cli.terminal import exit_on_error, is_terminal, print_file, say, standard_input
from engine.errors import InvalidInput
from engine.files.bounded import MAX_CLIP_FILE_BYTES, check_regular, read_regular
from storage.errors import NameTaken

if TYPE_CHECKING:
    from storage import VoiceLibrary, VoiceRecord

CONSENT_QUESTION = "Has the speaker agreed to have this voice cloned?"

voices = typer.Typer(
    help="Keep voices: list, add, rename, delete, export, import.", no_args_is_help=True, rich_markup_mode=None
)


@voices.command("list")
def list_voices(
    context: typer.Context,
    search: options.Search = "",
    model: options.ModelAfter = None,
    database: options.DatabaseAfter = None,
) -> None:
    """List voices: the model's own, the saved ones and the samples."""
    command = context_of(context, model=model, database=database)
    with exit_on_error(), command.library() as library:
        # The bundled model has no built-in voices, so its release need not be read.
        own = [] if command.model == "bundled" else command.built_in_voices() or []
        own = [each for each in own if search.casefold() in each.name.casefold()]
        for each in own:
            typer.echo(f"{each.name}\t\tmodel")
        found = library.list(search=search)
        for record in found:
            since = "sample" if record.shared else f"{record.created:%Y-%m-%d}"
            typer.echo(f"{record.name}\t{record.duration:.1f} s\t{since}")
        if not found and not own:
            say("No voice matches." if search else "There are no voices yet.")


@voices.command()
def add(
    context: typer.Context,
    name: options.Name,
    clip: options.Clip,
    transcript: options.Transcript = "",
    language: options.VoiceLanguage = "",
    consent: options.ConsentGiven = False,
    speaker: options.Speaker = "",
    model: options.ModelAfter = None,
    device: options.DeviceAfter = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Create a voice from a clip and save it."""
    command = context_of(context, model=model, device=device, database=database)
    from engine.voice import clean_name
    from studio.voices.consents import agreed_by
    from studio.voices.languages import clean_language
    from studio.voices.voice_maker import voice_language

    with exit_on_error():
        check_regular(clip, MAX_CLIP_FILE_BYTES)
        name = clean_name(name)
        language = clean_language(language)
        if not consent and not (is_terminal(sys.stdin) and typer.confirm(CONSENT_QUESTION, err=True)):
            raise InvalidInput("A voice can be saved only when its speaker has agreed: say so with --consent.")
        consented = agreed_by(speaker or name)
        command.check_words(transcript, "Give the words spoken in the clip with --transcript “…”.")
        with command.library() as library, command.engine() as engine:
            spoken = voice_language(engine, language)
            made = engine.encode_voice(name, [(clip, transcript)], language=spoken, consent=consented)
            say(" ".join([f"Saved “{library.add(made.voice).name}”.", *map(str, made.notes)]))


@voices.command()
def rename(
    context: typer.Context, name: options.Name, new: options.NewName, database: options.DatabaseAfter = None
) -> None:
    """Rename a voice."""
    command = context_of(context, database=database)
    with exit_on_error(), command.library() as library:
        say(f"It is “{library.rename(library.find(name).id, new).name}” now.")


@voices.command()
def delete(
    context: typer.Context, name: options.Name, yes: options.Yes = False, database: options.DatabaseAfter = None
) -> None:
    """Delete a voice for good."""
    command = context_of(context, database=database)
    with exit_on_error(), command.library() as library:
        record = library.owned(library.find(name).id)
        if not yes:
            typer.confirm(f"Delete “{record.name}” with its clip for good?", abort=True, err=True)
        library.delete(record.id)
        say(f"“{record.name}” is deleted.")


@voices.command()
def export(
    context: typer.Context,
    name: options.Name,
    output: options.VoiceOutput = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Write a voice to one portable file."""
    command = context_of(context, database=database)
    from engine.voice import VOICE_FILE_SUFFIX
    from studio.files.file_names import short_stem

    with exit_on_error(), command.library() as library:
        record = library.find(name)
        if output == PIPE:
            print_file(library.export_voice(record.id))
            return
        path = output or Path(short_stem(record.name.replace(os.sep, "-")) + VOICE_FILE_SUFFIX)
        if output is None and path.exists():
            raise InvalidInput(f"There is a {path} already; name another file with -o.")
        write(path, library.export_voice(record.id), VOICE)
        say(f"Wrote {path}.")


@voices.command("import")
def import_voice(
    context: typer.Context,
    file: options.VoiceFile,
    name: options.ImportedName = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Save a voice from a portable file, or all voices of a .zip of them, as the page exports it."""
    command = context_of(context, database=database)
    from engine.voice import MAX_FILE_BYTES
    from studio.voices.voice_archive import is_voice_archive

    with exit_on_error():
        if file == PIPE:
            data = standard_input(MAX_FILE_BYTES)
        elif is_voice_archive(file):
            if name is not None:
                raise InvalidInput("--name is for a single voice: those of an archive keep their names.")
            with command.library() as library:
                _import_archive(library, file)
            return
        else:
            data = read_regular(file, MAX_FILE_BYTES)
        with command.library() as library:
            say(f"Imported “{_imported(library, data, name).name}”.")


def _import_archive(library: VoiceLibrary, file: Path) -> None:
    """Import the voices of an archive, and print what became of each. Raises InvalidInput if any was not imported."""
    from studio.voices.voice_archive import VoiceArchive

    imported = left = 0
    for inner, data in VoiceArchive(file, file.name, own=True).voice_files():
        try:
            say(f"Imported “{library.import_voice(data).name}”.")
            imported += 1
        except (InvalidInput, NameTaken) as error:
            say(f"{inner}: {error}")
            left += 1
    if not imported and not left:
        raise InvalidInput(f"There is no file in {file.name}.")
    if left:
        raise InvalidInput(f"Not imported: {left} of the files in {file.name}.")


def _imported(library: VoiceLibrary, data: bytes, name: str | None) -> VoiceRecord:
    """Import a voice. Raises NameTaken with a suggested free name, and what `import_voice` raises."""
    from engine.voice import Voice

    try:
        return library.import_voice(data, name=name)
    except NameTaken as error:
        free = library.free_name(name or Voice.from_bytes(data).name)
        raise NameTaken(f"{error} Import it under another name, such as --name {shlex.quote(free)}.") from error
