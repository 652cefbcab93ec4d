"""Who may open the page, where it is not for everyone: names and passwords, of which only hashes are kept."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import os
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.errors import InvalidOption
from web.terminal import write

log = logging.getLogger(__name__)

MAX_NAME = 80  # characters
_PREFIX = "$scrypt$"
# 16 MiB and some 50 ms a try, as OWASP advises at least for what people type.
_N, _R, _P = 2**14, 8, 5
_HOW = "--auth takes USER:PASSWORD, or a file with such lines"


class Accounts:
    """Users by name. `check` is what Gradio's `launch` wants for `auth`."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        """`hashes`: as `hashed` makes them, by user."""
        self._hashes = dict(hashes)
        # Checked for names that nobody has, so that the time of a refusal does not tell them apart.
        self._nobody = hashed(secrets.token_hex())

    async def check(self, user: str, password: str) -> bool:
        """Whether the password is the user's. Hashing takes a while, so it does not hold up the server."""
        known = self._hashes.get(_name(user), self._nobody)
        return await asyncio.to_thread(_matches, password, known) and known is not self._nobody

    def __len__(self) -> int:
        return len(self._hashes)


def accounts_from(given: Iterable[str]) -> Accounts | None:
    """The accounts of `--auth`, each `USER:PASSWORD` or the path of a file; None when there are none.

    In a file, passwords are replaced by their hashes as soon as it is read; lines of hashes stay as they are, and so
    do empty lines and those that begin with #. Raises InvalidOption.
    """
    hashes: dict[str, str] = {}
    for text in given:
        for user, known in _accounts(text):
            if user in hashes:
                raise InvalidOption(f"There are two accounts called “{user}”.")
            hashes[user] = known
    return Accounts(hashes) if hashes else None


def hashed(password: str) -> str:
    """A password's hash by scrypt with a salt of its own, as text."""
    salt = secrets.token_bytes(16)
    return _PREFIX + "$".join(map(_text, (salt, _scrypt(password, salt))))


def _accounts(text: str) -> list[tuple[str, str]]:
    path = Path(text)
    if "\0" not in text and path.is_file():
        return _from_file(path)
    if ":" not in text:
        raise InvalidOption(f"{_HOW}; “{text}” is neither.")
    return [_account(text)]


def _from_file(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise InvalidOption(f"The accounts in {path} cannot be read.") from error
    found: list[tuple[str, str]] = []
    kept = []
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            found.append(_account(line))
            line = ":".join(found[-1])
        kept.append(line)
    if not found:
        raise InvalidOption(f"There are no accounts in {path}: write lines of USER:PASSWORD.")
    if kept != lines:
        _keep(path, kept)
    return found


def _keep(path: Path, lines: list[str]) -> None:
    """Hashes instead of passwords, for its owner's eyes. Some hosts mount such files read-only: they guard them."""
    try:
        write(path, ("\n".join(lines) + "\n").encode())
        path.chmod(0o600)
    except OSError:
        log.warning("%s holds passwords as they are typed, and cannot be written to hash them.", path)


def _account(line: str) -> tuple[str, str]:
    name, _, password = line.strip().partition(":")
    user = _name(name)
    if not user or not password:
        raise InvalidOption(f"{_HOW}; there is one without a name or without a password.")
    if len(user) > MAX_NAME or not user.isprintable():
        raise InvalidOption(f"A user's name can have {MAX_NAME} characters, all of them visible.")
    return user, password if _is_hash(password) else hashed(password)


def _name(user: str) -> str:
    return unicodedata.normalize("NFC", user).strip()


def _is_hash(text: str) -> bool:
    if not text.startswith(_PREFIX):
        return False
    try:
        salt, digest = map(_bytes, text.removeprefix(_PREFIX).split("$"))
    except ValueError:
        return False
    return bool(salt) and len(digest) == 32


def _matches(password: str, known: str) -> bool:
    salt, digest = map(_bytes, known.removeprefix(_PREFIX).split("$"))
    return hmac.compare_digest(_scrypt(password, salt), digest)


def _scrypt(password: str, salt: bytes) -> bytes:
    typed = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(typed, salt=salt, n=_N, r=_R, p=_P, dklen=32)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, altchars=b"-_", validate=True)


def auth_settings(option: list[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """What `--auth` was given, or else the lines of REPRISE_AUTH: a password may hold spaces and commas."""
    return option or [line for line in environ.get("REPRISE_AUTH", "").splitlines() if line.strip()]
