"""Reprise: the page and the command line. Here settings, engine, voice library and faces are put together.

python app.py                       serves the page
python app.py speak "Hello." …      speaks into a file
python app.py voices list …         keeps voices
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.outputs import AUDIO, VOICE, check_output, write
from cli.terminal import ctrl_c, line, say, sentences
from engine.errors import InvalidInput, InvalidOption
from engine.files.bounded import MAX_CLIP_FILE_BYTES, check_regular, read_regular

# Torch, Gradio and the database are imported where they are used, so that each command starts fast.
if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.request import AudioChunk, SpeechResult
    from engine.voice import Consent, Voice
    from storage import Studio, VoiceLibrary
    from studio.model_manager import ModelManager
    from studio.takes.buffer import TakeBuffer


Progress = Callable[[str, float], None]
CONSENT = "The speaker has agreed that this voice is cloned."
FORMATS = (".wav", ".flac", ".mp3", ".opus")

cli = typer.Typer(
    help="Clone a voice from a clip, hear it speak as speech is made. Without a command: serve the page.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
voices = typer.Typer(help="Keep voices: list, add, rename, delete, export, import.", no_args_is_help=True)
cli.add_typer(voices, name="voices")

Model = Annotated[
    str,
    typer.Option(
        envvar="REPRISE_MODEL",
        help="“bundled”, a folder with a release, or a Hub id such as fishaudio/s2-pro.",
    ),
]
Device = Annotated[str, typer.Option(envvar="REPRISE_DEVICE", help="auto, cpu, cuda or cuda:N.")]
Database = Annotated[
    str | None,
    typer.Option(
        envvar="REPRISE_DATABASE",
        help="File or PostgreSQL URL of the voice library. Default: a file in your data folder.",
        show_default=False,
    ),
]
ModelToo = Annotated[str | None, typer.Option("--model", help="As before the command.", show_default=False)]
DeviceToo = Annotated[str | None, typer.Option("--device", help="As before the command.", show_default=False)]
DatabaseToo = Annotated[str | None, typer.Option("--database", help="As before the command.", show_default=False)]
Name = Annotated[str, typer.Argument(help="Name of the voice.", show_default=False)]


@cli.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    model: Model = "bundled",
    device: Device = "auto",
    host: Annotated[
        str | None,
        typer.Option(envvar="REPRISE_HOST", help="Address to serve at; 0.0.0.0 for all. Default: this machine only."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(envvar="REPRISE_PORT", min=1, max=65_535, help="Default: the first free one from 7860."),
    ] = None,
    database: Database = None,
    precision: Annotated[
        Literal["fp32", "bf16", "fp16", "int8", "int4", "fp8"] | None,
        typer.Option(
            envvar="REPRISE_PRECISION",
            help="Of the speech model's weights. Default: bf16 on a GPU (fp16 on older ones), fp32 on a CPU. "
            "int8, int4 and fp8 need torchao.",
            show_default=False,
        ),
    ] = None,
    graphs: Annotated[
        Literal["frame", "fast", "off"],
        typer.Option(
            envvar="REPRISE_GRAPHS",
            help="What is recorded once and then repeated: the whole frame (on a GPU as a CUDA graph), the Fast AR "
            "alone, nothing.",
        ),
    ] = "frame",
    compiled: Annotated[
        bool, typer.Option("--compile", envvar="REPRISE_COMPILE", help="On a GPU: faster frames, for a slower start.")
    ] = False,
    speakers: Annotated[
        int | None,
        typer.Option(
            envvar="REPRISE_SPEAKERS",
            min=1,
            help="How many may speak at once, as far as memory goes. Default: 4 on a CPU, 32 on a GPU.",
            show_default=False,
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            envvar="REPRISE_MODELS",
            help="Models that visitors may choose from, for everyone: as for --model, which is otherwise the first. "
            "May be given several times. Default: no choice.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[bool, typer.Option(envvar="REPRISE_SHARE", help="Make a public link through Gradio.")] = False,
    auth: Annotated[
        list[str] | None,
        typer.Option(
            help="Who may open the page: USER:PASSWORD (at least 8 characters), or a file with such lines and nothing "
            "else, whose passwords are then replaced by their hashes. May be given several times. Else from "
            "REPRISE_AUTH, one a line. Default: everyone.",
            show_default=False,
        ),
    ] = None,
    owners: Annotated[
        Literal["auto", "local", "browser"],
        typer.Option(
            envvar="REPRISE_OWNERS",
            help="Whose voices: everyone the same library as the command line (local), each browser its own "
            "(browser); auto goes by who can reach the page.",
        ),
    ] = "auto",
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            envvar="REPRISE_ALLOWED_HOSTS",
            help="A name that the page is reached by, such as voices.example.org behind a proxy. May be given several "
            "times. Default: the names of this machine, and addresses where --host lets others in.",
            show_default=False,
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in this machine's browser, where it has a screen.")
    ] = True,
    root_path: Annotated[
        str | None,
        typer.Option(
            envvar="GRADIO_ROOT_PATH", help="Where a proxy serves the page, such as /reprise.", show_default=False
        ),
    ] = None,
) -> None:
    """Serve the page."""
    source = context.get_parameter_source("model")
    if models and source is not None and source.name == "DEFAULT":
        model = models[0]
    context.obj = {"model": model, "device": device, "database": database, "slots": speakers, "graphs": graphs}
    context.obj |= {"precision": precision, "compiled": compiled}
    if context.invoked_subcommand:
        return
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("web").setLevel(logging.INFO)
    from studio.context import AppContext
    from web.serve import serve as serve_page

    with sentences():
        from web.identity.accounts import auth_settings, load_accounts

        accounts = load_accounts(auth_settings(auth or []))
        notices = _notices(model, models or [])
        with _studio(context) as studio, _engines(context, notices) as engines:
            serve_page(
                AppContext.create(engines, studio),
                server_name=host, server_port=port, share=share, root_path=root_path, accounts=accounts,
                owners=owners, allowed_hosts=allowed_hosts or [], open_browser=open_browser,
            )  # fmt: skip


@cli.command()
def speak(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="What to say.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help=f"File to write ({', '.join(FORMATS)}); audio that is there is replaced."),
    ] = Path("out.wav"),
    voice: Annotated[str | None, typer.Option(help="Name of a saved voice or a sample voice.")] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="A clip to speak like, instead of a saved voice.", exists=True, dir_okay=False),
    ] = None,
    transcript: Annotated[str, typer.Option(help="The words spoken in the reference.")] = "",
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same speech. Default: a new one.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="0 to 2; higher is livelier. Default: the model's own.", show_default=False)
    ] = None,
    top_p: Annotated[float, typer.Option(help="Share of likely choices kept, up to 1.")] = 0.8,
    top_k: Annotated[int, typer.Option(help="How many choices are kept at most.")] = 30,
    model: ModelToo = None,
    device: DeviceToo = None,
    database: DatabaseToo = None,
) -> None:
    """Speak into a file. Ctrl-C stops, and keeps what was spoken."""
    _given(context, model=model, device=device, database=database)
    with sentences():
        _check_request(output, voice, reference, transcript)
        from engine.engine import SpeakOptions

        options = SpeakOptions(top_p=top_p, top_k=top_k, seed=seed)
        if temperature is not None:
            options = replace(options, temperature=temperature)
        saved = _id_of(context, voice) if voice else None
        with _engine(context) as engine:
            speaker = _saved_voice(context, engine, saved) if saved else _one_off(engine, reference, transcript)
            if temperature is None:
                options = replace(options, temperature=engine.usual.temperature)
            take, result = _spoken(engine, text, speaker, options)
        _finish(take, result, output)


@voices.command("list")
def list_voices(
    context: typer.Context,
    search: Annotated[str, typer.Argument(help="Only voices whose name or description hold these words.")] = "",
    database: DatabaseToo = None,
) -> None:
    """List the saved voices, then the sample voices."""
    _given(context, database=database)
    with sentences(), _library(context) as library:
        found = library.list(search=search)
        for record in found:
            since = "sample" if record.shared else f"{record.created:%Y-%m-%d}"
            typer.echo(f"{record.name}\t{record.duration:.1f} s\t{since}")
        if not found:
            say("No voice matches." if search else "There are no voices yet.")


@voices.command()
def add(
    context: typer.Context,
    name: Name,
    clip: Annotated[Path, typer.Argument(help="A clip of the voice.", exists=True, dir_okay=False, show_default=False)],
    transcript: Annotated[str, typer.Option(help="The words spoken in the clip.", show_default=False)],
    consent: Annotated[
        bool,
        typer.Option("--consent", help="You are the speaker, or the speaker has agreed. Asked for otherwise."),
    ] = False,
    speaker: Annotated[
        str, typer.Option(help="Who speaks, where the voice has another name.", show_default=False)
    ] = "",
    model: ModelToo = None,
    device: DeviceToo = None,
    database: DatabaseToo = None,
) -> None:
    """Make a voice from a clip and save it."""
    _given(context, model=model, device=device, database=database)
    with sentences():
        check_regular(clip, MAX_CLIP_FILE_BYTES)
        if not consent and not (sys.stdin.isatty() and typer.confirm(f"{CONSENT} Is that so?", err=True)):
            raise InvalidInput("A voice can be saved only when its speaker has agreed: say so with --consent.")
        with _library(context) as library, _engine(context) as engine:
            made = engine.encode_voice(name, [(clip, transcript)], consent=_consent(speaker or name))
            say(" ".join([f"Saved “{library.add(made.voice).name}”.", *made.notes]))


@voices.command()
def rename(
    context: typer.Context,
    name: Name,
    new: Annotated[str, typer.Argument(help="Its new name.", show_default=False)],
    database: DatabaseToo = None,
) -> None:
    """Give a voice another name."""
    _given(context, database=database)
    with sentences(), _library(context) as library:
        say(f"It is “{library.rename(library.find(name).id, new).name}” now.")


@voices.command()
def delete(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    database: DatabaseToo = None,
) -> None:
    """Delete a voice for good."""
    _given(context, database=database)
    with sentences(), _library(context) as library:
        record = library.own(library.find(name).id)
        if not yes:
            typer.confirm(f"Delete “{record.name}” with its clip for good?", abort=True, err=True)
        library.delete(record.id)
        say(f"“{record.name}” is deleted.")


@voices.command()
def export(
    context: typer.Context,
    name: Name,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write. Default: the voice's name.", show_default=False),
    ] = None,
    database: DatabaseToo = None,
) -> None:
    """Write a voice to one portable file."""
    _given(context, database=database)
    from engine.voice import VOICE_FILE_SUFFIX

    with sentences(), _library(context) as library:
        record = library.find(name)
        path = output or Path(record.name.replace(os.sep, "-") + VOICE_FILE_SUFFIX)
        if output is None and path.exists():
            raise InvalidInput(f"There is a {path} already; name another file with -o.")
        write(path, library.export_voice(record.id), VOICE)
        say(f"Wrote {path}.")


@voices.command("import")
def import_voice(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A voice file.", exists=True, dir_okay=False, show_default=False)],
    name: Annotated[str | None, typer.Option(help="Save it under another name.")] = None,
    database: DatabaseToo = None,
) -> None:
    """Save a voice from a portable file."""
    _given(context, database=database)
    from engine.voice import MAX_FILE_BYTES

    with sentences():
        data = read_regular(file, MAX_FILE_BYTES)
        with _library(context) as library:
            say(f"Imported “{library.import_voice(data, name=name).name}”.")


def _given(context: typer.Context, **values: str | None) -> None:
    """Options may stand before a command or after it; after it they win."""
    context.obj = {**(context.obj or {}), **{key: value for key, value in values.items() if value}}


@contextmanager
def _studio(context: typer.Context) -> Iterator[Studio]:
    from platformdirs import user_data_path

    from storage import Studio
    from storage.samples import install_samples

    place = context.obj["database"] or user_data_path("reprise", ensure_exists=True) / "voices.db"
    with Studio.open(place) as studio:
        install_samples(studio.voices)
        yield studio


@contextmanager
def _library(context: typer.Context) -> Iterator[VoiceLibrary]:
    with _studio(context) as studio:
        yield studio.voices


@contextmanager
def _engine(context: typer.Context) -> Iterator[Engine]:
    with closing(_loaded(context, context.obj["model"], _show_loading)) as engine:
        yield engine


def _loaded(context: typer.Context, model: str, progress: Progress) -> Engine:
    from engine.engine import Engine

    settings: dict[str, Any] = context.obj
    chosen = {name: settings[name] for name in ("precision", "graphs", "compiled", "slots") if settings.get(name)}
    return Engine.load(model, settings["device"], progress=progress, **chosen)


@contextmanager
def _engines(context: typer.Context, notices: dict[str, str]) -> Iterator[ModelManager]:
    """The engine that the page starts with, and the others that it may be told to load."""
    from engine.release.release import find_release
    from studio.model_manager import ModelCatalog, ModelManager

    def load(model: str, progress: Progress) -> Engine:
        gc.collect()  # of the model before nothing may be left when this one asks how much memory there is
        return _loaded(context, model, progress)

    choice = ModelCatalog(notices, find_release, load) if notices else None
    with closing(ModelManager(_loaded(context, context.obj["model"], _show_loading), choice)) as engines:
        yield engines


def _notices(model: str, models: list[str]) -> dict[str, str]:
    """The models to choose from, each with what it is licensed for; none where there is no choice."""
    from engine.release.release import notice_of

    return {name: notice_of(name) for name in dict.fromkeys([model, *models])} if models else {}


def _show_loading(stage: str, done: float) -> None:
    line(f"{stage} … {done:.0%}" if done < 1 else "")


def _check_request(output: Path, voice: str | None, reference: Path | None, transcript: str) -> None:
    """What can be refused before a model is loaded."""
    if (voice is None) == (reference is None):
        raise InvalidInput("Say whose voice it is: either --voice NAME, or --reference CLIP with --transcript “…”.")
    if reference and not transcript.strip():
        raise InvalidInput("Give the words spoken in the reference with --transcript “…”.")
    if reference:
        check_regular(reference, MAX_CLIP_FILE_BYTES)
    if output.suffix.lower() not in FORMATS:
        raise InvalidOption(f"The output ends in {output.suffix or 'nothing'}; use {', '.join(FORMATS)}.")
    if not output.absolute().parent.is_dir():
        raise InvalidInput(f"There is no folder {output.absolute().parent} to write to.")
    if check_output(output, AUDIO).status and reference and reference.samefile(output):
        raise InvalidInput("The output would replace the reference; name another file with -o.")


def _id_of(context: typer.Context, name: str) -> str:
    with _library(context) as library:
        return library.find(name).id


def _saved_voice(context: typer.Context, engine: Engine, voice_id: str) -> Voice:
    with _library(context) as library:
        return library.ready(voice_id, engine.codec_fingerprint, engine.reencode)


def _one_off(engine: Engine, reference: Path | None, transcript: str) -> Voice:
    assert reference is not None, "checked before the engine was loaded"
    made = engine.encode_voice("reference", [(reference, transcript)])
    for note in made.notes:
        say(note)
    return made.voice


def _consent(who: str) -> Consent:
    from datetime import UTC, datetime

    from engine.voice import Consent

    return Consent(who=who, when=datetime.now(UTC), sentence=CONSENT)


def _spoken(engine: Engine, text: str, voice: Voice, options: Any) -> tuple[TakeBuffer, SpeechResult]:
    from studio.takes.buffer import TakeBuffer
    from web.ui.i18n import english
    from web.ui.messages import progress

    take, words = TakeBuffer(engine.sample_rate), english()
    with closing(engine.speak(text, voice, options)) as speech, ctrl_c(speech.cancel):
        chunk: AudioChunk
        for chunk in speech:
            take.add(chunk)
            line(progress(chunk, take.seconds, words))
    line("")
    assert speech.result is not None, "a speech that ended has a result"
    return take, speech.result


def _finish(take: TakeBuffer, result: SpeechResult, output: Path) -> None:
    """Writes the file and says how it went; exit status 130 after Ctrl-C."""
    from web.ui.i18n import english
    from web.ui.messages import ending, figures

    how = ending(result, english())
    if take.length:
        write(output, take.encode(output.suffix.lower().removeprefix(".")), AUDIO)  # type: ignore[arg-type]
        say(f"{how}. {figures(result, english())}. Wrote {output}.")
    else:
        say(how)
    if result.stop_reason == "cancelled":
        raise typer.Exit(130)


def main() -> None:
    """The command line."""
    cli()


if __name__ == "__main__":
    main()
