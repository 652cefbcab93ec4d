"""Unusable libraries: read-only, locked, corrupt, of a newer version; at start and while serving."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx

from tests.attack.attack import Attack, Broken, Skipped
from tests.attack.live.guest import Guest
from tests.attack.live.server import Server, obeys_permissions

LOCKED = 20.0  # seconds until a locked library is answered


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE reprise_version SET version_num = '9999'")
        connection.commit()


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def damaged_pages(path: Path) -> None:
    """Damage all pages after the header."""
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 4096 * 2 + 100])


def empty_of_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE voices")
        connection.commit()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_text(path: Path) -> None:
    path.write_text("This is no database.\n" * 500)


def read_only(path: Path) -> None:
    if not obeys_permissions():
        raise Skipped("a read-only file stops everyone but root: install setpriv (util-linux)")
    path.chmod(0o400)
    path.parent.chmod(0o500)


DAMAGES = {
    damage.__name__: damage
    for damage in (newer, garbage, damaged_pages, cut_short, empty_of_tables, a_folder, a_text, read_only)
}


def at_the_start(name: str) -> None:
    """Start on the library: the app serves, or ends with a message and exit code 1."""
    whole = Server().wait_until_started()
    whole.stop()
    path = whole.database
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # all data in one file
    DAMAGES[name](path)
    server = Server(folder=whole.folder, database=path)
    try:
        server.wait_until_started()
    except Broken:
        if server.process.returncode != 1:
            raise Broken(f"With the library {name}, the server ended with {server.process.returncode}.") from None
    finally:
        server.stop()
        path.parent.chmod(0o700)
    server.check_log()


def while_serving(name: str) -> None:
    """Break the library while serving: events are answered with messages, and nothing else leaves the server."""
    server = Server("--owners", "browser").wait_until_started()
    try:
        guest = Guest(server)
        guest.arrive()
        guest.keep_voice("Ada")
        if name == "locked":
            _locked(server, guest)
        else:
            DAMAGES[name](server.database)
            _send_events(guest)
        server.check_log()
    finally:
        server.stop()


def _locked(server: Server, guest: Guest) -> None:
    with closing(sqlite3.connect(server.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        _send_events(guest)
        other.execute("ROLLBACK")
    if guest.keep_voice("Ben") not in {voice["id"] for voice in guest.voices()}:
        raise Broken("Nothing can be saved after the library was locked for a while.")


def _send_events(guest: Guest) -> None:
    """Send some of the page's events, and check that no answer is a 5xx or contains the library's path."""
    for elem_id, kind in (("rp-library", "relist"), ("rp-library", "revise"), ("rp-history", "refresh")):
        function = guest._function(kind, elem_id, None)
        inputs = next(each["inputs"] for each in guest.config["dependencies"] if each["id"] == function)
        try:
            answer = guest.call(function, [None] * (len(inputs) - 1) + [guest.token], {"id": "x", "name": "y"})
        except httpx.TimeoutException as error:
            raise Broken(f"{kind} of {elem_id} was not answered.") from error
        if answer.status_code >= 500:
            raise Broken(f"{kind} of {elem_id} was answered with {answer.status_code}: {answer.text[:300]}")
        if str(guest.server.folder) in answer.text:
            raise Broken(f"{kind} of {elem_id} returned the library's path: {answer.text[:300]}")


SERVING = ("locked", "damaged_pages", "newer", "empty_of_tables", "read_only")
CASES = tuple(("at_the_start", name) for name in DAMAGES) + tuple(("while_serving", name) for name in SERVING)


def _cases(seed: int, count: int) -> Iterator[tuple[str, str]]:
    yield from CASES[:count]


def _run(case: tuple[str, str]) -> None:
    when, name = case
    {"at_the_start": at_the_start, "while_serving": while_serving}[when](name)


DATABASE = Attack(
    "unusable library", "read-only, locked, corrupt, newer", _cases, _run, len(CASES), 240.0, None, alone=True
)
