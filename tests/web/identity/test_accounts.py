"""Accounts: password hashes, logins and account files."""

import asyncio
import logging
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidOption
from engine.files import replacement
from tests.support.waiting import until
from web.identity import account_file, accounts, passwords
from web.identity.accounts import Accounts, auth_settings, load_accounts
from web.identity.passwords import hash_password, is_hash, verify_password

# Hash of “first password”, as written by the version before Argon2.
OLD = "$scrypt$MDEyMzQ1Njc4OWFiY2RlZg==$LJ41yZi2zcp5EFZSwokB36bovIrWratgqBMWhWpp8ZI="
pytestmark = pytest.mark.usefixtures("quick_hashes")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and make devices")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An empty accounts file that only its owner can read."""
    path = tmp_path / "accounts"
    path.touch(0o600)
    return path


def accepts(known: Accounts | None, user: str, password: str) -> bool:
    assert known is not None
    with ThreadPoolExecutor(1) as elsewhere:  # with Playwright, this thread already runs an event loop
        return elsewhere.submit(asyncio.run, known.check(user, password)).result()


# --- hashes


def test_new_hashes_are_memory_hard_and_salted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hash_password("first password") != first_hash()
    monkeypatch.undo()  # the real costs
    hard = hash_password("same password")
    assert hard.startswith("$argon2id$v=19$m=65536,")
    assert is_hash(hard)
    assert verify_password("same password", hard)
    assert not verify_password("Same password", hard)


def test_old_scrypt_hashes_still_verify() -> None:
    assert is_hash(OLD)
    assert verify_password("first password", OLD)
    assert not verify_password("first passwort", OLD)
    assert not verify_password(OLD, OLD), "a hash is not a password"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$scrypt$",
        "$scrypt$a$b",
        OLD[:-1],
        OLD + "$",
        "$argon2id$v=19$m=65536,t=3,p=4$Ht6QqT9nvQ8g5wZQItrZew",
        "$argon2id$v=19$m=9999999,t=3,p=4$Ht6QqT9nvQ8g5wZQItrZew$zh3gFSD9C6G3qWY0NKiYAyBBdEfUF7qIlYbrFanqCEY",
        "$argon2id$v=19$m=65536,t=99,p=4$Ht6QqT9nvQ8g5wZQItrZew$zh3gFSD9C6G3qWY0NKiYAyBBdEfUF7qIlYbrFanqCEY",
        "$argon2i$v=19$m=65536,t=3,p=4$Ht6QqT9nvQ8g5wZQItrZew$zh3gFSD9C6G3qWY0NKiYAyBBdEfUF7qIlYbrFanqCEY",
    ],
)
def test_is_hash_rejects_other_text(text: str) -> None:
    assert not is_hash(text)


@settings(max_examples=10, deadline=None)
@given(st.text())
def test_verify_rejects_any_other_text(text: str) -> None:
    assert not verify_password(text, first_hash())


@cache
def first_hash() -> str:
    return hash_password("first password")


# --- logins


def test_account_accepts_only_its_own_password() -> None:
    hash = hash_password("first password")
    known = load_accounts(["anna:a:b c d e", " ben :secret word", f"carl:{hash}"])
    assert accepts(known, "anna", "a:b c d e")
    assert accepts(known, "ben", "secret word")
    assert accepts(known, "carl", "first password")
    wrong = [("anna", "secret word"), ("anna", ""), ("Anna", "a:b c d e"), ("dora", "secret word"), ("", "")]
    for user, password in (*wrong, ("carl", hash), ("\udcff", "\udcff"), ("anna", "a" * 9_000)):
        assert not accepts(known, user, password)
    assert load_accounts([]) is None


def test_names_and_passwords_match_in_any_unicode_form() -> None:
    known = load_accounts(["Zo\u00eb:caf\u00e9 caf\u00e9"])
    assert accepts(known, "Zoe\u0308", "cafe\u0301 cafe\u0301")


