"""Accounts that may open the page: user names and hashes of passwords."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.errors import InvalidOption
from engine.files.replacement import TargetChanged
from web.identity.account_file import AccountFile, path_exists
from web.identity.account_lines import Account, normalize_username, parse_account
from web.identity.passwords import dummy_hash_like, hash_password, hash_scheme, verify_password

MAX_ACCOUNTS = 1_000
AT_ONCE = 2  # concurrent hash computations; each takes 64 MiB
_READINGS = 5  # attempts to read a file that changes meanwhile, e.g. when several servers start together


class Accounts:
    """User accounts by name. Pass `check` as `auth` to Gradio's `launch`."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        """hashes: from `passwords.hash_password`, by user."""
        self._hashes = dict(hashes)
        # Each check computes one hash per scheme in use, so that its timing reveals neither names nor schemes.
        examples = {hash_scheme(known): known for known in self._hashes.values()}
        self._decoys = {kind: dummy_hash_like(known) for kind, known in examples.items()}
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="reprise-passwords")

    async def check(self, user: str, password: str) -> bool:
        """Return whether the password is the user's. Hashing is slow and runs on dedicated threads."""
        known = self._hashes.get(normalize_username(user))
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._check, password, known)

    def _check(self, password: str, known: str | None) -> bool:
        right = False
        for kind, decoy in self._decoys.items():
            own = known if known is not None and hash_scheme(known) == kind else None
            right |= verify_password(password, own or decoy) and own is not None
        return right

    def __len__(self) -> int:
        return len(self._hashes)


def load_accounts(given: Iterable[str]) -> Accounts | None:
    """Load the accounts of `--auth`, each `USER:PASSWORD` or the path of a file. Return None if there are none.

    Passwords in files are replaced by hashes if all given accounts are valid. Hashes, empty lines and lines that begin
    with # are left unchanged. Raises InvalidOption.
    """
    texts = list(given)
    for _ in range(_READINGS):
        try:
            sources = [_source(text, number) for number, text in enumerate(texts, 1)]
        except TargetChanged:
            continue
        hashes = _hashes(sources)
        kept = [source.keep_hashes(hashes) for source in sources if isinstance(source, AccountFile)]
        if all(kept):
            return Accounts(hashes) if hashes else None
    raise InvalidOption("An accounts file kept changing while it was read; try again.")


def auth_settings(option: list[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the values of `--auth`, or else the lines of REPRISE_AUTH (passwords may contain spaces and commas)."""
    return option or [line for line in environ.get("REPRISE_AUTH", "").splitlines() if line.strip()]


def _source(text: str, number: int) -> Account | AccountFile:
    if path_exists(text):
        return AccountFile.read(Path(text))
    if ":" not in text:
        raise InvalidOption(
            f"--auth takes USER:PASSWORD, or a file with such lines; number {number} is neither: there is no such file."
        )
    try:
        return parse_account(text, in_file=False)
    except InvalidOption as error:
        raise InvalidOption(f"--auth, number {number}: {error}.") from error


def _hashes(sources: Iterable[Account | AccountFile]) -> dict[str, str]:
    """Return hashes by user. All accounts are checked before any is hashed."""
    accounts = [
        account
        for source in sources
        for account in (source.accounts.values() if isinstance(source, AccountFile) else [source])
    ]
    twice = [user for user, times in Counter(account.user for account in accounts).items() if times > 1]
    if twice:
        raise InvalidOption(f"There are two accounts called “{twice[0]}”.")
    if len(accounts) > MAX_ACCOUNTS:
        raise InvalidOption(f"There are {len(accounts)} accounts; at most {MAX_ACCOUNTS} are allowed.")
    return {account.user: account.secret if account.is_hash else hash_password(account.secret) for account in accounts}
