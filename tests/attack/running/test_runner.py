"""The attack detects errors, slowness, memory growth, crashes, and access outside of the folder."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _report
from engine.errors import InvalidInput
from tests.attack.attack import Attack, Broken, Skipped, all_attacks, once
from tests.attack.running import guard, report
from tests.attack.running.findings import MOST, Findings
from tests.attack.running.inside import select_attacks
from tests.attack.running.outcome import Outcome, Tally, tally_of
from tests.attack.running.runner import Job, Runner

ROOT = Path(__file__).parents[3]
MACHINE = {
    "date": "2026-11-22", "processor": "P", "cores": 2, "gpu": None, "python": "3", "packages": {}, "threads": None,
}  # fmt: skip


def _refuse(_: Any) -> None:
    raise InvalidInput("That is not a number: give one.")


def _break(_: Any) -> None:
    raise Broken("It did not hold.")


def _trip(_: Any) -> None:
    raise IndexError("list index out of range")


def _skip(_: Any) -> None:
    raise Skipped("there is no moon")


def _hang(_: Any) -> None:
    time.sleep(1_000)


def _dawdle(_: Any) -> None:
    began = time.process_time()
    while time.process_time() < began + 0.7:
        pass


def _grow(_: Any) -> None:
    bytearray(os.urandom(1 << 20) * 100)


def _die(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _escape(_: Any) -> None:
    try:
        Path("/etc/reprise-attack").write_text("no")
    except RuntimeError as error:  # a handler of the page would catch it too
        raise InvalidInput("That cannot be written.") from error


def _several(_: Any) -> int:
    return 7


def attack(run: Any, **more: Any) -> Attack:
    return Attack(run.__name__, "made up", once, run, 1, **{"seconds": 0.5, "megabytes": 50.0, **more})


def run_attacks(folder: Path, *attacks: Attack, workers: int = 2) -> dict[str, list[Outcome]]:
    """Run each attack once, in real workers."""
    seen: dict[str, list[Outcome]] = defaultdict(list)
    with Runner(folder, workers=workers, attacks={each.name: each for each in attacks}) as runner:
        jobs = (Job(each, 0, 0) for each in attacks)
        runner.run(jobs, lambda each, _index, _case, outcome: seen[each.name].append(outcome))
    return seen


def test_each_kind_of_failure_is_detected_and_the_others_continue(tmp_path: Path) -> None:
    ways = (_refuse, _break, _trip, _skip, _dawdle, _grow, _die, _several)
    seen = run_attacks(tmp_path, *(attack(way, seconds=0.5 if way is _dawdle else 20.0) for way in ways))
    kinds = {name: [outcome.kind for outcome in some] for name, some in seen.items()}
    assert kinds == {
        "_refuse": ["refused"],
        "_break": ["raised"],
        "_trip": ["raised"],
        "_skip": ["skipped"],
        "_dawdle": ["slow"],
        "_grow": ["large"],
        "_die": ["died"],
        "_several": ["held"],
    }
    assert "IndexError" in seen["_trip"][0].detail
    assert "in _dawdle" in seen["_dawdle"][0].detail, "the stack at the time limit"
    assert seen["_several"][0].tries == 7


def test_hanging_case_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.attack.running.runner._STARTING", 2.0)
    [outcome] = run_attacks(tmp_path, attack(_hang))["_hang"]
    assert outcome.kind == "slow"
    assert "in _hang" in outcome.detail


def test_write_outside_the_folder_is_refused_and_logged(tmp_path: Path) -> None:
    assert [outcome.kind for outcome in run_attacks(tmp_path, attack(_escape))["_escape"]] == ["refused"]
    assert not Path("/etc/reprise-attack").exists()
    assert guard.escapes(tmp_path) == ["open: /etc/reprise-attack"]


# Code, and whether the guard allows it.
EFFECTS = (
    ("open('inside', 'w')", True),
    ("open('/dev/null', 'w')", True),
    ("open('/etc/hostname').close()", True),
    ("open('../outside', 'w')", False),
    ("pathlib.Path('/dev/full').open('wb')", False),
    ("os.chmod('/etc/hostname', 0o644)", False),
    ("os.rename('a', '/etc/a')", False),
    ("os.symlink('/etc', 'etc'); open('etc/x', 'w')", False),
    ("os.symlink('/etc/x', 'y')", True),
    ("sqlite3.connect('/etc/x.db')", False),
    ("sqlite3.connect(':memory:').close()", True),
    ("shutil.rmtree('/usr/share/reprise', ignore_errors=True); os.rmdir('/usr/share')", False),
    ("import tempfile; tempfile.TemporaryDirectory(dir='.').cleanup()", True),
    ("socket.create_connection(('192.0.2.1', 80), timeout=0.1)", False),
    ("socket.getaddrinfo('reprise.example', 80)", False),
    ("socket.socket().bind(('127.0.0.1', 0))", True),
    ("socket.socket().bind(('0.0.0.0', 0))", False),
)
# A hook cannot be removed, so each code runs in a guarded child. Prints the exception of each, or null.
IN_CHILDREN = """
import json, os, pathlib, shutil, socket, sqlite3, sys
from tests.attack.running import guard

def run(code, folder):
    os.chdir(folder)
    guard.install(pathlib.Path.cwd())
    exec(code)

