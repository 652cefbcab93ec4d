"""The owner whose data a request reads or changes.

`owner_mode` selects one of five modes when the server starts:

    hub       a Space with sign-in: the Hugging Face user; visitors who are not signed in are identified as in `browser`
    user      a server with accounts (`web.identity.accounts`): the logged-in user
    machine   a local-only page: the local owner, the same as the command line's; requests that the gate does not
              classify as local (`web.http.hosts`) are handled as in `browser`
    local     the local owner for every visitor; only if configured explicitly
    browser   otherwise: a random id, signed by the server, that the browser stores and sends with each event
"""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from itsdangerous import BadSignature, Signer

from engine.errors import InvalidInput, InvalidOption
from storage.validation import LOCAL, is_id, new_id
from web.http.hosts import is_local, is_loopback
from web.identity.addresses import client_address

if TYPE_CHECKING:
    import gradio as gr

OwnerMode = Literal["hub", "user", "machine", "local", "browser"]
OWNER_MODE_OPTIONS = ("auto", "local", "browser")


@dataclass(frozen=True)
class Owner:
    """An owner of voices. name: unique within its kind.

    address: the request's, from `client_address`; not part of the owner's identity.
    """

    kind: Literal["local", "user", "hub", "browser"]
    name: str = ""
    address: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """The owner's key in storage. Keys of different kinds, and those of storage itself, never collide."""
        return LOCAL if self.kind == "local" else f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class OwnerToken:
    """The owner of a page that opens, the token for it to store, and whether the token that it sent was rejected."""

    owner: Owner
    token: str | None
    rejected: bool = False


@dataclass(frozen=True)
class Deployment:
    """The serving options that determine who can reach the page."""

    host: str  # the address that it listens on
    share: bool = False
    accounts: bool = False
    sign_in: bool = False  # a Space that offers "Sign in with Hugging Face"
    root_path: str = ""  # the proxy's
    allowed: tuple[str, ...] = ()  # further host names
    space: bool = False  # on Hugging Face

    @property
    def private(self) -> bool:
        """Whether only this machine can reach the page."""
        named = all(is_loopback(name) for name in self.allowed)
        return is_loopback(self.host) and named and not (self.share or self.root_path or self.space)


def owner_mode(choice: str, deployment: Deployment) -> OwnerMode:
    """Select the mode. choice: auto, or a mode configured explicitly. Raises InvalidOption."""
    match choice:
        case "local" | "browser":
            return choice
        case "auto" if deployment.sign_in:
            return "hub"
        case "auto" if deployment.accounts:
            return "user"
        case "auto":
            return "machine" if deployment.private else "browser"
    *others, last = OWNER_MODE_OPTIONS
    raise InvalidOption(f"--owners takes {', '.join(others)} or {last}, not “{choice}”.")


class OwnerResolver:
    """Determines the owner of a request, and issues browsers' tokens."""

    def __init__(self, mode: OwnerMode, secret: bytes) -> None:
        """secret: the server's persistent secret; when it changes, browsers lose access to their voices."""
        self.mode, self._secret = mode, secret
        self._signer = Signer(secret, salt="reprise.owner", key_derivation="hmac", digest_method=hashlib.sha256)

    def resolve(self, request: gr.Request | None, token: object) -> Owner:
        """Return the owner of an event. token: sent by the page; only `browser` owners need one.

        Raises InvalidInput for a token that is missing or not signed by this server.
        """
        return replace(self._known(request) or self._browser(token), address=client_address(request))

    def resolve_or_issue(self, request: gr.Request | None, token: object) -> OwnerToken:
        """Return the owner of a page that opens. Issues a token to a browser without a valid one."""
        owner = self._known(request)
        if owner:
            return OwnerToken(owner, None)
        try:
            return OwnerToken(self._browser(token), str(token))
        except InvalidInput:
            fresh = self._signer.sign(new_id()).decode()
            return OwnerToken(self._browser(fresh), fresh, rejected=bool(token))

    def alias(self, owner: Owner) -> str:
        """Return an opaque name that distinguishes owners in the browser's storage."""
        return hashlib.blake2b(owner.key.encode(), key=self._secret[:64], digest_size=8).hexdigest()

    def account(self, request: gr.Request | None) -> str | None:
        """Return the name of the account that is logged in; None without one, and on a server without accounts."""
        return request.username if self.mode == "user" and request is not None else None

    def _known(self, request: gr.Request | None) -> Owner | None:
        """Return the owner that the server determines itself, None if the browser's token decides."""
        match self.mode:
            case "local":
                return Owner("local")
            case "machine":
                return Owner("local") if is_local(_scope(request)) else None
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
        if not is_id(name):
            raise InvalidInput("owner.invalid")
        return Owner("browser", name)


def _logged_in(request: gr.Request | None) -> Owner:
    username = request.username if request else None
    if not username:
        raise InvalidInput("owner.logged_out")
    # NFC as in account names, so that a user is one owner however accents are encoded.
    return Owner("user", unicodedata.normalize("NFC", username))


def _signed_in(request: gr.Request | None) -> Owner | None:
    """Return the Hugging Face user, identified by the number that is stable across changes of the user name."""
    info = _session(request).get("oauth_info") or {}
    profile = info.get("userinfo") or {}
    expires = info.get("expires_at")
    if not profile.get("sub") or (expires is not None and expires < time.time()):
        return None
    return Owner("hub", str(profile["sub"]))


def _session(request: gr.Request | None) -> Mapping[str, Any]:
    session: Mapping[str, Any] = _scope(request).get("session", {})
    return session


def _scope(request: gr.Request | None) -> Mapping[str, Any]:
    # `Request.session` exists only if the page has a sign-in button; the scope always exists.
    scope: Mapping[str, Any] = getattr(getattr(request, "request", None), "scope", {})
    return scope
