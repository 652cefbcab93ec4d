"""The version of a page."""

from web.ui.page_version import page_version

CONFIG = {"dependencies": [{"id": 0, "targets": [[1, "click"]], "inputs": [2], "outputs": [3], "queue": False}]}
MORE = {"dependencies": [*CONFIG["dependencies"], {"id": 1, "targets": [], "inputs": [], "outputs": []}]}


def test_version_changes_with_events_and_scripts() -> None:
    versions = [page_version(CONFIG, "scripts") for _ in range(2)]
    versions += [page_version(MORE, "scripts"), page_version(CONFIG, "others")]
    assert versions[0] == versions[1]
    assert len(set(versions)) == 3
