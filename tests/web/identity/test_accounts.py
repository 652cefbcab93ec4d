"""Accounts: what is one, what a file of them may be replaced by, and who gets in."""

import asyncio
import logging
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from engine.errors import InvalidOption
from engine.files import replacement
from web.identity import account_file, accounts, passwords
from web.identity.accounts import Accounts, auth_settings, load_accounts
from web.identity.passwords import ScryptHasher, hash_password, is_hash, verify_password

# Of “first password”, as the version before Argon2 wrote it.
OLD = "$scrypt$MDEyMzQ1Njc4OWFiY2RlZg==$LJ41yZi2zcp5EFZSwokB36bovIrWratgqBMWhWpp8ZI="
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and make devices")


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1), ScryptHasher()))
    monkeypatch.setattr(passwords, "_HASHES", quick)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of accounts that its owner alone can read; nothing is in it yet."""
    path = tmp_path / "accounts"
    path.touch(0o600)
    return path


def may(known: Accounts | None, user: str, password: str) -> bool:
    assert known is not None
    with ThreadPoolExecutor(1) as elsewhere:  # where a browser is at work, this thread has a loop already
        return elsewhere.submit(asyncio.run, known.check(user, password)).result()


# --- hashes


def test_new_hashes_are_memory_hard_and_each_has_a_salt_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real costs
    one, two = hash_password("same password"), hash_password("same password")
    assert one != two
    assert one.startswith("$argon2id$v=19$m=65536,")
    assert is_hash(one)
    assert verify_password("same password", one)
    assert not verify_password("Same password", one)


def test_hashes_of_older_files_are_still_good() -> None:
    assert is_hash(OLD)
    assert verify_password("first password", OLD)
    assert not verify_password("first passwort", OLD)
    assert not verify_password(OLD, OLD), "a hash is no password"


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
def test_what_is_no_hash_of_ours_is_none(text: str) -> None:
    assert not is_hash(text)


@settings(max_examples=30, deadline=None)
@given(st.text())
def test_any_text_is_a_wrong_password(text: str) -> None:
    assert not verify_password(text, hash_password("first password"))


# --- who gets in


def test_accounts_open_to_their_own_password_alone() -> None:
    hash = hash_password("first password")
    known = load_accounts(["anna:a:b c d e", " ben :secret word", f"carl:{hash}"])
    assert may(known, "anna", "a:b c d e")
    assert may(known, "ben", "secret word")
    assert may(known, "carl", "first password")
    wrong = [("anna", "secret word"), ("anna", ""), ("Anna", "a:b c d e"), ("dora", "secret word"), ("", "")]
    for user, password in (*wrong, ("carl", hash), ("\udcff", "\udcff"), ("anna", "a" * 9_000)):
        assert not may(known, user, password)
    assert load_accounts([]) is None


def test_accents_may_be_typed_either_way() -> None:
    known = load_accounts(["Zo\u00eb:caf\u00e9 caf\u00e9"])
    assert may(known, "Zoe\u0308", "cafe\u0301 cafe\u0301")


def test_unknown_users_cost_the_same_hashes_as_wrong_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_accounts(["anna:her password", f"carl:{OLD}"])
    seen: list[str] = []

    def counted(password: str, hash: str) -> bool:
        seen.append(passwords.hash_scheme(hash))
        return verify_password(password, hash)

    monkeypatch.setattr(accounts, "verify_password", counted)
    for user in ("anna", "carl", "nobody"):
        seen.clear()
        assert not may(known, user, "wrong password")
        assert sorted(seen) == ["argon2id", "scrypt"], user


def test_few_passwords_are_hashed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_accounts(["anna:her password"])
    assert known is not None
    gate, most, now = threading.Semaphore(0), [0], [0]
    lock = threading.Lock()

    def slow(password: str, hash: str) -> bool:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        gate.acquire(timeout=0.05)
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
def test_what_is_no_account_is_refused(given: list[str], says: str) -> None:
    with pytest.raises(InvalidOption, match=says) as refused:
        load_accounts(given)
    assert not any(text.partition(":")[2] in str(refused.value) for text in given if text.partition(":")[2])


# --- files


def test_a_file_holds_hashes_as_soon_as_it_was_read(file: Path) -> None:
    file.write_text("# who may come\nanna:first one\n\nben:second:third\n")
    assert may(load_accounts([str(file)]), "ben", "second:third")
    kept = file.read_text()
    assert kept.startswith("# who may come\nanna:$argon2id$")
    assert "first" not in kept
    assert "second" not in kept
    again = load_accounts([str(file), "carl:x y z x y z"])
    assert file.read_text() == kept, "hashes are not hashed again"
    assert may(again, "anna", "first one")
    assert not may(again, "anna", kept.splitlines()[1].partition(":")[2]), "a hash is no password"
    assert again is not None
    assert len(again) == 3


def test_all_else_in_a_file_stays_byte_for_byte(file: Path) -> None:
    file.write_bytes(f"# caf\u00e9\r\nZo\u00eb:a b  c d e f\r\n \t\r\ncarl:{OLD}\n  # end".encode())
    known = load_accounts([str(file)])
    head, hash, *rest = file.read_bytes().decode().split("\r\n")
    assert (head, rest) == ("# caf\u00e9", [" \t", f"carl:{OLD}\n  # end"])
    assert hash.startswith("Zo\u00eb:$argon2id$")
    assert may(known, "Zo\u00eb", "a b  c d e f")
    assert may(known, "carl", "first password")


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640])
def test_the_mode_of_a_file_stays(file: Path, mode: int) -> None:
    file.write_text("anna:a password\n")
    file.chmod(mode)
    load_accounts([str(file)])
    assert "$argon2id$" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == mode


@as_root
def test_owner_and_group_of_a_file_stay_and_its_link_too(file: Path, tmp_path: Path) -> None:
    file.write_text("anna:a password\n")
    os.chown(file, 4321, 1234)
    link = tmp_path / "link"
    link.symlink_to(file.name)
    load_accounts([str(link)])
    assert link.is_symlink()
    assert "$argon2id$" in file.read_text()
    status = file.lstat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (4321, 1234, 0o600)


OTHERS = {
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


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_others_are_refused_and_stay_as_they_are(file: Path, name: str) -> None:
    before = OTHERS[name].encode()
    none = name in ("comments", "nothing")
    for content in (before, b"" if none else b"good:good enough\n" + before):  # by itself, and after a right line
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
            "1000 are the",
        ),
        (b"anna:$6$salt$hash:19000:0:99999:7:::\n", "line 1: it looks like a hash of another program"),
    ],
)
def test_a_file_that_is_none_of_accounts_is_refused_in_a_sentence(file: Path, content: bytes, says: str) -> None:
    file.write_bytes(content)
    with pytest.raises(InvalidOption, match=says):
        load_accounts([str(file)])
    assert file.read_bytes() == content


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80) | st.text("abcdefghijk" * 3 + ":" * 3 + "#$ /\n19*!x", max_size=80))
def test_whatever_is_refused_is_left_and_whatever_is_taken_is_kept(
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


def test_wrong_accounts_elsewhere_leave_a_file_as_it_is(file: Path) -> None:
    file.write_text("anna:a password\n")
    for other in ("anna:another one", "ben:short", "nowhere"):
        with pytest.raises(InvalidOption):
            load_accounts([str(file), other])
        assert file.read_text() == "anna:a password\n"


def test_a_file_that_everyone_can_write_or_that_has_two_names_is_refused(file: Path, tmp_path: Path) -> None:
    file.write_text("anna:a password\n")
    file.chmod(0o606)
    with pytest.raises(InvalidOption, match="chmod o-w"):
        load_accounts([str(file)])
    file.chmod(0o600)
    os.link(file, tmp_path / "other")
    with pytest.raises(InvalidOption, match="hard link"):
        load_accounts([str(file)])
    assert file.read_text() == "anna:a password\n"


def test_a_file_that_everyone_can_read_is_told_of(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("anna:a password\n")
    file.chmod(0o644)
    load_accounts([str(file)])
    assert "chmod 600" in caplog.text
    assert "anna" not in caplog.text
    caplog.clear()
    file.write_text(OTHERS["passwd"])
    with pytest.raises(InvalidOption, match="looks like"):
        load_accounts([str(file)])
    assert "chmod" not in caplog.text, "bad advice for a file of another program"


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
def test_what_is_no_file_is_refused_and_left(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    make(tmp_path / "accounts")
    before = (tmp_path / "accounts").lstat()
    with pytest.raises(InvalidOption, match=says):
        load_accounts([str(tmp_path / "accounts")])
    after = (tmp_path / "accounts").lstat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


def test_a_file_that_cannot_be_written_is_told_of_and_used(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    file.write_text("anna:a password\n")
    monkeypatch.setattr(replacement, "_replace", refuse)
    with caplog.at_level(logging.WARNING):
        known = load_accounts([str(file)])
    assert may(known, "anna", "a password")
    assert "cannot be written to hash them: Read-only file system." in caplog.text
    assert file.read_text() == "anna:a password\n"


def test_what_an_editor_saves_meanwhile_is_not_lost(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("anna:a password\n")
    saved = []

    def save(password: str) -> str:
        if not saved:
            file.write_text("anna:a password\nben:another one\n")
            saved.append(True)
        return hash_password(password)

    monkeypatch.setattr(accounts, "hash_password", save)
    known = load_accounts([str(file)])
    assert may(known, "ben", "another one")
    assert file.read_text().count("$argon2id$") == 2


def test_servers_that_start_at_once_all_know_the_accounts(file: Path) -> None:
    file.write_text("anna:a password\nben:another one\n")
    with ThreadPoolExecutor(4) as pool:
        for known in pool.map(lambda _: load_accounts([str(file)]), range(4)):
            assert may(known, "anna", "a password")
            assert may(known, "ben", "another one")
    assert list(file.parent.iterdir()) == [file]
    assert may(load_accounts([str(file)]), "anna", "a password")


def test_the_option_comes_before_the_environment() -> None:
    environ = {"REPRISE_AUTH": "anna:a, b\n\nben:c\n"}
    assert auth_settings([], environ) == ["anna:a, b", "ben:c"]
    assert auth_settings(["carl:d"], environ) == ["carl:d"]
    assert auth_settings([], {}) == []
