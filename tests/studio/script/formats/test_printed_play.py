"""Plays and screenplays: names in capitals name the speakers, headings and other text do not."""

import pytest

from studio.script import parse

TRAGEDY = """ACT I

SCENE I. Elsinore. A platform before the Castle.

 Enter Francisco and Barnardo, two sentinels.

BARNARDO.
Who’s there?

FRANCISCO.
Nay, answer me.
BARNARDO [Aside].
Long live the King!
[Kneeling] Long live he!

FRANCISCO. Barnardo?
"""

SCREENPLAY = """INT. KITCHEN - DAY

Anna is cooking.

                    ANNA
          Did you bring the salt?

                    BEN (O.S.)
          No. I forgot it.

INT. GARDEN - DAY

                    ANNA (CONT'D)
          Again?

                    BEN (nervous)
          Again.
"""


def spoken(text: str) -> list[tuple[str | None, str]]:
    return [(card.speaker, card.text) for card in parse(text).cards]


def test_names_in_capitals_before_a_full_stop() -> None:
    assert spoken(TRAGEDY) == [
        (None, "ACT I"),
        (None, "SCENE I. Elsinore. A platform before the Castle."),
        (None, "Enter Francisco and Barnardo, two sentinels."),
        ("BARNARDO", "Who’s there?"),
        ("FRANCISCO", "Nay, answer me."),
        ("BARNARDO", "[Aside] Long live the King!"),
        ("BARNARDO", "[Kneeling] Long live he!"),
        ("FRANCISCO", "Barnardo?"),
    ]


def test_names_on_lines_of_a_screenplay() -> None:
    assert spoken(SCREENPLAY) == [
        (None, "INT. KITCHEN - DAY"),
        (None, "Anna is cooking."),
        ("ANNA", "Did you bring the salt?"),
        ("BEN", "No. I forgot it."),
        (None, "INT. GARDEN - DAY"),
        ("ANNA", "Again?"),
        ("BEN", "[nervous] Again."),
    ]


def test_dashes_after_names_in_french_and_spanish_plays() -> None:
    play = "SCÈNE PREMIÈRE. ORGON.\n\nORGON, à part. — Oui ? — Non.\n\nÉlise. — Si.\n\nORGON.—¡Sí!\n\nÉlise.— No."
    assert spoken(play) == [
        (None, "SCÈNE PREMIÈRE. ORGON."),
        ("ORGON", "[à part] Oui ? — Non."),
        ("Élise", "Si."),
        ("ORGON", "¡Sí!"),
        ("Élise", "No."),
    ]


def test_headings_before_dashes_are_no_names() -> None:
    recipes = "Mode.—Mix it.\n\nTime.—1 hour.\n\nMode.—Roast it.\n\nTime.—3 hours."
    assert spoken(recipes) == [(None, line) for line in recipes.split("\n\n")]


def test_titles_and_names_of_several_words() -> None:
    lines = ["MRS. ALVING. Good morning.", "FIRST SOLDIER. NO. Never.", "MRS. ALVING. Well.", "FIRST SOLDIER. O."]
    assert spoken("\n\n".join(lines)) == [
        ("MRS. ALVING", "Good morning."),
        ("FIRST SOLDIER", "NO. Never."),
        ("MRS. ALVING", "Well."),
        ("FIRST SOLDIER", "O."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "CHAPTER I. Loomings\nCHAPTER II. The Bag\n\nCHAPTER I. Loomings\n\nCall me.\n\nCHAPTER II. The Bag\n\nI.",
        "NASA. It flew.\n\nNASA. It landed.\n\nNobody saw it.",
        "STOP.\n\nGO.\n\nSTOP.\n\nGO.",
        "BBC.\nOne.\n\n" + "It was a long report.\n\n" * 20 + "NHS.\nTwo.\n\nBBC.\nThree.\n\nNHS.\nFour.",
        "I. One.\n\nII. Two.\n\nI. One.\n\nII. Two.",
        "INGREDIENTS\nFlour.\n\nMETHOD\nMix it.\n\nINGREDIENTS\nEggs.\n\nMETHOD\nBeat them.",
    ],
    ids=["chapters", "one name", "nothing follows", "a report", "numerals", "recipes"],
)
def test_other_capitals_are_text(text: str) -> None:
    assert parse(text).speakers == ()
