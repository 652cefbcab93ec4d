"""Owners: the rules alone, then isolation between the visitors of a served page."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect

from engine.errors import InvalidInput, InvalidOption
from storage import Storage, VoiceLibrary
from storage.validation import LOCAL
from tests.storage.making import open_voices
from tests.support.fake_engine import FakeEngine, voice
from tests.web.visiting import visit
from tests.web.visitor import Visitor, page_config
from web.http.hosts import IS_LOCAL
from web.identity.accounts import load_accounts
from web.identity.owners import Deployment, Owner, OwnerResolver, owner_mode
from web.launch import create_policy
from web.serve import read_deployment
from web.ui.i18n import Translations

Serve = Callable[..., str]
expect.set_options(timeout=120_000)  # ms: generous, since the machine may be busy
SECRET = b"a secret of this test's server...."
NAMES = st.text(max_size=40)


def request(**parts: Any) -> Any:
    """Return the parts of a Gradio request that the rules read. `local`: the mark set by the gate."""
    scope = {"session": parts.pop("session")} if "session" in parts else {}
    scope |= {IS_LOCAL: parts.pop("local")} if "local" in parts else {}
    return SimpleNamespace(**{"username": None, "headers": {}, **parts}, request=SimpleNamespace(scope=scope))


# --- rules


@pytest.mark.parametrize(
    ("served", "way"),
    [
        (Deployment("127.0.0.1"), "machine"),
        (Deployment("localhost"), "machine"),
        (Deployment("[::1]"), "machine"),
        (Deployment("127.0.0.1", share=True), "browser"),
        (Deployment("127.0.0.1", root_path="/reprise"), "browser"),
        (Deployment("0.0.0.0"), "browser"),
        (Deployment("192.168.1.5"), "browser"),
        (Deployment("voices.example"), "browser"),
        (Deployment("127.0.0.1", accounts=True), "user"),
        (Deployment("0.0.0.0", accounts=True), "user"),
        (Deployment("0.0.0.0", sign_in=True), "hub"),
    ],
)
def test_owner_mode_follows_from_the_deployment(served: Deployment, way: str) -> None:
    assert owner_mode("auto", served) == way
    assert owner_mode("local", served) == "local"
    assert owner_mode("browser", served) == "browser"


def test_unknown_owner_mode_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="auto, local or browser, not “everyone”"):
        owner_mode("everyone", Deployment("127.0.0.1"))


def test_deployment_is_read_from_the_space_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_deployment(None, share=False, root_path=None, accounts=False) == Deployment("127.0.0.1")
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    monkeypatch.setenv("SPACE_ID", "someone/reprise")
    assert read_deployment(None, share=False, root_path=None, accounts=False) == Deployment("0.0.0.0", space=True)
    monkeypatch.setenv("OAUTH_CLIENT_ID", "an id")
    for written, kept in {"voice/": "/voice", "/voice": "/voice", "/": "", "https://a.b/c/": "https://a.b/c"}.items():
        assert read_deployment(None, share=False, root_path=written, accounts=False).root_path == kept
    place = read_deployment(None, share=False, root_path=None, accounts=False)
    assert place.sign_in
    monkeypatch.setenv("SPACE_HOST", "someone-reprise.hf.space,voices.example.org")  # with a custom domain
    hosts = create_policy(place, "hub", SECRET, Translations.load()).hosts
    assert all(name in hosts for name in ("someone-reprise.hf.space", "voices.example.org"))


@given(NAMES, NAMES)
def test_owner_keys_of_different_kinds_never_collide(one: str, other: str) -> None:
    kinds = ("user", "hub", "browser")
    keys = {Owner(kind, name).key for kind in kinds for name in (one, other)}  # type: ignore[arg-type]
    assert len(keys) == len(kinds) * len({one, other})
    assert all(":" in key for key in keys), "the library's own owners have no colon"
    assert ":" not in LOCAL == Owner("local", one).key


def test_token_resolves_to_the_same_browser_owner() -> None:
    owners = OwnerResolver("browser", SECRET)
    first, second = owners.resolve_or_issue(None, None), owners.resolve_or_issue(None, "")
    assert first.owner != second.owner
    assert (first.rejected, first.owner.kind, len(first.owner.name)) == (False, "browser", 32)
    assert owners.resolve(None, first.token) == first.owner
    assert owners.resolve_or_issue(None, first.token) == first, "the token is kept"
    assert OwnerResolver("browser", SECRET).resolve(None, first.token) == first.owner, "also after a restart"


def test_owner_aliases_are_distinct_and_opaque() -> None:
    names = ("local", "user", "hub", "browser")
    here, elsewhere = OwnerResolver("user", b"secret"), OwnerResolver("user", b"another server")
    aliases = [here.alias(Owner(kind, name)) for kind in names for name in ("anna", "ben")]  # type: ignore[arg-type]
    assert len(set(aliases)) == len(aliases) - 1, "the local owner has no name"
    assert aliases == [here.alias(Owner(kind, name)) for kind in names for name in ("anna", "ben")]  # type: ignore[arg-type]
    assert elsewhere.alias(Owner("user", "anna")) not in aliases
    assert all(re.fullmatch("[0-9a-f]{16}", alias) for alias in aliases)


@given(st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text()), st.binary()))
def test_invalid_tokens_are_rejected(token: object) -> None:
    owners = OwnerResolver("browser", SECRET)
    with pytest.raises(InvalidInput, match="invalid"):
        owners.resolve(None, token)
    issued = owners.resolve_or_issue(None, token)
    assert issued.rejected == bool(token)
    assert owners.resolve(None, issued.token) == issued.owner


def test_forged_and_foreign_tokens_are_refused() -> None:
    owners = OwnerResolver("browser", SECRET)
    good = str(owners.resolve_or_issue(None, None).token)
    name, signature = good.split(".")
    foreign = str(OwnerResolver("browser", b"another server").resolve_or_issue(None, None).token)
    changed = [name[:-1] + ("0" if name[-1] != "0" else "1") + "." + signature, name + ".", name, "." + signature]
    elsewhere = owners._signer.sign("nobody").decode()  # signed, but not an id
    for token in (foreign, elsewhere, *changed, good + " ", good.upper(), "local." + signature, good[:-2]):
        with pytest.raises(InvalidInput):
            owners.resolve(None, token)
        assert owners.resolve_or_issue(None, token).rejected


def test_local_owner_requires_a_direct_request() -> None:
    owners = OwnerResolver("machine", SECRET)
    assert owners.resolve(request(local=True), None).key == LOCAL
    assert owners.resolve_or_issue(request(local=True), "whatever").owner.key == LOCAL
    for proxied in (request(local=False), request(local=None), request(local="yes"), request(), None):
        with pytest.raises(InvalidInput):
            owners.resolve(proxied, None)
        assert owners.resolve_or_issue(proxied, None).owner.kind == "browser"
        assert OwnerResolver("local", SECRET).resolve(proxied, None).key == LOCAL, "mode `local` has no other owner"


def test_user_names_match_in_any_unicode_form() -> None:
    owners = OwnerResolver("user", SECRET)
    composed, decomposed = (owners.resolve(request(username=name), None) for name in ("Zo\u00eb", "Zoe\u0308"))
    assert composed == decomposed
    assert composed.key == "user:Zo\u00eb"
    assert owners.resolve_or_issue(request(username="a"), "token").token is None
    for nobody in (None, request(), request(username="")):
        with pytest.raises(InvalidInput, match="logged_out"):
            owners.resolve(nobody, None)


def profile(sub: str, **more: Any) -> dict[str, Any]:
    return {"oauth_info": {"userinfo": {"sub": sub, "preferred_username": "anna"}, **more}}


def test_hub_users_are_keyed_by_id_and_signed_out_visitors_by_browser() -> None:
    owners = OwnerResolver("hub", SECRET)
    known = owners.resolve(request(session=profile("17", expires_at=time.time() + 60)), None)
    assert known.key == "hub:17"
    signed_out = [{}, profile("17", expires_at=time.time() - 1), profile(""), {"oauth_info": None}]
    for session in signed_out:
        assert owners.resolve_or_issue(request(session=session), None).owner.kind == "browser"
        with pytest.raises(InvalidInput):
            owners.resolve(request(session=session), None)
    assert owners.resolve_or_issue(request(), None).owner.kind == "browser", "no session at all"


# --- a served page


def test_browsers_cannot_reach_each_others_voices_nor_the_secret(
    serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    url = serve(engine, storage, "browser")
    anna, ben = Visitor(url), Visitor(url)
    assert anna.arrive() == ben.arrive() == {"voices": {}, "notice": ""}
    page = anna.http.get("").text
    assert library.secret("signing").hex() not in page
    assert "gradio_config" in page, "the response is the page"
    owner = OwnerResolver("browser", library.secret("signing")).resolve(None, anna.token).key
    hers = library.add(voice("Hers"), owner=owner).id
    library.add(voice("The machine's"))

    assert list(anna.arrive()["voices"].values()) == ["Hers"]
    assert ben.arrive()["voices"] == {}
    assert ben.press("relist")[0]["voices"] == []
    for event in ("revise", "duplicate", "remove", "restore"):
        assert ben.press(event, id=hers, name="His")[0]["answer"]["kind"] == "bad"
    assert library.get(hers, owner=owner).name == "Hers"
    (shown,) = anna.press("relist")[0]["voices"]
    assert "Hers.voice" in anna.http.get(shown["file"]).headers["content-disposition"]
    assert anna.speak("Hello.", hers)["stop_reason"] == "end"
    assert "no such voice" in ben.speak("Hello.", hers)["status"]

    for forged in (owner, owner.partition(":")[2], ben.token[:32] + anna.token[32:], None, LOCAL):
        thief = Visitor(url)
        thief.token = forged
        assert "not from this server" in thief.press("duplicate", id=hers)[0]["answer"]["text"]
        arrived = thief.arrive()
        assert arrived["voices"] == {}
        assert ("was given a new one" in arrived["notice"]) == (forged is not None)
        assert thief.token not in (forged, anna.token, ben.token)
        assert thief.arrive() == {"voices": {}, "notice": ""}, "the new token is accepted"


@pytest.mark.usefixtures("quick_hashes")
def test_logged_in_users_see_only_their_own_voices(
    serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    url = serve(engine, storage, "user", accounts=load_accounts(["anna:one of hers", "ben:one of his"]))
    anna, ben, nobody = (Visitor(url) for _ in range(3))
    assert nobody.log_in("anna", "one of his") == 400
    assert page_config(nobody.http.get("").text)["dependencies"] == [], "the page is hidden as well"
    assert nobody.http.post("gradio_api/run/predict", json={"data": [], "fn_index": 0}).status_code == 401
    assert anna.log_in("anna", "one of hers") == ben.log_in("ben", "one of his") == 200
    hers = library.add(voice("Hers"), owner="user:anna").id
    assert list(anna.arrive()["voices"].values()) == ["Hers"]
    assert anna.token is None
    assert ben.arrive()["voices"] == {}
    assert ben.press("duplicate", id=hers)[0]["answer"]["kind"] == "bad"
    assert anna.speak("Hello.", hers)["stop_reason"] == "end"
    assert ben.speak("Hello.", hers)["problem"]
    ben.token = "whatever"
    assert ben.arrive()["voices"] == {}


def test_signed_in_users_are_distinguished_from_browsers(
    chromium: Browser,
    serve: Serve,
    engine: FakeEngine,
    library: VoiceLibrary,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = {"access_token": "t", "scope": "openid", "userinfo": {"sub": "17", "preferred_username": "anna"}}
    monkeypatch.setattr("gradio.oauth._get_mocked_oauth_info", lambda: info)
    with pytest.warns(UserWarning, match="OAuth"):
        url = serve(engine, storage, "hub")
    library.add(voice("Hers"), owner="hub:17")
    visitor = Visitor(url)
    assert visitor.arrive()["voices"] == {}
    assert visitor.token, "a signed-out visitor is identified by the browser"
    cookie = visitor.http.get("login/callback").headers["set-cookie"].partition(";")[0]
    visitor.http.headers["cookie"] = cookie  # the cookie is for https only, and this is http
    assert list(visitor.arrive()["voices"].values()) == ["Hers"]
    assert visitor.token is None
    assert visitor.speak("Hello.", library.list(owner="hub:17")[0].id)["stop_reason"] == "end"
    with visit(chromium, url) as page:
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            for control in (
                page.get_by_role("button", name="Sign in with Hugging Face"),
                page.get_by_label("Language", exact=True),
            ):
                control.click(trial=True)  # no other element covers it
            page.get_by_role("tab", name="Speak", exact=True).click()


def test_server_secret_is_persistent_and_unique(library: VoiceLibrary, tmp_path: Path) -> None:
    secret = library.secret("signing")
    assert len(secret) == 32
    assert library.secret("another") != secret
    with open_voices(tmp_path / "voices.db") as again:
        assert again.secret("signing") == secret
    with open_voices(tmp_path / "other.db") as other:
        assert other.secret("signing") != secret