def test_unknown_users_cost_the_same_hashes_as_wrong_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_accounts(["anna:her password", f"carl:{OLD}"])
    seen: list[str] = []

    def counted(password: str, hash: str) -> bool:
        seen.append(passwords.hash_scheme(hash))
        return False

    monkeypatch.setattr(accounts, "verify_password", counted)
    for user in ("anna", "carl", "nobody"):
        seen.clear()
        assert not accepts(known, user, "wrong password")
        assert sorted(seen) == ["argon2id", "scrypt"], user


def test_concurrent_hashing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_accounts(["anna:her password"])
    assert known is not None
    gate, most, now = threading.Semaphore(0), [0], [0]
    lock = threading.Lock()

    def slow(password: str, hash: str) -> bool:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        until(lambda: most[0] >= accounts.AT_ONCE)
        gate.acquire(timeout=0.05)  # time for further threads, if they can come
        with lock:
            now[0] -= 1
        return False

    monkeypatch.setattr(accounts, "verify_password", slow)

    async def many() -> None:
        await asyncio.gather(*(known.check("anna", "wrong") for _ in range(8)))

    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, many()).result()
    assert most[0] == accounts.AT_ONCE


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["anna"], "number 1 is neither"),
        (["anna:"], "without a password"),
        ([":secret word"], "without a name"),
        (["anna:a password", "anna:another one"], "two accounts called “anna”"),
        (["a" * 81 + ":a password"], "80 characters"),
        (["a\tb:a password"], "visible"),
        (["ben:good enough", "anna:1234567"], "number 2: a password has at least 8 characters"),
        (["anna:" + "e\u0301" * 7], "at least 8 characters"),
        (["anna:" + "a" * 1_001], "at most 1000"),
        (["anna:with a\x00zero"], "control characters"),
        (["anna:$6$salt$hash of another"], "hash of another program"),
    ],
)
def test_invalid_accounts_are_rejected(given: list[str], says: str) -> None:
    with pytest.raises(InvalidOption, match=says) as refused:
        load_accounts(given)
    assert not any(text.partition(":")[2] in str(refused.value) for text in given if text.partition(":")[2])


# --- files


def test_plain_passwords_in_a_file_are_replaced_by_hashes(file: Path) -> None:
    file.write_text("# who may come\nanna:first one\n\nben:second:third\n")
    assert accepts(load_accounts([str(file)]), "ben", "second:third")
    kept = file.read_text()
    assert kept.startswith("# who may come\nanna:$argon2id$")
    assert "first" not in kept
    assert "second" not in kept
    again = load_accounts([str(file), "carl:x y z x y z"])
    assert file.read_text() == kept, "hashes are not hashed again"
    assert accepts(again, "anna", "first one")
    assert not accepts(again, "anna", kept.splitlines()[1].partition(":")[2]), "a hash is not a password"
    assert again is not None
    assert len(again) == 3


def test_rest_of_the_file_is_preserved_byte_for_byte(file: Path) -> None:
    kept = first_hash()
    file.write_bytes(f"# caf\u00e9\r\nZo\u00eb:a b  c d e f\r\n \t\r\ncarl:{kept}\n  # end".encode())
    known = load_accounts([str(file)])
    head, hash, *rest = file.read_bytes().decode().split("\r\n")
    assert (head, rest) == ("# caf\u00e9", [" \t", f"carl:{kept}\n  # end"])
    assert hash.startswith("Zo\u00eb:$argon2id$")
    assert accepts(known, "Zo\u00eb", "a b  c d e f")
    assert accepts(known, "carl", "first password")


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640])
def test_file_mode_is_preserved(file: Path, mode: int) -> None:
    file.write_text("anna:a password\n")
    file.chmod(mode)
    load_accounts([str(file)])
    assert "$argon2id$" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == mode


@as_root
def test_file_owner_group_and_symlink_are_preserved(file: Path, tmp_path: Path) -> None:
    file.write_text("anna:a password\n")
    os.chown(file, 4321, 1234)
    link = tmp_path / "link"
    link.symlink_to(file.name)
    load_accounts([str(link)])
    assert link.is_symlink()
    assert "$argon2id$" in file.read_text()
    status = file.lstat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (4321, 1234, 0o600)


