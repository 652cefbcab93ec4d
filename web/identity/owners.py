"""Whose voices a request is about: the one place that knows.

Five ways, of which `way_of` picks one when the server starts:

    hub       a Space with sign-in: the Hugging Face user; who has not signed in is known by the browser
    user      the server has accounts (`web.identity.accounts`): whoever logged in
    machine   the page is for this machine alone: the local owner, the same as the command line's; a request that is
              not plainly local, as the gate sees it (`web.http.client`), is a browser's
    local     as `machine`, for all who reach the page; only when the host asks for it
    browser   everyone else: a random id that the server signed and the browser keeps, sent with each event
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from itsdangerous import BadSignature, Signer

from engine.errors import InvalidInput, InvalidOption
from storage.library import LOCAL
from web.http import client
from web.http.hosts import is_loopback
from web.identity.addresses import address_of

if TYPE_CHECKING:
    import gradio as gr

Way = Literal["hub", "user", "machine", "local", "browser"]
CHOICES = ("auto", "local", "browser")
ID_BYTES = 16
_ID = re.compile(r"[0-9a-f]{32}")
STRANGE_KEY = "This browser's key is not from this server. Reload the page to be given a new one."


@dataclass(frozen=True)
class Owner:
    """Someone with voices. `name` tells owners of one kind apart, `shown` is what the page may call them.

    address: where this request of theirs came from, as `address_of` has it; the owner is the same everywhere.
    """

    kind: Literal["local", "user", "hub", "browser"]
    name: str = ""
    shown: str = ""
    address: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """What the library knows the owner by: kinds never meet, and no owner is one of the library's own."""
        return LOCAL if self.kind == "local" else f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Arrival:
    """Who opened the page, the token that it keeps from now on, and whether the one that it had was refused."""

    owner: Owner
    token: str | None
    refused: bool = False


@dataclass(frozen=True)
class Hosting:
    """How the page is served, as far as it says who may come."""

    host: str  # the address it listens at
    share: bool = False
    accounts: bool = False
    sign_in: bool = False  # a Space that offers "Sign in with Hugging Face"
    root_path: str = ""  # behind a proxy, which alone needs one
    allowed: tuple[str, ...] = ()  # other names that it is reached by
    space: bool = False  # on Hugging Face

    @property
    def private(self) -> bool:
        """Whether only this machine can reach the page."""
        named = all(is_loopback(name) for name in self.allowed)
        return is_loopback(self.host) and named and not (self.share or self.root_path or self.space)


def way_of(choice: str, hosting: Hosting) -> Way:
    """How owners are told apart. `choice`: auto, or a way that the host insists on. Raises InvalidOption."""
    match choice:
        case "local" | "browser":
            return choice
        case "auto" if hosting.sign_in:
            return "hub"
        case "auto" if hosting.accounts:
            return "user"
        case "auto":
            return "machine" if hosting.private else "browser"
    raise InvalidOption(f"Owners are told apart by one of {', '.join(CHOICES)}; “{choice}” is none of them.")


class Owners:
    """Says who is behind a request, and gives browsers the token that they are known by."""

    def __init__(self, way: Way, secret: bytes) -> None:
        """`secret`: the server's own; browsers keep their voices for as long as it stays the same."""
        self.way = way
        self._signer = Signer(secret, salt="reprise.owner", key_derivation="hmac", digest_method=hashlib.sha256)

    def owner_of(self, request: gr.Request | None, token: object) -> Owner:
        """The owner behind an event. `token`: as the page sent it; only browsers' owners need one.

        Raises InvalidInput when the token is missing, or not one that this server signed.
        """
        return replace(self._known(request) or self._browser(token), address=address_of(request))

    def welcome(self, request: gr.Request | None, token: object) -> Arrival:
        """The owner of a page that opens. A browser without a token of this server gets a fresh one."""
        owner = self._known(request)
        if owner:
            return Arrival(owner, None)
        try:
            return Arrival(self._browser(token), str(token))
        except InvalidInput:
            fresh = self._signer.sign(secrets.token_hex(ID_BYTES)).decode()
            return Arrival(self._browser(fresh), fresh, refused=bool(token))

    def _known(self, request: gr.Request | None) -> Owner | None:
        """The owner as the server itself knows it, None where only the browser can tell."""
        match self.way:
            case "local":
                return Owner("local")
            case "machine":
                return Owner("local") if _scope(request).get(client.LOCAL) is True else None
            case "user":
                return _logged_in(request)
            case "hub":
                return _signed_in(request)
        return None

    def _browser(self, token: object) -> Owner:
        try:
            name = self._signer.unsign(token).decode() if isinstance(token, str) else ""
        except (BadSignature, UnicodeError):
            name = ""
        if not _ID.fullmatch(name):
            raise InvalidInput(STRANGE_KEY)
        return Owner("browser", name)


def _logged_in(request: gr.Request | None) -> Owner:
    username = request.username if request else None
    if not username:
        raise InvalidInput("You are not logged in any more. Reload the page and log in.")
    # Accounts are compared in this form too: one user, one owner, however the name's accents were typed.
    name = unicodedata.normalize("NFC", username)
    return Owner("user", name, name)


def _signed_in(request: gr.Request | None) -> Owner | None:
    """The Hugging Face user by the number that stays when a user takes another name."""
    info = _session(request).get("oauth_info") or {}
    profile = info.get("userinfo") or {}
    expires = info.get("expires_at")
    if not profile.get("sub") or (expires is not None and expires < time.time()):
        return None
    return Owner("hub", str(profile["sub"]), str(profile.get("preferred_username", "")))


def _session(request: gr.Request | None) -> Mapping[str, Any]:
    session: Mapping[str, Any] = _scope(request).get("session", {})
    return session


def _scope(request: gr.Request | None) -> Mapping[str, Any]:
    # `Request.session` is there only while the page has a sign-in button; the scope can always be asked.
    scope: Mapping[str, Any] = getattr(getattr(request, "request", None), "scope", {})
    return scope
