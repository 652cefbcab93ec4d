"""Tables and results: what is printed can be pasted, what is kept can be read."""

import json
from pathlib import Path

import pytest

from benchmarks import _report


def test_a_table_is_markdown_with_even_columns() -> None:
    lines = _report.table(["what", "value"], [["a", 0.12345], ["longer", None], ["n", 7]]).split("\n")
    assert lines == [
        "| what   | value |",
        "|--------|------:|",
        "| a      | 0.123 |",
        "| longer |     – |",
        "| n      |     7 |",
    ]


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        _report.table(["a", "b"], [["x"]])


def test_results_hold_the_machine_and_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report, "RESULTS", tmp_path / "results")
    path = _report.save("speed", {"factor": 0.4})
    kept = json.loads(path.read_text("utf-8"))
    assert kept["factor"] == 0.4
    assert kept["machine"]["cores"] >= 1
    assert kept["machine"]["packages"]["numpy"]
    assert list(path.parent.iterdir()) == [path]


def test_the_machine_is_one_line() -> None:
    line = _report.describe(_report.machine())
    assert "Python 3." in line
    assert "\n" not in line
