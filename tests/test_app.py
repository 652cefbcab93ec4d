"""The command line, with the bundled model and real files."""

import errno
import functools
import os
import pwd
import runpy
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock
from zipfile import ZipFile

import httpx
import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner, Result

import app
import web.serve
from cli import keys, terminal
from cli.context import CommandContext, model_notices
from cli.speak import finish
from engine import Engine, SpeakOptions, __version__
from engine.audio import wav_bytes
from engine.audio.output.mastering import loudness_of
from engine.audio.output.tags import read_tags
from engine.errors import InvalidOption, ReleaseNotFound
from engine.messages import UserMessage
from engine.outputs import AudioChunk, SpeechResult
from engine.release.hub import BUNDLED, LoadingProgress
from engine.release.profile import Profile
from engine.request import turns
from engine.serving.pacing import CHUNK_FRAMES, Pacer
from engine.text import frame_budget
from engine.voice import Voice
from storage import Storage
from studio.engines.speech_engine import SpeechEngine
from studio.provenance import provenance, watermark
from studio.provenance.provenance import Provenance
from studio.takes.buffer import TakeBuffer
from tests.engine.families.qwen3_tts.conftest import as_kind
from tests.paths import QWEN, ROOT

CLIP = ROOT / "tests" / "fixtures" / "speech" / "flite_slt.flac"
WORDS = "The train was late, so we walked along the river."
FRAMES = 12  # of a sentence with `short_turns`
SAMPLES = ["Adam", "Ben", "Clara", "Daniel", "Emma", "Flora"]
Run = Callable[..., Result]


