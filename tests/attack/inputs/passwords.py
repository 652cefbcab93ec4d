"""Account and output files of unexpected kinds."""

import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

from engine.errors import RepriseError
from tests.attack.attack import Attack, Broken, randoms
from tests.attack.inputs.hostile_texts import hostile_text
from tests.attack.inputs.mutations import damaged
from web.identity.accounts import load_accounts

HASH = b"$scrypt$c2FsdHNhbHRzYWx0c2FsdA==$" + b"A" * 43 + b"="
WHOLE = b"# who may come\nanna:correct horse\n\nben:" + HASH + b"\n"
SYSTEM = b"root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
SHADOW = b"root:$6$salt$abcdef:19000:0:99999:7:::\nanna:!:19000:0:99999:7:::\n"
KINDS = ("file", "file", "file", "file", "folder", "fifo", "link", "read-only", "dangling", "device")


def _files(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    for chance in randoms(seed, count):
        yield KINDS[chance.randrange(len(KINDS))], _content(chance)


def _content(chance: random.Random) -> bytes:
    match chance.randrange(5):
        case 0:
            return chance.choice((SYSTEM, SHADOW, b"", b"\0" * 4_000, WHOLE.replace(b"\n", b"\r\n")))
        case 1:
            return hostile_text(chance, 4_000).encode("utf-8", "replace")
        case 2:
            return chance.randbytes(chance.randint(0, 4_000))
        case _:
            return damaged(WHOLE, chance)


def _open(case: tuple[str, bytes]) -> None:
    """Open the file: a refused file is unchanged; an accepted one keeps its kind, name and all non-account lines."""
    kind, content = case
    path = _create_file(kind, content)
    before = _state(path)
    try:
        accounts = load_accounts([str(path)])
    except RepriseError:
        if _state(path) != before:
            raise Broken(f"A rejected account file ({kind}) was changed.") from None
        return
    if content in (SYSTEM, SHADOW) or accounts is None:
        raise Broken("A system's password file was accepted as an account file.")
    if kind == "link" and not path.is_symlink():
        raise Broken("A link to an account file was replaced by a file.")
    if stat.S_IFMT(path.stat().st_mode) != before[0]:
        raise Broken(f"An account file ({kind}) changed its kind.")


def _create_file(kind: str, content: bytes) -> Path:
    """Create the file in the working folder of the case."""
    path, real = Path("accounts"), Path("real")
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to("nowhere")
        case "device":
            path.symlink_to("/dev/null")
        case "link":
            real.write_bytes(content)
            path.symlink_to(real.name)
        case _:
            path.write_bytes(content)
            path.chmod(0o400 if kind == "read-only" else 0o640)
    return path


def _state(path: Path) -> tuple[object, ...]:
    """Kind, mode, link target and content, without opening files that would block."""
    if not path.exists():
        return (None, path.is_symlink())
    state = path.stat()
    content = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
    return stat.S_IFMT(state.st_mode), stat.S_IMODE(state.st_mode), path.is_symlink(), content


ACCOUNTS = Attack("accounts", "--auth files: damaged, foreign, links, pipes, devices", _files, _open, 500)