for number, code in enumerate(json.loads(sys.argv[1])):
    folder = pathlib.Path(str(number), "folder")
    folder.mkdir(parents=True)
    if not os.fork():
        raised = None
        try:
            run(code, folder)
        except BaseException as error:
            raised = type(error).__name__
        print(json.dumps(raised), flush=True)
        os._exit(0)
    os.wait()
"""


def test_guard_allows_only_local_effects() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # the guard allows all files in memory
        done = subprocess.run(
            [sys.executable, "-c", IN_CHILDREN, json.dumps([code for code, _ in EFFECTS])], cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        raised = [json.loads(line) for line in done.stdout.splitlines()]
        for number, ((code, allowed), error) in enumerate(zip(EFFECTS, raised, strict=True)):
            assert error == (None if allowed else "Escape"), code
            assert (guard.escapes(Path(folder, str(number), "folder")) == []) == allowed, code


def test_snapshots_show_changed_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("one")
    before = guard.snapshot(tmp_path)
    (tmp_path / "a").write_text("other")
    (tmp_path / "b").unlink()
    (tmp_path / "c").write_text("one")
    changed = [path for path in guard.changed(before, guard.snapshot(tmp_path)) if path.startswith(str(tmp_path))]
    assert changed == [str(tmp_path / name) for name in "abc"]


def test_finding_has_its_case_and_the_reproducing_command(tmp_path: Path) -> None:
    findings = Findings(tmp_path, seed=3)
    places = [
        findings.keep(attack(_trip), index, (b"bytes", "name"), Outcome("raised", "why")) for index in range(MOST + 1)
    ]
    assert places[0] is not None
    assert places[MOST] is None
    said = json.loads((places[0] / "finding.json").read_text())
    assert said["again"] == "make attack ARGS=\"--only '_trip' --seed 3 --case 0\""
    assert (places[0] / "case-0.bin").read_bytes() == b"bytes"
    assert (places[0] / "detail.txt").read_text() == "why"


def test_table_counts_tries_and_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tally, skipped = Tally("voices", "damaged"), Tally("moon", "light")
    tally.add(Outcome("held", tries=1_000, seconds=0.25, megabytes=3))
    tally.add(Outcome("refused"))
    tally.add(Outcome("raised", "why"))
    skipped.add(Outcome("skipped", "there is no moon"))
    assert tally_of(json.loads(json.dumps(tally.values()))) == tally
    rows = report.rows([tally, skipped])
    assert rows[0] == ["voices: damaged", "1,002", 1, 0, 0, 0, "0.2 s", "3 MB"]
    assert rows[1][:2] == ["moon: light", "not run"]
    assert rows[2][:3] == ["all", "1,002", 1]

    document = tmp_path / "security.md"
    monkeypatch.setattr(report, "DOCUMENT", document)
    document.write_text(f"Before.\n\n{report.BEGIN}\nold\n{report.END}\n\nAfter.\n")
    tally.run = skipped.run = report.description(MACHINE, seed=1)
    report.document([tally, skipped])
    text = document.read_text()
    assert text.startswith(f"Before.\n\n{report.BEGIN}\n2026-11-22 · P, 2 cores")
    assert text.endswith(f"- moon: there is no moon\n{report.END}\n\nAfter.\n")
    assert "old" not in text


def test_partial_run_replaces_only_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    voices, moon = Tally("voices", "damaged", tries=9), Tally("moon", "light", tries=3)
    assert report.merged([moon]) == [moon]
    payload = report.payload([voices, moon], 1, [])
    (tmp_path / "attack.json").write_text(json.dumps({"machine": MACHINE, **payload}))
    again, new = Tally("voices", "damaged", tries=10), Tally("sun", "heat", tries=1)
    assert report.merged([new, again]) == [again, moon, new]


def test_rows_of_another_run_keep_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    before = [Tally(name, "damaged", tries=9).values() for name in ("voices", "moon", "sun")]
    for values in before:
        del values["run"]  # as results were kept before rows had runs of their own
    (tmp_path / "attack.json").write_text(json.dumps({"machine": MACHINE, "seed": 1, "attacks": before}))
    document = tmp_path / "security.md"
    monkeypatch.setattr(report, "DOCUMENT", document)
    document.write_text(f"{report.BEGIN}\n{report.END}\n")
    later = report.description({**MACHINE, "date": "2026-12-01"}, seed=2)
    report.document(report.merged([Tally("sun", "heat", tries=1, run=later)]))
    text = document.read_text()
    assert text.startswith(f"{report.BEGIN}\n2026-11-22 · P, 2 cores · no GPU · Python 3 · seed 1\n")
    assert "\n- sun: 2026-12-01 · P, 2 cores · no GPU · Python 3 · seed 2\n" in text


def test_attacks_are_selected_by_name_before_module() -> None:
    assert [each.name for each in select_attacks(["scripts"])] == ["scripts"]
    assert {each.name for each in select_attacks(["links", "passwords", "full"])} == {"links", "accounts", "full disk"}
    assert {each.name for each in select_attacks(["live", "fuzz"])} > {"fuzz", "gate", "programs"}
    with pytest.raises(SystemExit, match="no attack called moon\\."):
        select_attacks(["scripts", "moon"])


def test_cases_depend_on_the_seed_and_not_on_their_number() -> None:
    for each in all_attacks().values():
        if not each.alone:
            assert list(each.cases(5, 3)) == list(islice(each.cases(5, 6), 3)), each.name


def test_whole_run_has_at_least_ten_thousand_cases() -> None:
    assert sum(each.count for each in all_attacks().values()) >= 10_000
