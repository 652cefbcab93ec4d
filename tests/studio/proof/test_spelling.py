"""British and American spellings of English words."""

import pytest

from studio.proof.spelling import one_spelling

PAIRS = """
    colour color, colours colors, coloured colored, favourite favorite, neighbourhood neighborhood, honour honor,
    labour labor, behaviour behavior, savoury savory, organise organize, organised organized, realisation realization,
    recognising recognizing, analyse analyze, paralysed paralyzed, centre center, theatres theaters, fibre fiber,
    metre meter, litres liters, travelled traveled, traveller traveler, cancelling canceling, labelled labeled,
    modelling modeling, fulfil fulfill, enrol enroll, enrolment enrollment, defence defense, licences licenses,
    offence offense, dialogue dialog, catalogued cataloged, paediatric pediatric, foetus fetus, aesthetic esthetic,
    encyclopaedia encyclopedia, mould mold, moult molt, judgement judgment, grey gray, tyres tires, cheque check,
    programme program, plough plow, pyjamas pajamas, storey story, sceptical skeptical, axe ax, ok okay
"""
OTHERS = """
    filling filing, filled filed, calling caling, tall tal, role roll, pole poll, four fore, house hose, ours ors,
    best beast, does des, poet pet, aerial erial, wrist wrizt, bell bel, shell shel,
    month moth, mount mont, stage stag, poets pets, scoured scored, flour flor
"""


def pairs(text: str) -> list[tuple[str, str]]:
    return [(first, second) for first, second in (pair.split() for pair in text.split(","))]


@pytest.mark.parametrize(("british", "american"), pairs(PAIRS))
def test_spellings_of_a_word_are_equal(british: str, american: str) -> None:
    assert one_spelling(british) == one_spelling(american)


@pytest.mark.parametrize(("word", "other"), pairs(OTHERS))
def test_other_words_stay_different(word: str, other: str) -> None:
    assert one_spelling(word) != one_spelling(other)
