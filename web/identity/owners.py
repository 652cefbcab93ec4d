"""The owner whose data a request reads or changes.

Five modes, of which `owner_mode` picks one when the server starts:

    hub       a Space with sign-in: the Hugging Face user; visitors who are not signed in are known by their browser
    user      the server has accounts (`web.identity.accounts`): the user who is logged in
    machine   the page is for this machine alone: the local owner, the same as the command line's; a request that is
              not plainly local, as the gate determines (`web.http.hosts`), has its browser's owner
    local     as `machine`, for all who reach the page; only when the host asks for it
    browser   otherwise: a random id that the server signed and the browser keeps and sends with each event
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
from storage.voices.library import LOCAL
from web.http.hosts import IS_LOCAL, is_loopback
from web.identity.addresses import client_address

if TYPE_CHECKING:
    import gradio as gr

OwnerMode = Literal["hub", "user", "machine", "local", "browser"]
OWNER_MODE_OPTIONS = ("auto", "local", "browser")
ID_BYTES = 16
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Owner:
    """An owner of voices. name: unique within its kind. shown: the name that the page may show.

    address: of this request, from `client_address`; it is not part of the owner's identity.
    """

    kind: Literal["local", "user", "hub", "browser"]
    name: str = ""
    shown: str = ""
    address: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """The owner's key in storage: kinds never collide, nor do they with storage's own owners."""
        return LOCAL if self.kind == "local" else f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class OwnerToken:
    """The owner of a page that opens, the token that it keeps from now on, and whether its own was rejected."""

    owner: Owner
    token: str | None
    rejected: bool = False


@dataclass(frozen=True)
class Deployment:
    """How the page is served, as far as that determines who can reach it."""

    host: str  # the address that it listens at
    share: bool = False
    accounts: bool = False
    sign_in: bool = False  # a Space that offers "Sign in with Hugging Face"
    root_path: str = ""  # of a proxy
    allowed: tuple[str, ...] = ()  # further host names
    space: bool = False  # on Hugging Face

    @property
    def private(self) -> bool:
        """Whether only this machine can reach the page."""
        named = all(is_loopback(name) for name in self.allowed)
        return is_loopback(self.host) and named and not (self.share or self.root_path or self.space)


def owner_mode(choice: str, deployment: Deployment) -> OwnerMode:
    """How owners are told apart. choice: auto, or a mode that the host insists on. Raises InvalidOption."""
    match choice:
        case "local" | "browser":
            return choice
        case "auto" if deployment.sign_in:
            return "hub"
        case "auto" if deployment.accounts:
            return "user"
        case "auto":
            return "machine" if deployment.private else "browser"
    raise InvalidOption(f"Owners are told apart by one of {', '.join(OWNER_MODE_OPTIONS)}; “{choice}” is none of them.")


class OwnerResolver:
    """Determines the owner of a request, and issues browsers' tokens."""

    def __init__(self, mode: OwnerMode, secret: bytes) -> None:
        """secret: the server's own; browsers keep their voices for as long as it stays the same."""
        self.mode, self._secret = mode, secret
        self._signer = Signer(secret, salt="reprise.owner", key_derivation="hmac", digest_method=hashlib.sha256)

    def resolve(self, request: gr.Request | None, token: object) -> Owner:
        """The owner of an event. token: as the page sent it; only browsers' owners need one.

        Raises InvalidInput for a token that is missing or not signed by this server.
        """
        return replace(self._known(request) or self._browser(token), address=client_address(request))

    def resolve_or_issue(self, request: gr.Request | None, token: object) -> OwnerToken:
        """The owner of a page that opens. A browser without a valid token is issued one."""
        owner = self._known(request)
        if owner:
            return OwnerToken(owner, None)
        try:
            return OwnerToken(self._browser(token), str(token))
        except InvalidInput:
            fresh = self._signer.sign(secrets.token_hex(ID_BYTES)).decode()
            return OwnerToken(self._browser(fresh), fresh, rejected=bool(token))

    def alias(self, owner: Owner) -> str:
        """A name of the owner for the browser's storage: it tells owners apart, and nothing else."""
        return hashlib.blake2b(owner.key.encode(), key=self._secret[:64], digest_size=8).hexdigest()

    def _known(self, request: gr.Request | None) -> Owner | None:
        """The owner that the server itself knows, None where the browser's token decides."""
        match self.mode:
            case "local":
                return Owner("local")
            case "machine":
                return Owner("local") if _scope(request).get(IS_LOCAL) is True else None
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
            raise InvalidInput("owner.invalid")
        return Owner("browser", name)


def _logged_in(request: gr.Request | None) -> Owner:
    username = request.username if request else None
    if not username:
        raise InvalidInput("owner.logged_out")
    # Accounts are compared in this form too: one user is one owner, whatever the encoding of the accents.
    name = unicodedata.normalize("NFC", username)
    return Owner("user", name, name)


def _signed_in(request: gr.Request | None) -> Owner | None:
    """The Hugging Face user, identified by the number that stays when the user name changes."""
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
    # `Request.session` exists only while the page has a sign-in button; the scope always does.
    scope: Mapping[str, Any] = getattr(getattr(request, "request", None), "scope", {})
    return scope
