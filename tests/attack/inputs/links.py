"""Forged signed links, owners' keys and Range headers."""

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

from itsdangerous import URLSafeSerializer
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.errors import InvalidInput
from storage.errors import VoiceNotFound
from tests.attack.attack import Attack, Broken, randoms
from tests.attack.inputs.hostile_texts import hostile_text
from tests.attack.inputs.mutations import damaged
from web.downloads.links import PATH_PREFIX, DownloadFile, DownloadLinks, parse_range
from web.identity.owners import Owner, OwnerResolver

SECRET, OTHER_SECRET = b"the secret of this attack's server", b"the secret of another one........."
MINE, THEIRS = Owner("browser", "a" * 32), Owner("browser", "b" * 32)
_SIGNED = "c" * 32  # the owner of the only key that this server signed
CONTENT = b"the sound of a voice"
NOW = 1_800_000_000.0


def _produce(owner: str, id: str) -> DownloadFile:
    if (owner, id) != (MINE.key, "one"):
        raise VoiceNotFound("There is no such voice.")
    return DownloadFile(CONTENT, "voice", "audio/wav")


@cache
def _links() -> DownloadLinks:
    return DownloadLinks(SECRET, {"voice": _produce}, clock=lambda: NOW)


@cache
def _client() -> TestClient:
    return TestClient(Starlette(routes=_links().routes()), raise_server_exceptions=True)


def _tokens(seed: int, count: int) -> Iterator[str]:
    """Yield tampered own links, links of another owner, links signed with another secret, and noise."""
    whole = _links().sign(MINE, "voice", "one").removeprefix(PATH_PREFIX)
    theirs = _links().sign(THEIRS, "voice", "one").removeprefix(PATH_PREFIX)
    for chance in randoms(seed, count):
        match chance.randrange(5):
            case 0:
                yield theirs
            case 1:
                yield _forged(chance)
            case 2:
                yield hostile_text(chance, 2_000)
            case 3:
                head, _, signature = whole.rpartition(".")
                yield f"{damaged(head.encode(), chance).decode('latin-1')}.{signature}"
            case _:
                yield damaged(whole.encode(), chance).decode("latin-1")


def _forged(chance: random.Random) -> str:
    """Well-formed tokens signed without the secret, or with values that the page never signs."""
    values: Any = [MINE.key, "voice", "one", int(NOW) + 60]
    values = chance.choice((values, values[:2], {"a": 1}, None, "x" * 1_000, [values] * 50, [[], {}, None, "soon"]))
    signer = URLSafeSerializer(
        OTHER_SECRET, salt="reprise.file", signer_kwargs={"key_derivation": "hmac", "digest_method": "sha256"}
    )
    try:
        return str(signer.dumps(values))
    except (TypeError, AttributeError):
        return json.dumps(values)


def _follow(token: str) -> None:
    """Check that only the exact signed link returns the file."""
    if f"{PATH_PREFIX}{token}" == _links().sign(MINE, "voice", "one"):
        return
    answer = _client().get(_address(token), follow_redirects=False)
    if CONTENT in answer.content:
        raise Broken("A tampered link returned a voice.")
    if answer.status_code >= 500:
        raise Broken(f"A link was answered with status {answer.status_code}.")


def _address(token: str) -> str:
    return PATH_PREFIX + quote(token.encode("utf-8", "replace"), safe="")


def _keys(seed: int, count: int) -> Iterator[str]:
    mine, foreign = (
        OwnerResolver("browser", secret)._signer.sign(_SIGNED).decode() for secret in (SECRET, OTHER_SECRET)
    )
    for chance in randoms(seed, count):
        yield chance.choice((foreign, damaged(mine.encode(), chance).decode("latin-1"), hostile_text(chance, 10_000)))


def _present(key: str) -> None:
    """Present a key: keys that this server did not sign are refused."""
    try:
        owner = OwnerResolver("browser", SECRET).resolve(None, key)
    except InvalidInput:
        return
    if owner.name != _SIGNED:
        raise Broken(f"A forged key was accepted as {owner.key}.")


def _ranges(seed: int, count: int) -> Iterator[tuple[str, int]]:
    whole = b"bytes=10-20"
    for chance in randoms(seed, count):
        size = chance.choice((0, 1, 20, 1 << 40))
        yield chance.choice((hostile_text(chance, 4_000), damaged(whole, chance).decode("latin-1"))), size


def _cut(case: tuple[str, int]) -> None:
    asked, size = case
    part = parse_range(asked, size)
    if part is not None and part and not (0 <= part.start < part.stop <= size):
        raise Broken(f"{asked!r} of {size} bytes gave {part}.")


LINKS = Attack("links", "signed links, tampered with, foreign and forged", _tokens, _follow, 2_000)
KEYS = Attack("keys", "owners' keys that this server did not sign", _keys, _present, 1_500)
RANGES = Attack("ranges", "Range headers", _ranges, _cut, 1_500)
