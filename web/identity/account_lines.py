"""Account lines: USER:PASSWORD, or USER:HASH with a hash of ours.

Account files are rewritten with hashes, so their lines are parsed more strictly than those of the command line: lines
that may belong to another program (passwd, shadow, htpasswd, settings, addresses) are rejected.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from engine.errors import InvalidOption
from web.identity.passwords import MAX_LENGTH, MIN_LENGTH, is_hash

MAX_NAME = 80  # characters
_NAME_IN_FILE = re.compile(r"[\w.@+-]+")
# Prefixes and formats of the hashes of crypt(3), htpasswd, LDAP, Django, PostgreSQL, MySQL and others.
_FOREIGN_HASH = re.compile(
    r"\$[A-Za-z0-9-]{1,20}[$,].*"
    r"|\{[A-Za-z0-9._/-]{1,30}\}.*"
    r"|(pbkdf2|bcrypt|scrypt|argon2|sha1|sha256|sha512|md5|SCRAM-SHA)[A-Za-z0-9_:-]{0,40}\$.*"
    r"|(md5|0x|\*)?([0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{56}|[0-9A-Fa-f]{64}|[0-9A-Fa-f]{96}|[0-9A-Fa-f]{128})"
    # Traditional crypt: 13 characters; the last encodes 4 bits.
    r"|(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9./])[./0-9A-Za-z]{12}[.26AEIMQUYcgkosw]",
    re.DOTALL,
)


@dataclass(frozen=True)
class Account:
    """A user name with its password or hash."""

    user: str
    secret: str

    @property
    def is_hash(self) -> bool:
        """Whether the secret is one of our hashes."""
        return is_hash(self.secret)


def normalize_username(user: str) -> str:
    """Normalize a user name (Unicode NFC, stripped) for comparison."""
    return unicodedata.normalize("NFC", user).strip()


def parse_account(line: str, *, in_file: bool) -> Account:
    """Parse a line. Raises InvalidOption; its message never quotes the line."""
    name, colon, secret = line.strip().partition(":")
    account = Account(normalize_username(name), secret)
    if not (colon and account.user and secret):
        raise InvalidOption("an account is USER:PASSWORD, and there is one without a name or without a password")
    if len(account.user) > MAX_NAME or not account.user.isprintable():
        raise InvalidOption(f"a user's name can have {MAX_NAME} characters, all of them visible")
    if not account.is_hash:
        _check_password(secret)
        if in_file:
            _check_shape(line, name, secret)
        _check_length(secret)
    return account


def _check_password(secret: str) -> None:
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in secret):
        raise InvalidOption("a password can hold no control characters")
    if any(_FOREIGN_HASH.fullmatch(field.lstrip("!*")) for field in [secret, *secret.split(":")]):
        raise InvalidOption("it looks like a hash of another program; write the password itself, or choose another")


def _check_shape(line: str, name: str, secret: str) -> None:
    if line[0].isspace() or secret[0].isspace() or not _NAME_IN_FILE.fullmatch(name):
        raise InvalidOption(
            "in a file, a name has only letters, digits and . _ @ + -, and no spaces stand before it or round the colon"
        )
    fields = secret.split(":")
    if secret[0] in "/\\" or (len(fields) > 1 and any(map(_is_field, fields))):
        raise InvalidOption(
            "it looks like a line of another program's file; in a file, no password begins with a slash, and none has "
            "a number or nothing between colons"
        )


def _is_field(text: str) -> bool:
    """Return whether this looks like a field of a passwd, shadow, group, pgpass or similar file."""
    return not text or text.isdigit() or text in ("x", "*", "!") or text[0] in "!/*"


def _check_length(secret: str) -> None:
    length = len(unicodedata.normalize("NFC", secret))
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        raise InvalidOption(f"a password has at least {MIN_LENGTH} characters and at most {MAX_LENGTH}")
