"""Values shared by all tables."""

import pytest

from storage.validation import is_id, new_id


def test_new_ids_differ_and_are_recognised() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(map(is_id, ids))


@pytest.mark.parametrize("text", ["", "a" * 31, "a" * 33, "A" * 32, "g" * 32, "a" * 32 + "\n", ".."])
def test_other_texts_are_not_recognised(text: str) -> None:
    assert not is_id(text)
