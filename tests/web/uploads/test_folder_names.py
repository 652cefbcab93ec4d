"""Names of the folders of uploads."""

import pytest

from web.uploads.folder_names import is_folder_name, new_folder_name


def test_new_names_differ_and_are_recognised() -> None:
    names = {new_folder_name() for _ in range(100)}
    assert len(names) == 100
    assert all(map(is_folder_name, names))


@pytest.mark.parametrize("name", ["", "a" * 31, "a" * 33, "A" * 32, "g" * 32, "a" * 32 + "\n", ".."])
def test_other_names_are_not_recognised(name: str) -> None:
    assert not is_folder_name(name)
