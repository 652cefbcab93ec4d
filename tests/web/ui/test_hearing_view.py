"""The recogniser's result in parts."""

from storage.repositories.scripts.hearings import Hearing
from web.ui.hearing_view import hearing_view


def test_wrong_words_are_marked_where_they_are() -> None:
    view = hearing_view("The old cat sat.", Hearing("The cold cat.", 0.5, ((4, 7), (12, 15)), "base"), under_way=True)
    assert view["parts"] == [("The ", False), ("old", True), (" cat ", False), ("sat", True), (".", False)]
    assert (view["heard_text"], view["right"], view["under_way"]) == ("The cold cat.", False, True)
    whole = hearing_view("Yes", Hearing("Yes", 0.0, (), "base"))
    assert (whole["parts"], whole["right"], whole["under_way"]) == ([("Yes", False)], True, False)
    assert hearing_view("Yes", Hearing("Yet", 1.0, ((0, 3),), "base"))["parts"] == [("Yes", True)]