@pytest.fixture
def engine(bundled_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The bundled model, with `close` disabled."""
    monkeypatch.setattr(bundled_engine, "close", lambda: None)
    return bundled_engine


@pytest.fixture(scope="module")
def new_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a library without own voices, copied for each test: making it takes longer than most commands."""
    file = tmp_path_factory.mktemp("library") / "voices.db"
    with CommandContext("bundled", "cpu", str(file)).library():
        return file


@pytest.fixture
def run(tmp_path: Path, new_library: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Run:
    """A function that runs a command in a temporary folder, with a temporary library and the shared bundled model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPRISE_DATABASE", str(shutil.copy(new_library, tmp_path)))

    def load(command: CommandContext, model: str, progress: LoadingProgress) -> SpeechEngine:
        return request.getfixturevalue("engine") if model == "bundled" else real(command, model, progress)

    real = CommandContext._load
    monkeypatch.setattr(CommandContext, "_load", load)
    return lambda *arguments, **options: CliRunner().invoke(app.main, list(map(str, arguments)), **options)


@pytest.fixture(scope="module", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Typer makes all commands anew for each one that is run, which takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """End each sentence after half a second."""
    monkeypatch.setattr(turns, "frame_budget", lambda text, rate: min(FRAMES, frame_budget(text, rate)))
    monkeypatch.setattr(turns, "ATTEMPTS", 1)


def listed_names(result: Result, *, samples: bool = False) -> list[str]:
    """Return the listed names of the samples, or of all other voices."""
    assert result.exit_code == 0, result.stderr
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    return [name for name, _, since in lines if (since == "sample") == samples]


def assert_rejected(result: Result, says: str) -> None:
    """Check for exit code 1, a sentence on standard error and no other output."""
    assert result.exit_code == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_unusable_database_is_named_in_the_error(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    result = run("voices", "list", "--database", folder)
    assert_rejected(result, "has to be a file.")
    assert result.stderr.splitlines() == ["The voice library cannot be opened: it has to be a file.", str(folder)]


def test_unusable_data_folder_is_an_unusable_library(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    result = run("voices", "list", env={"REPRISE_DATABASE": ""})
    assert_rejected(result, "The voice library cannot be used: its file or folder cannot be read and written.")


def test_user_without_a_home_folder_has_to_name_the_library(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    result = run("voices", "list", env={"REPRISE_DATABASE": ""})
    assert_rejected(result, "This user has no home folder for the voice library: name its file by --database.")


@pytest.mark.parametrize("option", ["--database", "--sounds", "--snapshots"])
def test_home_of_an_unknown_user_is_a_name_like_any_other(run: Run, option: str) -> None:
    """As in a shell: “~” may begin the name of a file."""
    result = run(option, "~nobody-here", "voices", "list")
    assert "Adam" in result.stdout, result.output


@pytest.mark.parametrize("command", [(), ("keys", "create"), ("library", "copy"), ("voices", "add")])
def test_help_is_shown_without_markup(run: Run, command: tuple[str, ...]) -> None:
    shown = run(*command, "--help", terminal_width=10_000)
    assert shown.exit_code == 0, shown.stderr
    assert "│" not in shown.stdout
    if not command:
        assert "Needs ray[serve]." in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (("--slots", "3"), {}),
        ((), {"REPRISE_SLOTS": "3"}),
        (("--slots", "3"), {"REPRISE_SLOTS": "5"}),
    ],
)
def test_options_precede_variables(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], environ: dict[str, str]
) -> None:
    seen = []
    monkeypatch.setattr(CommandContext, "_library_location", lambda command: seen.append(command.slots) or ":memory:")
    run(*arguments, "voices", "list", env=environ)
    assert set(seen) == {3}


def test_concurrent_first_starts_list_the_samples_and_load_packages_only_when_needed(tmp_path: Path) -> None:
    code = (
        "import sys, app\n"
        "if found := sorted({'torch', 'gradio', 'sqlalchemy', 'soundfile'} & set(sys.modules)): sys.exit(found)\n"
        f"app.main(['voices', 'list', '--database', {str(tmp_path / 'v.db')!r}], standalone_mode=False)\n"
        "import web.serve  # which imports Gradio in the folder of its files\n"
        "sys.exit(sorted({'torch', 'gradio'} & set(sys.modules)) or 0)"
    )
    command = [sys.executable, "-c", code]
    both = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        with process:
            said, complaints = process.communicate()
            assert process.returncode == 0, complaints
            assert complaints in ("", f"New library: {tmp_path / 'v.db'}\n")
            assert [line.split("\t")[0] for line in said.splitlines()] == SAMPLES


@pytest.mark.usefixtures("short_turns")
def test_speak_with_a_reference_clip(run: Run) -> None:
    Path("voices.db").unlink()
    result = run("speak", "Good morning.", "--reference", CLIP, "--transcript", WORDS, "-o", "out.wav")
    assert result.exit_code == 0, result.stderr
    samples, _rate = soundfile.read("out.wav", dtype="int16")
    assert len(samples) > 0
    assert np.abs(samples.astype(int)).max() > 100
    assert "Spoken to the end" in result.stderr or "Cut off" in result.stderr
    assert "Wrote out.wav." in result.stderr
    assert [path.name for path in Path.cwd().iterdir()] == ["out.wav"], "no other files are written"


@pytest.mark.usefixtures("short_turns")
def test_saved_voice_speaks_reproducibly_and_files_are_checked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    added = run("voices", "add", "Anna", CLIP, "--transcript", WORDS, "--consent")
    assert added.exit_code == 0, added.stderr
    assert "Saved “Anna”." in added.stderr
    # How many codes are decoded at a time depends on the machine's speed, and rounding on that.
    monkeypatch.setattr(Pacer, "next_frames", lambda self, now: CHUNK_FRAMES[1])
    for name in ("a.wav", "b.flac"):
        spoken = run("speak", "Hello.", "--voice", "anna", "--seed", 5, "-o", name)
        assert spoken.exit_code == 0, spoken.stderr
        assert "seed 5" in spoken.stderr
    np.testing.assert_array_equal(soundfile.read("a.wav", dtype="int16")[0], soundfile.read("b.flac", dtype="int16")[0])
    with Storage.open("voices.db") as storage:
        (used,) = storage.uses.all().values()
    assert used.times == 2
    assert used.seconds == pytest.approx(2 * soundfile.info("a.wav").duration)

    monkeypatch.setattr(provenance, "watermark_installed", lambda: False)
    checked = run("check", "b.flac")
    assert checked.exit_code == 0, checked.stderr
    assert "Model: bundled. Voice: Anna. Seed: 5." in checked.stderr
    other = run("check", CLIP)
    assert other.exit_code == 3
    assert "The file has no tag of Reprise." in other.stderr
    monkeypatch.setattr(watermark, "load_watermark", missing := Mock(side_effect=InvalidOption("watermark.missing")))
    assert_rejected(run("--watermark", "speak", "Hello.", "--voice", "anna"), "needs the package resemble-perth")
    missing.assert_called_once()


def test_url_of_a_service_of_kubernetes_is_no_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REPRISE_PORT", "tcp://10.0.0.1:7860")
    monkeypatch.setattr(sys, "argv", ["app.py", "voices", "list", "--database", str(tmp_path / "voices.db")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
    assert not ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("port", ["0", "-1", "65536", "99999999"])
def test_invalid_port_is_rejected(run: Run, port: str) -> None:
    result = run("--port", port)
    assert result.exit_code == 2
    assert "Invalid value for '--port'" in result.stderr
    assert run(env={"REPRISE_PORT": port}).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("speak", "Hello.", "--transcript", WORDS, "--reference"),
        ("voices", "add", "Anna", "--transcript", WORDS, "--consent"),
        ("voices", "import"),
    ],
)
def test_special_and_large_files_are_rejected_before_loading(run: Run, arguments: tuple[str, ...]) -> None:
    os.mkfifo("pipe")
    Path("endless").symlink_to("/dev/zero")
    with Path("large").open("wb") as large:
        large.truncate(2 << 30)
    for name, says in (("pipe", "is a pipe"), ("endless", "is a device"), ("large", "larger than")):
        assert_rejected(
            run(*arguments, name, *(["--model", "nowhere/at/all"] if "import" not in arguments else [])), says
        )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "either --voice NAME, or --reference"),
        (["--voice", ""], "either --voice NAME, or --reference"),
        (["--voice", "Anna", "--reference", CLIP, "--transcript", WORDS], "either --voice NAME, or --reference"),
        (["--reference", CLIP], "--transcript"),
        (["--voice", "Anna", "-o", "out.aiff"], "use .wav, .flac"),
        (["--voice", "Anna", "-o", "./-"], "use .wav, .flac"),
        (["--voice", "Anna", "-o", "nowhere/out.wav"], "no folder"),
        (["--voice", "Anna", "--temperature", "9"], "temperature is 9"),
        (["--reference", CLIP, "--transcript", WORDS, "--model", "nowhere/at/all"], "nowhere/at/all"),
        (["--voice", "Nobody"], "no voice"),
        (["--voice", "Adam", "--language", "de"], "English only, not “de”"),
        (["--voice", "Adam", "--lufs", "3"], "The loudness is 3 LUFS; choose one from -31 to -14."),
        (["--voice", "Adam", "--speed", "5"], "The speed is 5; choose one from 0.25 to 4."),
    ],
)
def test_invalid_speak_options_are_rejected_with_a_sentence(run: Run, arguments: list[str], says: str) -> None:
    before = wav_bytes(np.zeros(800), 16_000)
    Path("out.wav").write_bytes(before)
    assert_rejected(run("speak", "Hello.", *arguments), says)
    assert Path("out.wav").read_bytes() == before


@pytest.mark.usefixtures("short_turns")
def test_text_is_read_from_standard_input(run: Run) -> None:
    options = ("--voice", "Adam", "--seed", 5, "-o")
    assert run("speak", "Good morning, Zoë.", *options, "a.wav").exit_code == 0
    spoken = run("speak", "-", *options, "b.wav", input="Good morning, Zoë.\n".encode())
    assert spoken.exit_code == 0, spoken.stderr
    one, other = (soundfile.read(file, dtype="int16")[0].astype(int) for file in ("a.wav", "b.wav"))
    np.testing.assert_allclose(one, other, atol=1)  # chunks of other sizes may round differently
    assert_rejected(run("speak", "-", *options, "c.wav", input=b""), "The text is empty")
    assert_rejected(run("speak", "-", *options, "c.wav", input=b"%PDF-1.7"), "PDF")
    assert not Path("c.wav").exists()


def test_speech_is_written_to_a_pipe(run: Run, short_turns: None, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = ("speak", "Good morning.", "--voice", "Adam", "--seed", "1", "-o")
    assert run(*spoken, "file.wav").exit_code == 0
    piped = run(*spoken, "-")
    (piped_head, _, piped_sound), (head, _, sound) = (
        each.partition(b"data") for each in (piped.stdout_bytes, Path("file.wav").read_bytes())
    )
    assert (piped_head, len(piped_sound), Path("-").exists()) == (head, len(sound), False)
    # The rounding of samples depends on the sizes of chunks, which depend on time.
    steps = np.frombuffer(piped_sound, "<i2").astype(int) - np.frombuffer(sound, "<i2")
    assert np.abs(steps).max() <= 1
    assert "Wrote" not in piped.stderr
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(CommandContext, "engine", None)
    assert_rejected(run(*spoken, "-"), "write it to a file or a program, not to the terminal")


def test_version_is_shown(run: Run) -> None:
    assert run("--version").stdout == f"Reprise {__version__}\n"


def test_taken_port_of_wyoming_is_refused_before_a_model_is_loaded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread, because Playwright's event loop may be running in this one."""
    monkeypatch.setattr(CommandContext, "services", None)
    with socket.socket() as taken, ThreadPoolExecutor(1) as thread:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = thread.submit(run, "wyoming", "--uri", f"tcp://127.0.0.1:{taken.getsockname()[1]}").result()
        assert_rejected(refused, "Address already in use")


def test_outputs_replace_only_files_of_the_same_kind(run: Run) -> None:
    Path("notes.wav").write_bytes(b"Dear diary")
    os.mkfifo("pipe.wav")
    Path("link.wav").symlink_to("notes.wav")
    for name, says in (("notes.wav", "is not audio"), ("link.wav", "is not audio"), ("pipe.wav", "is a pipe")):
        assert_rejected(run("speak", "Hello.", "--voice", "Adam", "-o", name), says)
    assert_rejected(run("voices", "export", "Adam", "-o", "notes.wav"), "is not a voice file")
    assert_rejected(run("voices", "export", "Adam", "-o", "pipe.wav"), "is a pipe")
    assert Path("notes.wav").read_bytes() == b"Dear diary"
    assert stat.S_ISFIFO(Path("pipe.wav").stat().st_mode)
    assert Path("link.wav").is_symlink()
    shutil.copy(CLIP, "clip.flac")
    assert_rejected(
        run("speak", "Hello.", "--reference", "clip.flac", "--transcript", WORDS, "-o", "clip.flac"),
        "would replace the reference",
    )
    assert Path("clip.flac").read_bytes() == CLIP.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices")
def test_device_is_not_replaced(run: Run) -> None:
    os.mknod("null.wav", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    assert_rejected(run("voices", "export", "Adam", "-o", "null.wav"), "is a device")
    assert_rejected(run("speak", "Hello.", "--voice", "Adam", "-o", "null.wav"), "is a device")
    assert stat.S_ISCHR(Path("null.wav").stat().st_mode)


def test_unusable_clip_leaves_the_old_file(run: Run) -> None:
    before = wav_bytes(np.zeros(800), 16_000)
    Path("out.wav").write_bytes(before)
    soundfile.write("silence.wav", np.zeros(48_000), 16_000)
    assert_rejected(run("speak", "Hello.", "--reference", "silence.wav", "--transcript", WORDS), "silent")
    assert Path("out.wav").read_bytes() == before


def test_multilingual_model_needs_no_transcript(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "frame_budget", lambda text, rate: min(6, frame_budget(text, rate)))
    assert_rejected(run("voices", "add", "Anna", CLIP, "--consent"), "--transcript")
    added = run("voices", "add", "Anna", CLIP, "--consent", "--language", "de", "--model", str(QWEN), "--device", "cpu")
    assert added.exit_code == 0, added.stderr
    with CommandContext("bundled", "cpu", os.environ["REPRISE_DATABASE"]).library() as library:
        assert library.find("Anna").language == "de"
    speak = ("speak", "Guten Tag.", "--reference", CLIP, "--model", str(QWEN), "--device", "cpu")
    assert_rejected(run(*speak, "--language", "nl"), "does not speak nl")
    spoken = run(*speak, "--language", "de")
    assert spoken.exit_code == 0, spoken.stderr
    assert Path("out.wav").is_file()


def test_voices_are_added_renamed_exported_deleted_and_imported(run: Run) -> None:
    assert listed_names(run("voices", "list")) == []
    assert_rejected(run("voices", "add", "Anna", CLIP, "--transcript", WORDS), "agreed")
    assert run("voices", "add", "Anna", CLIP, "--transcript", WORDS, "--consent", "--speaker", "A. B.").exit_code == 0
    assert_rejected(run("voices", "add", "anna", CLIP, "--transcript", WORDS, "--consent"), "anna")
    long = run("voices", "add", "A" * 300, CLIP, "--transcript", WORDS, "--consent", "--model", "nowhere/at/all")
    assert_rejected(long, "A voice's name can have 80 characters; this one has 300.")
    assert listed_names(run("voices", "list")) == ["Anna"]
    assert run("voices", "rename", "Anna", "Zoë / 1").exit_code == 0
    assert run("voices", "list", "zoe").stdout.startswith("Zoë / 1\t")
    result = run("voices", "list", "nobody")
    assert (result.stdout, result.stderr) == ("", "No voice matches.\n")

    assert run("voices", "export", "Zoë / 1").exit_code == 0
    exported = Path("Zoë - 1.voice")
    voice = Voice.from_bytes(exported.read_bytes())
    assert voice.consent is not None
    assert voice.consent.who == "A. B."
    assert_rejected(run("voices", "export", "Zoë / 1"), "already")
    piped = run("voices", "export", "Zoë / 1", "-o", "-")
    assert (piped.stdout_bytes, piped.stderr, Path("-").exists()) == (exported.read_bytes(), "", False)
    assert run("voices", "import", "-", "--name", "Piped", input=piped.stdout_bytes).stderr == "Imported “Piped”.\n"
    assert run("voices", "delete", "Piped", "--yes").exit_code == 0
    assert_rejected(run("voices", "import", "-", input=b""), "voice file")
    assert run("voices", "export", "Zoë / 1", "-o", "./-").stdout_bytes == b""
    assert Path("-").read_bytes() == exported.read_bytes()
    assert run("voices", "import", "./-", "--name", "Named", input=b"").stderr == "Imported “Named”.\n"
    assert run("voices", "delete", "Named", "--yes").exit_code == 0

    assert run("voices", "rename", "Zoë / 1", "😀" * 80).exit_code == 0
    assert run("voices", "export", "😀" * 80).exit_code == 0
    assert run("voices", "rename", "😀" * 80, "Zoë / 1").exit_code == 0

    assert run("voices", "delete", "Zoë / 1", input="n\n").exit_code == 1
    assert listed_names(run("voices", "list")) == ["Zoë / 1"]
    assert run("voices", "delete", "Zoë / 1", "--yes").exit_code == 0
    assert listed_names(run("voices", "list")) == []

    assert run("voices", "import", exported).exit_code == 0
    assert_rejected(
        run("voices", "import", exported), "already a voice called “Zoë / 1”. Import it under another name, such as"
    )
    assert_rejected(run("voices", "import", exported), "--name 'Zoë / 1 2'")
    assert run("voices", "import", exported, "--name", "Other").exit_code == 0
    with ZipFile("voices.zip", "w") as archive:
        archive.write(exported)
        archive.write("-", "again.voice")
        archive.writestr("notes.txt", "no voice")
    assert_rejected(run("voices", "import", "voices.zip", "--name", "Third"), "--name is for a single voice")
    assert run("voices", "delete", "Zoë / 1", "--yes").exit_code == 0
    result = run("voices", "import", "voices.zip")
    assert result.exit_code == 1
    said = result.stderr.splitlines()
    assert said[0] == "Imported “Zoë / 1”."
    assert said[1].startswith("again.voice: There is already a voice called “Zoë / 1”.")
    assert said[2].startswith("notes.txt: ")
    assert said[3:] == ["Not imported: 2 of the files in voices.zip."]

    ZipFile("empty.zip", "w").close()
    assert_rejected(run("voices", "import", "empty.zip"), "There is no file in empty.zip.")

    exported.write_bytes(exported.read_bytes()[:-1])
    assert_rejected(run("voices", "import", exported, "--name", "Third"), "damaged")
    assert listed_names(run("voices", "list")) == ["Other", "Zoë / 1"]


@pytest.mark.usefixtures("short_turns")
def test_sample_voice_speaks(run: Run) -> None:
    spoken = run("speak", "Good morning.", "--voice", "adam", "--seed", 5, "--lufs", "-23")
    assert spoken.exit_code == 0, spoken.stderr
    samples, rate = soundfile.read("out.wav", dtype="int16")
    assert loudness_of([samples], rate) == pytest.approx(-23, abs=0.2)
    spoken = run("speak", "Good morning.", "--voice", "adam", "--seed", 5, "--speed", 2)
    assert spoken.exit_code == 0, spoken.stderr
    assert len(soundfile.read("out.wav")[0]) == pytest.approx(len(samples) / 2, abs=1)
    assert listed_names(run("voices", "list"), samples=True) == SAMPLES


def test_own_voices_of_a_model_are_listed_mapped_and_spoken(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "frame_budget", lambda text, rate: min(4, frame_budget(text, rate)))
    model = as_kind(tmp_path / "custom", "custom_voice")
    found = run("voices", "list", "--model", model).stdout.splitlines()
    assert found[:3] == ["Vivian\t\tmodel", "Dylan\t\tmodel", "Ryan\t\tmodel"]
    assert run("voices", "list", "VIV", "--model", model).stdout == "Vivian\t\tmodel\n"
    assert run("keys", "create", "Home", "--voice", "alloy=ryan", "--model", model).exit_code == 0
    assert_rejected(run("keys", "create", "Other", "--voice", "alloy=Ryan"), "no voice called “Ryan”")
    asked: list[SpeakOptions] = []
    speak = Engine.speak
    monkeypatch.setattr(Engine, "speak", lambda self, *of: asked.append(of[-1]) or speak(self, *of))
    spoken = run("--graphs", "off", "speak", "Hello.", "--voice", "ryan", "--model", model, "--top-p", ".7")
    assert spoken.exit_code == 0, spoken.stderr
    # The model's defaults, except for top_p.
    assert (asked[0].temperature, asked[0].top_p, asked[0].top_k) == (0.9, 0.7, 50)
    assert read_tags("out.wav")["comment"].count("voice=model:ryan") == 1
    assert_rejected(run("speak", "Hello.", "--voice", "Clara", "--model", model), "does not clone")
    assert_rejected(run("speak", "Hello.", "--voice", "Nobody", "--model", model), "no voice called “Nobody”")


def test_samples_cannot_be_changed(run: Run) -> None:
    for change in (["rename", "Adam", "Mine"], ["delete", "Adam"], ["delete", "Adam", "--yes"]):
        assert_rejected(run("voices", *change), "“Adam” is a sample voice")
    assert run("voices", "export", "Adam").exit_code == 0
    assert run("voices", "import", "Adam.voice").exit_code == 0
    assert listed_names(run("voices", "list")) == ["Adam"]
    assert run("voices", "rename", "Adam", "Mine").exit_code == 0, "the own voice takes precedence"
    assert listed_names(run("voices", "list"), samples=True) == SAMPLES


def test_options_may_precede_or_follow_the_command(run: Run, tmp_path: Path) -> None:
    (tmp_path / "voices.db").unlink()
    for arguments in (["--database", "one.db", "voices", "list"], ["voices", "list", "--database", "two.db"]):
        assert run(*arguments).exit_code == 0
    assert run("--database", "not-this.db", "voices", "list", "--database", "three.db").exit_code == 0
    assert {path.name for path in tmp_path.glob("*.db")} == {"one.db", "two.db", "three.db"}


def test_model_choices_have_license_notices() -> None:
    assert model_notices("bundled", []) == {}
    notices = model_notices("bundled", ["fishaudio/s2-pro", "bundled"])
    assert list(notices) == ["bundled", "fishaudio/s2-pro"]
    assert "research and non-commercial use" in str(notices["fishaudio/s2-pro"])
    assert notices["bundled"] == UserMessage(Profile.load(BUNDLED).notice)
    assert "Small demonstration" in str(notices["bundled"])
    with pytest.raises(ReleaseNotFound):
        model_notices("bundled", ["nowhere/at/all"])


def test_first_model_choice_is_loaded_by_default(run: Run) -> None:
    speak = ("speak", "Hello.", "--reference", CLIP, "--transcript", WORDS)
    assert_rejected(run("--models", "first/of/all", "--models", "bundled", *speak), "first/of/all")
    assert_rejected(run("--models", "bundled", "--model", "named/in/full", *speak), "named/in/full")


def test_page_is_served_to_holders_of_its_link(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[str] = []

    def visit(link: str, shared: str | None, *, open_browser: bool) -> None:
        assert (shared, open_browser) == (None, True)
        page = link.partition("?")[0]
        assert httpx.get(page, timeout=60).status_code == 401, "the link's token is required"
        with httpx.Client(follow_redirects=True, timeout=60) as browser:
            assert "gradio_config" in browser.get(link).text
            assert "gradio_config" in browser.get(page).text, "the cookie replaces the token"
        visited.append(link)
        raise KeyboardInterrupt

    monkeypatch.setattr(web.serve, "show_address", visit)
    with ThreadPoolExecutor(1) as pool:  # a browser's event loop may be running in this thread
        stopped = pool.submit(run).result()
    assert len(visited) == 1, stopped.exception
    assert (stopped.exit_code, type(stopped.exception)) == (130, SystemExit)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable SIGINT, which is ignored in background jobs of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_first_ctrl_c_stops_gracefully() -> None:
    stopped: list[bool] = []
    with terminal.on_ctrl_c(lambda: stopped.append(True)):
        os.kill(os.getpid(), signal.SIGINT)
        assert stopped == [True]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_audio_before_ctrl_c_is_kept_with_exit_code_130(tmp_path: Path) -> None:
    take, result = TakeBuffer(8_000), SpeechResult("cancelled", 1, 0.1, 0.2, 0.1, 3, ())
    take.add(AudioChunk(np.full(800, 0.5, np.float32), 0, 1, 0.1, 0, 1, "text"))
    with pytest.raises(typer.Exit) as exit_:
        finish(take, result, tmp_path / "out.wav", Provenance())
    assert exit_.value.exit_code == 130
    assert len(soundfile.read(tmp_path / "out.wav")[0]) == 800


def test_servers_exit_properly_on_sigterm() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left, terminal.exit_on_signal():
        os.kill(os.getpid(), signal.SIGTERM)
    assert left.value.code == 0
    assert signal.getsignal(signal.SIGTERM) is before
    with ThreadPoolExecutor(1) as pool:  # only the main thread may handle signals
        pool.submit(terminal.exit_on_signal().__enter__).result()


def test_process_ends_where_a_thread_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "_exit", left := Mock())
    gone = ExceptionGroup("", [ExceptionGroup("", [BrokenPipeError()])])
    for number, error in enumerate((SystemExit(0), BrokenPipeError(), gone), start=1):
        with terminal.exit_at_once():
            raise error
        assert left.call_count == number
    with pytest.raises(OSError, match="full"), terminal.exit_at_once():
        raise OSError("full")
    assert left.call_count == 3


def test_key_that_cannot_be_printed_is_not_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(keys, "print_secret", Mock(side_effect=full))
        assert_rejected(run("keys", "create", "Home"), "No space left on device.")
    assert "no keys" in run("keys", "list").stderr


def test_keys_are_created_listed_and_revoked(run: Run) -> None:
    assert "no keys" in run("keys", "list").stderr
    made = run("keys", "create", "Home", "--rate", "60/minute", "--quota", "1000/day", "--voice", "alloy=Clara")
    assert made.exit_code == 0, made.stderr
    key = made.stdout.strip()
    assert "cannot be shown again" in made.stderr
    assert "no voices" not in made.stderr
    guest_made = run("keys", "create", "Guest", "--days", "3", "--owner", "user:ann")
    assert guest_made.exit_code == 0
    assert "“user:ann” has no voices yet" in guest_made.stderr
    guest, home = (line.split("\t") for line in run("keys", "list").stdout.splitlines())
    assert guest[0::2][:2] == ["Guest", "user:ann"]
    assert guest[3].startswith("until 2")
    assert home[0] == "Home"
    assert home[1] == f"{key[:8]}…"
    assert home[2:] == ["local", "60 requests in 1 minute", "0 of 1,000 characters in 1 day", "alloy = Clara"]
    assert run("keys", "revoke", "Home").exit_code == 0
    assert len(run("keys", "list").stdout.splitlines()) == 1


def test_language_of_a_voice_is_stored_as_a_tag(run: Run) -> None:
    add = ("voices", "add", "Anna", CLIP, "--transcript", WORDS, "--consent", "--language")
    assert_rejected(run(*add, "klingonisch"), "“klingonisch” is not a language tag")
    assert run(*add, "german").exit_code == 0
    with CommandContext("bundled", "cpu", os.environ["REPRISE_DATABASE"]).library() as library:
        assert library.find("Anna").language == "de"


def test_listed_keys_show_the_current_names_of_their_voices(run: Run) -> None:
    assert run("voices", "add", "Anna", CLIP, "--transcript", WORDS, "--consent").exit_code == 0
    assert run("keys", "create", "Home", "--voice", "nova=Anna").exit_code == 0
    assert run("voices", "rename", "Anna", "Annette").exit_code == 0
    assert run("keys", "list").stdout.splitlines()[0].endswith("\tnova = Annette")
    assert run("voices", "delete", "Annette", "--yes").exit_code == 0
    assert run("keys", "list").stdout.splitlines()[0].endswith("\tnova = a deleted voice")


@pytest.mark.parametrize(
    ("option", "limit"),
    [("--rate", "60/minute;1000/day"), ("--rate", "60 apples"), ("--quota", "60/minute, 1000/day"), ("--quota", "")],
)
def test_key_has_one_limit_of_each_kind(run: Run, option: str, limit: str) -> None:
    assert_rejected(run("keys", "create", "Home", option, limit), "is not a valid limit")
    assert run("keys", "list").stdout == ""


def test_taken_port_is_refused_before_the_model_is_loaded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommandContext, "services", Mock(side_effect=AssertionError("loaded")))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert_rejected(run("--port", port), f"port {port}: another program may be using it")
    assert_rejected(run("--host", "192.0.2.1"), "Choose an address of this machine by --host")


@pytest.mark.parametrize("name", ["https://voices.example.org", "a.example.org,b.example.org"])
def test_invalid_host_name_is_refused_before_the_model_is_loaded(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(CommandContext, "services", Mock(side_effect=AssertionError("loaded")))
    assert_rejected(run("--allowed-host", name), "without scheme and port")
    assert_rejected(run("--clip-host", "example.org:8443", "--clip-host", name), "is not a valid host of clips")


def test_wyoming_at_a_taken_port_is_refused(run: Run) -> None:
    # In another thread, because a browser's event loop may be running in this one.
    with socket.socket() as taken, ThreadPoolExecutor(1) as pool:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = pool.submit(run, "wyoming", "--uri", f"tcp://127.0.0.1:{taken.getsockname()[1]}").result()
    assert_rejected(refused, "at this address (Address already in use); choose another by --uri")
    assert "Reprise speaks Wyoming" not in refused.stderr


@pytest.mark.parametrize("days", [0, 36_501])
def test_key_expires_within_a_hundred_years(run: Run, days: int) -> None:
    refused = run("keys", "create", "Home", "--days", days)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--days" in refused.stderr
    assert "no keys" in run("keys", "list").stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create", "Home", "--rate", "fast"), "“fast” is not a valid limit"),
        (("create", " "), "A key needs a name"),
        (("create", "Home", "--owner", "ann"), "“ann” is not an owner"),
        (("create", "Home", "--owner", "user:"), "“user:” is not an owner"),
        (("create", "Home", "--voice", "alloy"), "“alloy” maps no name"),
        (("create", "Home", "--voice", "alloy=Nobody"), "no voice called “Nobody”"),
        (("revoke", "Home"), "There is no key “Home”."),
    ],
)
def test_invalid_keys_are_rejected(run: Run, arguments: tuple[str, ...], says: str) -> None:
    assert_rejected(run("keys", *arguments), says)


def test_owners_are_listed_and_erased(run: Run) -> None:
    assert "No owner has any data" in run("library", "owners").stderr
    assert run("keys", "create", "Anna's", "--owner", "user:anna").exit_code == 0
    assert run("voices", "add", "Adam", CLIP, "--transcript", WORDS, "--consent").exit_code == 0
    local, anna = (line.split("\t") for line in run("library", "owners").stdout.splitlines())
    assert (local[:2], anna[:2]) == (["local", "voices: 1"], ["user:anna", "voices: 0"])
    assert_rejected(run("library", "erase", "anna", "--yes"), "There is no data of “anna”")
    assert run("library", "erase", "local", input="n\n").exit_code == 1
    asked = run("library", "erase", "local", input="y\n")
    assert "for good (voices: 1, " in asked.stderr
    assert "All data of “local” is deleted." in asked.stderr
    assert run("library", "erase", "user:anna", "--yes").exit_code == 0
    assert run("library", "owners").stdout == ""
    assert "no keys" in run("keys", "list").stderr
    assert listed_names(run("voices", "list")) == []
