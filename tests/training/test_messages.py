"""Commands of training end with one sentence for folders and options that they cannot use."""

import importlib
import sys
from pathlib import Path

import pytest

from tests.paths import BUNDLED
from training.work import exit_with_message

pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the speakers' warps")

NO_SPEECH = "No finished shard of training speech in"
NO_CODEC = "The model's folder holds no codec"


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command that fails. Return the message that it ends with."""
    module, *arguments = command.split()
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"training.{module}").main()
    return str(ended.value.code)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("speech.corpus --work none", NO_SPEECH),
        ("speech.synthesize --work file", "file/data: Not a directory."),
        ("pipeline --work file --setting tiny", "file: File exists."),
        ("codec.train --work none", NO_SPEECH),
        ("dual_ar.encode --work none --codec {bundled}", NO_SPEECH),
        (
            "pipeline --work none --setting tiny --until source",
            "This setting has no stage source. Its stages are speech",
        ),
        ("dual_ar.train --work none", "No codes in none/codes: encode the speech first"),
        ("dual_ar.train --work none --from none", "none is not a release to continue from"),
        ("dual_ar.reward --work none --from none", "No codes in none/codes: encode the speech first"),
        ("recogniser.train --work file", "file/recogniser: Not a directory."),
        ("speech.lexicon --words none --more none --out out", "none: No such file or directory."),
        ("speaker.train --work none", NO_SPEECH),
        ("pitch.train --work none", NO_SPEECH),
        ("export --work none --codec {bundled} --out out", "none/ar/checkpoint.pt: No such file or directory."),
        ("packing pack --work none --out out", NO_SPEECH),
        ("packing unpack --from none --work out", "none holds no packed speech"),
        ("make_samples --codec none --out .", NO_CODEC),
    ],
)
def test_folders_without_what_a_command_needs(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("file", "earlier.voice"):
        Path(name).touch()
    assert run(command.format(bundled=BUNDLED), monkeypatch).startswith(message)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "earlier.voice"}


@pytest.mark.parametrize(
    ("file", "written", "command"),
    [
        ("pipeline.json", "", "pipeline --setting tiny"),
        ("pipeline.json", "[]", "pipeline --setting tiny"),
        ("pipeline.json", '{"stages": 1}', "pipeline --setting tiny"),
        ("codes/codec.json", "", "dual_ar.train"),
        ("codes/codec.json", '{"frame', "dual_ar.reward --from {bundled}"),
    ],
)
def test_damaged_file_of_a_working_folder_is_named(
    file: str, written: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "work" / file
    path.parent.mkdir(parents=True)
    path.write_text(written)
    message = run(f"{command.format(bundled=BUNDLED)} --work {tmp_path / 'work'}", monkeypatch)
    assert message.startswith(f"{path} is ")
    assert path.read_text() == written


@pytest.mark.parametrize(
    "command",
    [
        "codec.train --minutes 0",
        "codec.train --minutes nan",
        "codec.train --steps 0",
        "codec.train --batch -1",
        "dual_ar.train --minutes -1",
        "dual_ar.encode --codec none --variants 0",
        "recogniser.train --minutes 0",
        "recogniser.train --epochs 0",
        "speaker.train --steps 0",
        "pitch.train --steps 0",
        "speech.synthesize --hours 0",
        "speech.synthesize --workers 0",
        "packing pack --out out --megabytes 0",
    ],
)
def test_numbers_that_must_be_positive(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{command} --work none", monkeypatch) == "2"
    name, value = command.split()[-2:]
    assert f"argument {name}: {value} is not a " in capsys.readouterr().err


def test_ctrl_c_ends_a_command_silently() -> None:
    with pytest.raises(SystemExit) as ended, exit_with_message():
        raise KeyboardInterrupt
    assert ended.value.code == 130
