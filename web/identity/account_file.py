"""Account files. Plain-text passwords are replaced by hashes after all lines have been parsed as accounts."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InvalidInput, InvalidOption
from engine.files.replacement import Target, TargetChanged, read, replace, target_of
from web.identity.account_lines import Account, parse_account

log = logging.getLogger(__name__)

MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class AccountFile:
    """The contents of an account file. lines: with line endings. accounts: by line index."""

    target: Target
    lines: tuple[str, ...]
    accounts: Mapping[int, Account]

    @classmethod
    def read(cls, path: Path) -> AccountFile:
        """Read a file without changing it.

        Raises TargetChanged if it changes meanwhile, InvalidOption if it is invalid or world-writable.
        """
        try:
            target = target_of(path)
            data = read(target, MAX_BYTES)
        except TargetChanged:
            raise
        except InvalidInput as error:
            raise InvalidOption(f"--auth: {error}") from error
        lines = tuple(_text(path, data).splitlines(keepends=True))
        accounts = {index: _account(path, index, line) for index, line in enumerate(lines) if _holds_account(line)}
        if not accounts:
            raise InvalidOption(f"There are no accounts in {path}: write lines of USER:PASSWORD.")
        _check_access(target)  # last: chmod is bad advice for another program's file
        return cls(target, lines, accounts)

    def keep_hashes(self, hashes: Mapping[str, str]) -> bool:
        """Replace passwords by hashes. Return False if the file changed since it was read.

        hashes: by user. If the file is not writable (some hosts mount it read-only), a warning is logged.
        """
        lines = [self._line(index, line, hashes) for index, line in enumerate(self.lines)]
        if lines == list(self.lines):
            return True
        try:
            return replace(self.target, "".join(lines).encode())
        except OSError as error:
            log.warning(
                "%s holds passwords as they are typed, and cannot be written to hash them: %s.",
                self.target.given,
                error.strerror,
            )
            return True

    def _line(self, index: int, line: str, hashes: Mapping[str, str]) -> str:
        account = self.accounts.get(index)
        if account is None or account.is_hash:
            return line
        end = line[len(line.rstrip("\r\n")) :]
        return f"{line.partition(':')[0]}:{hashes[account.user]}{end}"


def path_exists(text: str) -> bool:
    """Return whether a path exists, as a file or anything else."""
    return "\0" not in text and os.path.lexists(text)


def _check_access(target: Target) -> None:
    assert target.status is not None, "it was read"
    if target.status.st_mode & stat.S_IWOTH:
        raise InvalidOption(f"Everyone on this machine can write to {target.given}: run chmod o-w on it.")
    if target.status.st_nlink > 1:
        raise InvalidOption(f"{target.given} has a second name (a hard link) that would keep passwords: remove that.")
    if target.status.st_mode & stat.S_IROTH:
        log.warning("Everyone on this machine can read %s: run chmod 600 on it.", target.given)


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeError as error:
        raise InvalidOption(f"{path} is no text in UTF-8: a file of accounts has lines of USER:PASSWORD.") from error


def _holds_account(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _account(path: Path, index: int, line: str) -> Account:
    try:
        return parse_account(line, in_file=True)
    except InvalidOption as error:
        raise InvalidOption(f"{path}, line {index + 1}: {error}. The file is left as it is.") from error
