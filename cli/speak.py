"""`speak`: synthesize speech to a file."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli import options, report
from cli.context import CommandContext, context_of
from cli.options import AUDIO_SUFFIXES
from cli.outputs import AUDIO, PIPE, check_output, write
from cli.terminal import check_pipe, exit_on_error, on_ctrl_c, print_file, say, standard_input, status_line
from engine.errors import InvalidInput, InvalidOption, RepriseError
from engine.files.bounded import MAX_CLIP_FILE_BYTES, check_regular

if TYPE_CHECKING:
    from engine.options import SpeakOptions
    from engine.outputs import SpeechResult
    from engine.voice import BuiltInVoice, Voice
    from studio.engines.speech_engine import SpeechEngine
    from studio.provenance.provenance import Provenance
    from studio.takes.buffer import TakeBuffer
    from studio.voices.available_voices import ReadyVoice


log = logging.getLogger(__name__)


def speak(
    context: typer.Context,
    text: options.Text,
    output: options.AudioOutput = Path("out.wav"),
    voice: options.SpokenVoice = None,
    reference: options.ReferenceClip = None,
    transcript: options.ReferenceTranscript = "",
    language: options.Language = "",
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    speed: options.Speed = 1.0,
    lufs: options.Lufs = None,
    model: options.ModelAfter = None,
    device: options.DeviceAfter = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Speak a text into a file. Ctrl-C stops and keeps what was spoken."""
    command = context_of(context, model=model, device=device, database=database)
    with exit_on_error():
        _check_request(output, voice, reference)
        if reference:
            command.check_words(transcript, "Give the words spoken in the reference with --transcript “…”.")
        _check_loudness(lufs)
        from engine.audio.output.stream import check_speed
        from engine.options import SpeakOptions
        from studio.provenance.provenance import Provenance
        from studio.speech_service import check_language
        from studio.takes.buffer import TakeBuffer

        check_speed(speed)
        text = _text(text)
        sampling = {"seed": seed, "temperature": temperature, "top_p": top_p, "top_k": top_k}
        given: dict[str, Any] = {name: value for name, value in sampling.items() if value is not None}
        given["language"] = language
        SpeakOptions(**given)  # refuses values out of range before a model is loaded
        if voice:
            with command.library() as library:
                command.check_voice(library, voice)
        watermark = command.watermark()
        with command.engine() as engine:
            check_language(engine, language)
            speaker = _saved_or_own(command, engine, voice) if voice else _one_off_voice(engine, reference, transcript)
            name = engine.info.name
            how = replace(engine.info.default_options, **given)
            take = TakeBuffer(engine.info.sample_rate, watermark, speed=speed)
            result = _speak(engine, text, speaker.voice, how, take)
        try:
            finish(take, result, output, Provenance.from_take(name, speaker.id, result.seed), lufs)
        finally:
            if speaker.id and take.seconds:
                _count_use(command, speaker.id, take.spoken_seconds)


def finish(
    take: TakeBuffer, result: SpeechResult, output: Path, provenance: Provenance, lufs: float | None = None
) -> None:
    """Write the file with its provenance tags, and report on it. lufs: its loudness; None leaves it unchanged.

    Raises typer.Exit with status 130 after Ctrl-C.
    """
    ending = report.ending(result)
    if not take.length:
        say(ending)
    elif output == PIPE:
        print_file(_encoded(take, "wav", provenance, lufs))
        say(f"{ending}. {report.figures(result)}.")
    else:
        write(output, _encoded(take, output.suffix.lower().removeprefix("."), provenance, lufs), AUDIO)
        say(f"{ending}. {report.figures(result)}. Wrote {output}.")
    if result.stop_reason == "cancelled":
        raise typer.Exit(130)


def _text(argument: str) -> str:
    """Return the text to speak: the argument, or standard input for "-". Raises InvalidText."""
    if argument != "-":
        return argument
    from studio.script.formats.decode import MAX_BYTES, decode_text

    return decode_text(standard_input(MAX_BYTES))


def _encoded(take: TakeBuffer, format: Any, provenance: Provenance, lufs: float | None) -> bytes:
    if lufs is None:
        return take.encode(format, provenance)
    from studio.audio_files.concatenate import TakeAudio, write_takes

    file = BytesIO()
    write_takes(file, [TakeAudio(take.encode("flac"))], format, provenance.tags(), lufs)
    return file.getvalue()


def _check_loudness(lufs: float | None) -> None:
    """Raise InvalidOption for a loudness out of range."""
    from engine.audio.output.mastering import LOUDEST, SOFTEST

    if lufs is not None and not SOFTEST <= lufs <= LOUDEST:
        raise InvalidOption(f"The loudness is {lufs:g} LUFS; choose one from {SOFTEST:g} to {LOUDEST:g}.")


def _check_request(output: Path, voice: str | None, reference: Path | None) -> None:
    """Check the request before a model is loaded. Raises InvalidInput, InvalidOption."""
    if bool(voice) == (reference is not None):
        raise InvalidInput("Say whose voice it is: either --voice NAME, or --reference CLIP with --transcript “…”.")
    if reference:
        check_regular(reference, MAX_CLIP_FILE_BYTES)
    if output == PIPE:
        check_pipe()
        return
    if output.suffix.lower() not in AUDIO_SUFFIXES:
        raise InvalidOption(f"The output ends in {output.suffix or 'nothing'}; use {', '.join(AUDIO_SUFFIXES)}.")
    if not output.absolute().parent.is_dir():
        raise InvalidInput(f"There is no folder {output.absolute().parent} to write to.")
    if check_output(output, AUDIO).status and reference and reference.samefile(output):
        raise InvalidInput("The output would replace the reference; name another file with -o.")


def _saved_or_own(command: CommandContext, engine: SpeechEngine, name: str) -> ReadyVoice:
    from storage.validation import LOCAL
    from studio.voices.available_voices import AvailableVoices

    with command.library() as library:
        voices = AvailableVoices(engine, library)
        return voices.ready(voices.find(name, owner=LOCAL).id, owner=LOCAL)


def _count_use(command: CommandContext, voice_id: str, seconds: float) -> None:
    """Count a use of a voice of the library. What fails is logged, since the speech has succeeded."""
    from storage.validation import LOCAL, is_id

    if is_id(voice_id):
        try:
            with command.storage() as storage:
                storage.uses.add(voice_id, seconds, owner=LOCAL, deletion_token=storage.deletion_token())
        except RepriseError as error:
            log.warning("the use of a voice could not be counted: %s", error)


def _one_off_voice(engine: SpeechEngine, reference: Path | None, transcript: str) -> ReadyVoice:
    assert reference is not None, "checked before the engine was loaded"
    from studio.voices.available_voices import ReadyVoice

    made = engine.encode_voice("reference", [(reference, transcript)])
    for note in made.notes:
        say(str(note))
    return ReadyVoice(made.voice.name, made.voice.language, made.voice, None)


def _speak(
    engine: SpeechEngine, text: str, voice: Voice | BuiltInVoice, how: SpeakOptions, take: TakeBuffer
) -> SpeechResult:
    """Speak a text into `take`."""
    with closing(engine.speak(text, voice, how)) as speech, on_ctrl_c(speech.cancel):
        for chunk in speech:
            take.add(chunk)
            status_line(report.progress(chunk, take.seconds))
    take.finish()
    status_line("")
    assert speech.result is not None, "speech that ended has a result"
    return speech.result
