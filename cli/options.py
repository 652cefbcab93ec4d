"""Typer options and arguments of the commands."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.outputs import PIPE
from engine import __version__
from engine.serving.scheduler import MAX_SLOTS

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".opus")


def stored_owner(text: str) -> str:
    """Return an owner as the page stores the names of accounts."""
    return unicodedata.normalize("NFC", text.strip())


def ignore_service_url() -> None:
    """Remove REPRISE_PORT if it is a URL: Kubernetes sets it in containers beside a Service that is called reprise."""
    if "://" in os.environ.get("REPRISE_PORT", ""):
        del os.environ["REPRISE_PORT"]


def _file_or_pipe(text: str | Path) -> Path:
    """Return the path of a file. “-” is `PIPE`; “./-” is a file of that name, which `Path` would turn into “-”."""
    path = Path(text)
    return path.absolute() if path == PIPE and text != "-" else path


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"Reprise {__version__}")
        raise typer.Exit()


# ---- before a command, and of the page

Model = Annotated[
    str,
    typer.Option(
        envvar="REPRISE_MODEL",
        help="“bundled”, a folder with a release, or a Hub id such as fishaudio/s2-pro, or fishaudio/s2-pro@REVISION.",
    ),
]
Device = Annotated[str, typer.Option(envvar="REPRISE_DEVICE", help="auto, cpu, cuda or cuda:N.")]
Database = Annotated[
    str | None,
    typer.Option(
        envvar="REPRISE_DATABASE",
        help="File or PostgreSQL URL of the voice library. Default: a file in your data folder.",
    ),
]
Sounds = Annotated[
    str | None,
    typer.Option(
        envvar="REPRISE_SOUNDS",
        help="Folder or URL (s3://BUCKET/FOLDER) for clips and takes. Default: in the database.",
    ),
]
Snapshots = Annotated[
    Path | None,
    typer.Option(
        envvar="REPRISE_SNAPSHOTS",
        help="Folder that outlives this machine's disk: the library's SQLite file is saved there every minute, and "
        "restored from there if it is missing. Default: /data on a Space that has it, else none.",
    ),
]
Precision = Annotated[
    Literal["fp32", "bf16", "fp16", "int8", "int4", "fp8"] | None,
    typer.Option(
        envvar="REPRISE_PRECISION",
        help="Precision of the speech model's weights. Default: bf16 on a GPU (on older ones fp16, or fp32 for "
        "Qwen3-TTS 0.6 B); on a CPU fp32, or int8 for a large model. On a GPU int8, int4 and fp8 need torchao.",
    ),
]
Graphs = Annotated[
    Literal["frame", "fast", "off"],
    typer.Option(
        envvar="REPRISE_GRAPHS",
        help="What is captured once and then replayed: the whole frame (on a GPU as a CUDA graph), the Fast AR "
        "alone, or nothing.",
    ),
]
Compiled = Annotated[
    bool, typer.Option("--compile", envvar="REPRISE_COMPILE", help="On a GPU: faster frames, for a slower start.")
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        envvar="REPRISE_DETERMINISTIC",
        help="On a GPU too, the same seed gives the same codes regardless of concurrent requests; slower with many "
        "listeners.",
    ),
]
Slots = Annotated[
    int | None,
    typer.Option(
        envvar="REPRISE_SLOTS",
        min=1,
        max=MAX_SLOTS,
        help="Maximum number of concurrent requests. Default: 4 on a CPU; 32 on a GPU, fewer if its memory is short.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        envvar="REPRISE_CLUSTER",
        help="Speak on a Ray cluster: its address, HOST:PORT, or auto for the one of this machine, which is started "
        "where there is none. Needs ray[serve].",
    ),
]
Replicas = Annotated[
    str, typer.Option(envvar="REPRISE_REPLICAS", help="Engines on the cluster: a number, or a range such as 1-8.")
]
ReplicaGpus = Annotated[
    float | None,
    typer.Option(
        envvar="REPRISE_REPLICA_GPUS",
        min=0.0,
        help="GPUs per engine; with 0.5, two share one. Default: one where the cluster has GPUs.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        envvar="REPRISE_MODELS",
        help="A model that visitors may load, for all visitors at once; takes the same values as --model. "
        "Without --model, the first is loaded. May be given several times. Default: no choice.",
    ),
]
IdleUnload = Annotated[
    float,
    typer.Option(
        "--idle-unload",
        envvar="REPRISE_IDLE_UNLOAD",
        min=0.0,
        metavar="MINUTES",
        help="Unload the model when nobody has used it for so many minutes; the next request loads it again and waits. "
        "0: never, so that no listener waits.",
    ),
]
Watermarked = Annotated[
    bool,
    typer.Option(
        "--watermark/--no-watermark",
        envvar="REPRISE_WATERMARK",
        help="Put an inaudible watermark into finished takes and files. Needs resemble-perth.",
    ),
]
Host = Annotated[
    str | None,
    typer.Option(envvar="REPRISE_HOST", help="Address to serve at; 0.0.0.0 for all. Default: this machine only."),
]
Port = Annotated[
    int | None, typer.Option(envvar="REPRISE_PORT", min=1, max=65_535, help="Default: the first free one from 7860.")
]
Share = Annotated[bool, typer.Option(envvar="REPRISE_SHARE", help="Make a public link through Gradio.")]
Auth = Annotated[
    list[str] | None,
    typer.Option(
        help="Who may open the page: USER:PASSWORD (at least 8 characters), or a file with such lines and nothing "
        "else, whose passwords are then replaced by their hashes. May be given several times. Otherwise "
        "read from REPRISE_AUTH, one per line. Default: everyone."
    ),
]
Owners = Annotated[
    Literal["auto", "local", "browser"],
    typer.Option(
        envvar="REPRISE_OWNERS",
        help="Who owns voices: `local`, one library for everyone; `browser`, one per browser; `auto`, by who can reach "
        "the page.",
    ),
]
ClipHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--clip-host",
        envvar="REPRISE_CLIP_HOSTS",
        help="A host from which the API may fetch clips of voices (ref_audio), such as example.org or "
        "example.org:8443. May be given several times. Default: none.",
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        envvar="REPRISE_ALLOWED_HOSTS",
        help="A name that the page is reached by, such as voices.example.org behind a proxy. May be given several "
        "times. Default: the names of this machine, and addresses where --host lets others in.",
    ),
]
OpenBrowser = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the page in this machine's browser, where it has a screen.")
]
Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
]
RootPath = Annotated[
    str | None, typer.Option(envvar="GRADIO_ROOT_PATH", help="Where a proxy serves the page, such as /reprise.")
]

# ---- after a command

ModelAfter = Annotated[str | None, typer.Option("--model", help="As before the command.")]
DeviceAfter = Annotated[str | None, typer.Option("--device", help="As before the command.")]
DatabaseAfter = Annotated[str | None, typer.Option("--database", help="As before the command.")]

# ---- of `speak`

Text = Annotated[str, typer.Argument(help="What to say; - reads it from standard input.")]
AudioOutput = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        parser=_file_or_pipe,
        help=f"File to write ({', '.join(AUDIO_SUFFIXES)}); audio that is there is replaced. “-” writes a wav file to "
        "standard output.",
    ),
]
SpokenVoice = Annotated[
    str | None, typer.Option(help="Name of a saved voice, a sample voice or one of the model's own.")
]
ReferenceClip = Annotated[
    Path | None, typer.Option(help="A clip to speak like, instead of a saved voice.", exists=True, dir_okay=False)
]
ReferenceTranscript = Annotated[str, typer.Option(help="The words spoken in the reference, which most models need.")]
Language = Annotated[
    str,
    typer.Option(help="Language of the text, such as de, for models that speak several. Default: left to the model."),
]
VoiceLanguage = Annotated[str, typer.Option("--language", help="Language of the clip, such as de.")]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same speech. Default: a new one.")]
Temperature = Annotated[float | None, typer.Option(help="0 to 2; higher is livelier. Default: the model's own.")]
Lufs = Annotated[
    float | None,
    typer.Option(
        help="Loudness of the file in LUFS: -16 for podcasts, -20 for audio books, -23 for broadcasting. Default: as "
        "it is spoken."
    ),
]
Speed = Annotated[float, typer.Option(help="0.25 to 4, at the same pitch.")]
TopP = Annotated[float | None, typer.Option(help="Share of likely choices kept, up to 1. Default: the model's own.")]
TopK = Annotated[int | None, typer.Option(help="How many choices are kept at most. Default: the model's own.")]

# ---- of `check`

CheckedFile = Annotated[Path, typer.Argument(help="An audio file.", exists=True, dir_okay=False)]

# ---- of `voices`

Name = Annotated[str, typer.Argument(help="Name of the voice.")]
NewName = Annotated[str, typer.Argument(help="Its new name.")]
Search = Annotated[str, typer.Argument(help="Only voices with these words in name, description, tags or language.")]
Clip = Annotated[Path, typer.Argument(help="A clip of the voice.", exists=True, dir_okay=False)]
Transcript = Annotated[str, typer.Option(help="The words spoken in the clip, which most models need.")]
ConsentGiven = Annotated[
    bool, typer.Option("--consent", help="You are the speaker, or the speaker has agreed. Without it, you are asked.")
]
Speaker = Annotated[str, typer.Option(help="Who speaks, where the voice has another name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
VoiceOutput = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        parser=_file_or_pipe,
        help="File to write, or - for standard output. Default: the voice's name.",
    ),
]
VoiceFile = Annotated[
    Path, typer.Argument(parser=_file_or_pipe, help="A voice file, an archive of them, or - for standard input.")
]
ImportedName = Annotated[str | None, typer.Option(help="Save it under another name.")]

# ---- of `library`

CopySource = Annotated[str, typer.Argument(metavar="FROM", help="File or PostgreSQL URL.")]
CopyTarget = Annotated[
    str, typer.Argument(metavar="TO", help="A new file, or the URL of an empty PostgreSQL database.")
]
SourceSounds = Annotated[str | None, typer.Option("--from-sounds", help="Store of its sounds. Default: --sounds.")]
TargetSounds = Annotated[
    str | None, typer.Option("--to-sounds", help="Store for the sounds of the copy. Default: in the database.")
]

ErasedOwner = Annotated[str, typer.Argument(metavar="OWNER", help="As “library owners” lists it, such as user:anna.")]

# ---- of `wyoming`

WyomingUri = Annotated[
    str,
    typer.Option(
        "--uri",
        help="Where to serve; tcp://0.0.0.0:10200 for all. The protocol has no keys: whoever reaches it speaks with "
        "your voices.",
    ),
]

# ---- of `keys`

KeyName = Annotated[str, typer.Argument(help="Name of the key, for the list.")]
KeyOwner = Annotated[
    str,
    typer.Option(
        "--owner",
        help="Owner whose voices the key reaches: `local` for those of the command line, user:NAME for an account's.",
    ),
]
KeyRate = Annotated[
    str | None, typer.Option("--rate", help="Maximum rate of requests, such as 60/minute. Default: no limit.")
]
KeyQuota = Annotated[
    str | None,
    typer.Option("--quota", help="Maximum number of characters spoken, such as 1000000/month. Default: no limit."),
]
KeyDays = Annotated[
    int | None, typer.Option("--days", min=1, max=36_500, help="Days until it expires. Default: never.")
]
KeyVoices = Annotated[
    list[str] | None,
    typer.Option(
        "--voice",
        help="Another name of a voice, such as alloy=Anna, for clients that allow OpenAI's names only. May be given "
        "several times.",
    ),
]
