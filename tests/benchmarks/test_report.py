"""Markdown tables and result files of the benchmarks."""

import json
from pathlib import Path

import pytest

from benchmarks import _report


def test_table_is_markdown_with_aligned_columns() -> None:
    lines = _report.table(["what", "value"], [["a", 0.12345], ["longer", None], ["n", 7]]).split("\n")
    assert lines == [
        "| what   | value |",
        "|--------|------:|",
        "| a      | 0.123 |",
        "| longer |     – |",
        "| n      |     7 |",
    ]


def test_row_with_wrong_number_of_cells_is_rejected() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        _report.table(["a", "b"], [["x"]])


def test_saved_results_have_machine_and_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report, "RESULTS", tmp_path / "results")
    path = _report.save("speed", {"factor": 0.4})
    saved = json.loads(path.read_text("utf-8"))
    assert saved["factor"] == 0.4
    assert saved["machine"]["cores"] >= 1
    assert saved["machine"]["packages"]["numpy"]
    assert list(path.parent.iterdir()) == [path]


def test_machine_description_is_one_line() -> None:
    line = _report.describe(_report.machine())
    assert "Python 3." in line
    assert "\n" not in line


def test_threads_are_those_of_the_processes_that_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    for threads, described in ((1, " 1 thread "), (3, " 3 threads "), ([1, 3], " 1 or 3 threads ")):
        about = json.loads(_report.save("memory", {"threads": threads}).read_text("utf-8"))["machine"]
        assert about["threads"] == threads
        assert described in _report.describe(about)


def test_common_threads_are_listed_only_if_they_differ() -> None:
    assert _report.common_threads([2, None, 2]) == 2
    assert _report.common_threads([2, 1, 2]) == [1, 2]
    assert _report.common_threads([None]) is None
