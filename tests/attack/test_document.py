"""docs/security.md has a row for each attack, and names attacks and files that exist."""

import re

from tests.attack.attack import all_attacks
from tests.attack.running.report import BEGIN, DOCUMENT, END
from tests.paths import ROOT

TEXT = DOCUMENT.read_text("utf-8")
PROMISES = TEXT.partition("## Promises")[2].partition("\n## ")[0]


def test_each_attack_has_a_row() -> None:
    table = TEXT.partition(BEGIN)[2].partition(END)[0]
    assert set(re.findall(r"^\| ([^:|]+): ", table, re.M)) == all_attacks().keys()


def test_each_attack_checks_a_promise() -> None:
    named = re.findall(r"attacks? ((?:`[^`]+`(?:, )?)+)", PROMISES)
    assert {name for names in named for name in re.findall(r"`([^`]+)`", names)} == all_attacks().keys()


def test_named_files_exist() -> None:
    named = re.findall(r"`((?:api|cli|engine|storage|studio|tests|web)/[^`]*)`", PROMISES)
    assert [path for path in named if not (ROOT / path).exists()] == []
