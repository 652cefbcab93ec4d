"""`speak`: speech into a file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli import options, report
from cli.context import CommandContext, context_of
from cli.options import AUDIO_SUFFIXES
from cli.outputs import AUDIO, check_output, write
from cli.terminal import exit_on_error, on_ctrl_c, say, status_line
from engine.errors import InvalidInput, InvalidOption
from engine.files.bounded import MAX_CLIP_FILE_BYTES, check_regular

if TYPE_CHECKING:
    from engine.engine import SpeakOptions
    from engine.request import SpeechResult
    from engine.voice import Voice
    from studio.origin import Origin
    from studio.speech_engine import SpeechEngine
    from studio.takes.buffer import TakeBuffer
    from studio.watermark import Watermark


def speak(
    context: typer.Context,
    text: options.Text,
    output: options.AudioOutput = Path("out.wav"),
    voice: options.VoiceName = None,
    reference: options.ReferenceClip = None,
    transcript: options.ReferenceTranscript = "",
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = 0.8,
    top_k: options.TopK = 30,
    model: options.ModelAfter = None,
    device: options.DeviceAfter = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Speak into a file. Ctrl-C stops, and keeps what was spoken."""
    command = context_of(context, model=model, device=device, database=database)
    with exit_on_error():
        _check_request(output, voice, reference, transcript)
        from engine.engine import SpeakOptions
        from studio.origin import Origin

        how = SpeakOptions(top_p=top_p, top_k=top_k, seed=seed)
        if temperature is not None:
            how = replace(how, temperature=temperature)
        saved = _voice_id(command, voice) if voice else None
        watermark = command.watermark()
        with command.engine() as engine:
            speaker = _saved_voice(command, engine, saved) if saved else _one_off_voice(engine, reference, transcript)
            if temperature is None:
                how = replace(how, temperature=engine.default_options.temperature)
            take, result = _speak(engine, text, speaker, how, watermark)
        finish(take, result, output, Origin.of(command.model, saved, result.seed))


def finish(take: TakeBuffer, result: SpeechResult, output: Path, origin: Origin) -> None:
    """Write the file, with its origin, and report on it. Raises typer.Exit with status 130 after Ctrl-C."""
    ending = report.ending(result)
    if take.length:
        write(output, take.encode(output.suffix.lower().removeprefix("."), origin), AUDIO)  # type: ignore[arg-type]
        say(f"{ending}. {report.figures(result)}. Wrote {output}.")
    else:
        say(ending)
    if result.stop_reason == "cancelled":
        raise typer.Exit(130)


def _check_request(output: Path, voice: str | None, reference: Path | None, transcript: str) -> None:
    """Refuse what can be refused before a model is loaded. Raises InvalidInput, InvalidOption."""
    if (voice is None) == (reference is None):
        raise InvalidInput("Say whose voice it is: either --voice NAME, or --reference CLIP with --transcript “…”.")
    if reference and not transcript.strip():
        raise InvalidInput("Give the words spoken in the reference with --transcript “…”.")
    if reference:
        check_regular(reference, MAX_CLIP_FILE_BYTES)
    if output.suffix.lower() not in AUDIO_SUFFIXES:
        raise InvalidOption(f"The output ends in {output.suffix or 'nothing'}; use {', '.join(AUDIO_SUFFIXES)}.")
    if not output.absolute().parent.is_dir():
        raise InvalidInput(f"There is no folder {output.absolute().parent} to write to.")
    if check_output(output, AUDIO).status and reference and reference.samefile(output):
        raise InvalidInput("The output would replace the reference; name another file with -o.")


def _voice_id(command: CommandContext, name: str) -> str:
    with command.library() as library:
        return library.find(name).id


def _saved_voice(command: CommandContext, engine: SpeechEngine, voice_id: str) -> Voice:
    with command.library() as library:
        return library.ready(voice_id, engine.codec_fingerprint, engine.reencode)


def _one_off_voice(engine: SpeechEngine, reference: Path | None, transcript: str) -> Voice:
    assert reference is not None, "checked before the engine was loaded"
    made = engine.encode_voice("reference", [(reference, transcript)])
    for note in made.notes:
        say(str(note))
    return made.voice


def _speak(
    engine: SpeechEngine, text: str, voice: Voice, how: SpeakOptions, watermark: Watermark | None
) -> tuple[TakeBuffer, SpeechResult]:
    from studio.takes.buffer import TakeBuffer

    take = TakeBuffer(engine.sample_rate, watermark)
    with closing(engine.speak(text, voice, how)) as speech, on_ctrl_c(speech.cancel):
        for chunk in speech:
            take.add(chunk)
            status_line(report.progress(chunk, take.seconds))
    status_line("")
    assert speech.result is not None, "speech that ended has a result"
    return take, speech.result
