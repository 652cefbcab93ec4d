"""Password hashes: Argon2id for new hashes, scrypt for those in older account files."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import unicodedata

from pwdlib import PasswordHash
from pwdlib.hashers import HasherProtocol
from pwdlib.hashers.argon2 import Argon2Hasher

MIN_LENGTH, MAX_LENGTH = 8, 1_000  # characters of a password
# Maximum costs of a hash in a file: KiB of memory, passes, lanes.
_MOST = (128 << 10, 10, 16)
_ARGON2 = re.compile(
    r"\$argon2id\$v=19\$m=([1-9][0-9]{0,6}),t=([1-9][0-9]?),p=([1-9][0-9]?)"
    r"\$[A-Za-z0-9+/]{11,64}\$[A-Za-z0-9+/]{22,86}"
)


class ScryptHasher(HasherProtocol):
    """`$scrypt$SALT$DIGEST` with fixed costs (n 2¹⁴, r 8, p 5), as written by versions before Argon2."""

    PREFIX = "$scrypt$"

    @classmethod
    def identify(cls, hash: str | bytes) -> bool:
        return isinstance(hash, str) and _scrypt_parts(hash) is not None

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        salt = salt or secrets.token_bytes(16)
        parts = (base64.urlsafe_b64encode(part).decode() for part in (salt, _scrypt(password, salt)))
        return self.PREFIX + "$".join(parts)

    def verify(self, password: str | bytes, hash: str | bytes) -> bool:
        parts = _scrypt_parts(hash) if isinstance(hash, str) else None
        return parts is not None and hmac.compare_digest(_scrypt(password, parts[0]), parts[1])

    def check_needs_rehash(self, hash: str | bytes) -> bool:
        return False


_HASHES = PasswordHash((Argon2Hasher(), ScryptHasher()))


def hash_password(password: str) -> str:
    """Hash a password with Argon2id and a random salt. Takes 64 MiB and about 0.1 s."""
    return _HASHES.hash(_typed(password))


def verify_password(password: str, known: str) -> bool:
    """Return whether a password matches a hash. Takes the same time for a wrong password."""
    return _HASHES.verify(_typed(password), known)


def is_hash(text: str) -> bool:
    """Return whether this is a hash that `verify_password` supports, with costs within the limits."""
    match = _ARGON2.fullmatch(text)
    if match is None:
        return ScryptHasher.identify(text)
    memory, passes, lanes = map(int, match.groups())
    return 8 * lanes <= memory <= _MOST[0] and passes <= _MOST[1] and lanes <= _MOST[2]


def dummy_hash_like(known: str) -> str:
    """Return a hash of a random password, in the same scheme."""
    return (ScryptHasher() if ScryptHasher.identify(known) else _HASHES.current_hasher).hash(secrets.token_bytes(32))


def hash_scheme(known: str) -> str:
    """Return the name of a hash's scheme."""
    return known.split("$", 2)[1]


def _typed(password: str) -> bytes:
    """Encode a password, normalized to Unicode NFC. Lone surrogates are allowed."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def _scrypt(password: str | bytes, salt: bytes) -> bytes:
    typed = password if isinstance(password, bytes) else _typed(password)
    return hashlib.scrypt(typed, salt=salt, n=2**14, r=8, p=5, dklen=32)


def _scrypt_parts(text: str) -> tuple[bytes, bytes] | None:
    """Return the salt and digest of a scrypt hash, None for anything else."""
    try:
        salt, digest = (
            base64.b64decode(part, altchars=b"-_", validate=True)
            for part in text.removeprefix(ScryptHasher.PREFIX).split("$")
        )
    except (ValueError, binascii.Error):
        return None
    return (salt, digest) if text.startswith(ScryptHasher.PREFIX) and salt and len(digest) == 32 else None