FOREIGN_FILES = {
    "shadow": "root:$6$saltsalt$x9f/abcdef:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
    "shadow, yescrypt": "root:$y$j9T$salt$hash:19000:0:99999:7:::\n",
    "shadow, locked": "root:!$6$saltsalt$x9f/abcdef:19000:0:99999:7:::\n",
    "shadow, no passwords": "root:*:19000:0:99999:7:::\nsync:!:19000:0:99999:7:::\n",
    "passwd": "root:x:0:0:root:/root:/bin/bash\nanna:x:1000:1000:Anna,,,:/home/anna:/bin/sh\n",
    "group": "adm:x:4:syslog,anna\nsudo:x:27:\n",
    "gshadow": "adm:*::syslog,anna\n",
    "subuid": "anna:100000:65536\n",
    "htpasswd, apr1": "anna:$apr1$salt$abcdefghijklmnopqrstuv\n",
    "htpasswd, bcrypt": "anna:$2y$05$abcdefghijklmnopqrstuu5Lw7Q3\n",
    "htpasswd, SHA": "anna:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
    "htpasswd, crypt": "anna:rl.3StKT.4T8M\n",
    "htdigest": "anna:realm name:5f4dcc3b5aa765d61d8327deb882cf99\n",
    "MD5": "anna:5f4dcc3b5aa765d61d8327deb882cf99\n",
    "PostgreSQL": "anna:SCRAM-SHA-256$4096:salt$stored:server\n",
    "Django": "anna:pbkdf2_sha256$260000$salt$hash=\n",
    "Argon2 of other costs": "anna:$argon2id$v=19$m=9999999,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA\n",
    "pgpass": "localhost:5432:library:anna:her password\n",
    "git-credentials": "https://anna:her-password@example.org\n",
    "YAML": "name: reprise server\nversion: 1.0 of today\n",
    "headers": "Content-Type: text/plain; charset=utf-8\n",
    "JSON": '{"anna":"her password"}\n',
    "settings": "[server]\nhost:example.org\n",
    "environment": "DATABASE=postgresql://anna:password@localhost/library\n",
    "prose": "Dear diary, it was 12:30 when the train left.\n",
    "known_hosts": "[localhost]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI\n",
    "paths": "PATH:/usr/local/bin:/usr/bin:/bin\n",
    "program": "#!/bin/sh\nexec sleep 1\n",
    "indented": "  anna:her password\n",
    "spaced": "anna : her password\n",
    "short": "anna:good enough\nben:1234567\n",
    "twice": "anna:good enough\nanna:as good as that\n",
    "one bad line": "anna:good enough\nben\n",
    "control characters": "anna:good \x1b[31m enough\n",
    "comments": "# nobody\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_files_of_other_programs_are_rejected_and_unchanged(file: Path, name: str) -> None:
    before = FOREIGN_FILES[name].encode()
    none = name in ("comments", "nothing")
    for content in (before, b"" if none else b"good:good enough\n" + before):  # alone, and after a valid line
        file.write_bytes(content)
        inode = file.stat().st_ino
        with pytest.raises(InvalidOption) as refused:
            load_accounts(["first:of them all", str(file)])
        assert file.read_bytes() == content
        assert file.stat().st_ino == inode
        assert list(file.parent.iterdir()) == [file]
        assert "her password" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe", "no text in UTF-8"),
        (b"anna:a password\n" + b"#" * account_file.MAX_BYTES, "larger than 1048576 bytes"),
        (
            b"".join(
                b"user%d:$scrypt$" % number + OLD.removeprefix("$scrypt$").encode() + b"\n" for number in range(1_001)
            ),
            "at most 1000",
        ),
        (b"anna:$6$salt$hash:19000:0:99999:7:::\n", "line 1: it looks like a hash of another program"),
    ],
)
def test_invalid_file_is_rejected_with_a_reason(file: Path, content: bytes, says: str) -> None:
    file.write_bytes(content)
    with pytest.raises(InvalidOption, match=says):
        load_accounts([str(file)])
    assert file.read_bytes() == content


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80) | st.text("abcdefghijk" * 3 + ":" * 3 + "#$ /\n19*!x", max_size=80))
def test_rejected_files_are_unchanged_and_accepted_files_reload(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "accounts"
    path.write_bytes(before := text.encode("utf-8", "surrogatepass"))
    try:
        known = load_accounts([str(path)])
    except InvalidOption:
        assert path.read_bytes() == before
    else:
        assert known is not None
        assert len(load_accounts([str(path)]) or []) == len(known)


def test_invalid_account_elsewhere_leaves_the_file_unchanged(file: Path) -> None:
    file.write_text("anna:a password\n")
    for other in ("anna:another one", "ben:short", "nowhere"):
        with pytest.raises(InvalidOption):
            load_accounts([str(file), other])
        assert file.read_text() == "anna:a password\n"


def test_world_writable_and_hard_linked_files_are_rejected(file: Path, tmp_path: Path) -> None:
    file.write_text("anna:a password\n")
    file.chmod(0o606)
    with pytest.raises(InvalidOption, match="chmod o-w"):
        load_accounts([str(file)])
    file.chmod(0o600)
    os.link(file, tmp_path / "other")
    with pytest.raises(InvalidOption, match="hard link"):
        load_accounts([str(file)])
    assert file.read_text() == "anna:a password\n"


def test_world_readable_file_logs_a_warning(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("anna:a password\n")
    file.chmod(0o644)
    load_accounts([str(file)])
    assert "chmod 600" in caplog.text
    assert "anna" not in caplog.text
    caplog.clear()
    file.write_text(FOREIGN_FILES["passwd"])
    with pytest.raises(InvalidOption, match="looks like"):
        load_accounts([str(file)])
    assert "chmod" not in caplog.text, "the advice does not apply to a file of another program"


def _device(path: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Path.mkdir, "a folder"),
        (os.mkfifo, "a pipe"),
        (lambda path: path.symlink_to("nowhere"), "a link to nothing"),
        pytest.param(_device, "a device", marks=as_root),
    ],
)
def test_special_files_are_rejected_and_unchanged(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    make(tmp_path / "accounts")
    before = (tmp_path / "accounts").lstat()
    with pytest.raises(InvalidOption, match=says):
        load_accounts([str(tmp_path / "accounts")])
    after = (tmp_path / "accounts").lstat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


def test_read_only_file_is_used_with_a_warning(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    file.write_text("anna:a password\n")
    monkeypatch.setattr(replacement, "_replace", refuse)
    with caplog.at_level(logging.WARNING):
        known = load_accounts([str(file)])
    assert accepts(known, "anna", "a password")
    assert "cannot be written to hash them: Read-only file system." in caplog.text
    assert file.read_text() == "anna:a password\n"


def test_concurrent_edits_of_the_file_are_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("anna:a password\n")
    saved = []

    def save(password: str) -> str:
        if not saved:
            file.write_text("anna:a password\nben:another one\n")
            saved.append(True)
        return hash_password(password)

    monkeypatch.setattr(accounts, "hash_password", save)
    known = load_accounts([str(file)])
    assert accepts(known, "ben", "another one")
    assert file.read_text().count("$argon2id$") == 2


def test_servers_starting_together_all_load_the_accounts(file: Path) -> None:
    file.write_text("anna:a password\nben:another one\n")
    with ThreadPoolExecutor(4) as pool:
        for known in pool.map(lambda _: load_accounts([str(file)]), range(4)):
            assert accepts(known, "anna", "a password")
            assert accepts(known, "ben", "another one")
    assert list(file.parent.iterdir()) == [file]
    assert accepts(load_accounts([str(file)]), "anna", "a password")


def test_option_overrides_environment() -> None:
    environ = {"REPRISE_AUTH": "anna:a, b\n\nben:c\n"}
    assert auth_settings([], environ) == ["anna:a, b", "ben:c"]
    assert auth_settings(["carl:d"], environ) == ["carl:d"]
    assert auth_settings([], {}) == []
