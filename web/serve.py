"""Starting the page. Everything goes through Gradio's `launch`, as Hugging Face Spaces need it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from web.folders import private_folder

if TYPE_CHECKING:
    import gradio as gr
    from starlette.routing import BaseRoute

    from storage import Storage
    from studio.model_manager import Engines
    from studio.takes.kept import Takes
    from web.context import House
    from web.downloads.links import Links
    from web.http.gate import Policy
    from web.identity.accounts import Accounts
    from web.identity.owners import Hosting, Way
    from web.ui.i18n import Translations

log = logging.getLogger(__name__)

SWEEPING = 60.0  # seconds between two looks for voices whose deletion can no longer be undone
EXPIRING = 24 * 3600.0  # seconds between two looks for what the history is to forget
SHARED = ".gradio.live"  # the names of Gradio's tunnels
QUICK = 40  # threads for what is quick; Gradio has one number for these and for queued events that are under way
SIGNING = "signing"  # the server's secret that keys and links are signed with


def launch(
    demo: gr.Blocks,
    *,
    policy: Policy | None = None,
    translations: Translations | None = None,
    accounts: Accounts | None = None,
    routes: Sequence[BaseRoute] = (),
    server_name: str | None = None,
    **options: Any,
) -> str:
    """Launches behind our gate, with our looks and our privacy: no run history, no monitoring, no API page.

    `policy`: what the gate lets through. `routes`: of our own, which come before Gradio's of the same path. `options`
    are `launch`'s own: server_port, share, root_path. Returns the page's address on this machine; it is served until
    the demo is closed.
    """
    from starlette.middleware import Middleware

    from web.http.bodies import Calls
    from web.http.calls import PageCalls
    from web.http.gate import Policy, guarded
    from web.http.headers import AnswerHeaders
    from web.http.hosts import KnownHosts
    from web.http.page_policy import PagePolicy
    from web.http.surface import Surface
    from web.identity.login import NOTE, LoginGuard
    from web.limits import connections, sessions
    from web.limits.budgets import TAKES
    from web.limits.throttle import LoginThrottle
    from web.ui.i18n import Translations
    from web.ui.modules import Modules
    from web.ui.theme import looks

    bind = server_name or "127.0.0.1"
    policy = policy or Policy(KnownHosts(bind), Surface(accounts=accounts is not None))
    log_in = partial(LoginGuard, throttle=LoginThrottle()) if accounts else None
    calls = Calls(demo.config, demo.GRADIO_CACHE)
    modules = Modules(translations or Translations.load())
    page = PageCalls(calls, lambda session: sessions.unread(demo, session) is not None)
    gate = guarded(policy, page, log_in)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with sessions.bounded(app), gate(app):
            yield

    _, url, _ = demo.launch(
        auth=accounts.check if accounts else None,  # type: ignore[arg-type]  # Gradio awaits it where it is async
        auth_message=NOTE if accounts else None,
        app_kwargs={
            "routes": [*modules.routes(), *routes],
            "lifespan": lifespan,
            "middleware": [Middleware(PagePolicy, headers=AnswerHeaders(framed=policy.framed), head=modules.head)],
        },
        max_threads=TAKES + QUICK,
        ssr_mode=False,  # a second server before ours would have to know the routes, and renders none of our parts
        run_history=False,
        enable_monitoring=False,
        footer_links=[],
        show_error=False,
        pwa=False,
        quiet=True,
        prevent_thread_lock=True,
        server_name=bind,
        **looks(),
        **options,
    )
    connections.bound(demo.server)
    return str(url)


def hosting(
    server_name: str | None,
    *,
    share: bool,
    root_path: str | None,
    accounts: bool,
    allowed_hosts: Sequence[str] = (),
) -> Hosting:
    """How the page will be served, by the options and by what Gradio and Spaces read from the environment."""
    from web.identity.owners import Hosting

    return Hosting(
        host=server_name or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1",
        share=share,
        accounts=accounts,
        sign_in=bool(os.environ.get("SPACE_ID") and os.environ.get("OAUTH_CLIENT_ID")),
        root_path=root_path or os.environ.get("GRADIO_ROOT_PATH", ""),
        allowed=tuple(allowed_hosts),
        space=bool(os.environ.get("SPACE_ID")),
    )


def policy_of(place: Hosting, way: Way, secret: bytes, translations: Translations) -> Policy:
    """What the gate lets through. `secret`: the server's own. Raises InvalidOption for a name that is none."""
    from web.http.gate import Policy
    from web.http.hosts import KnownHosts
    from web.http.locked_page import locked_page
    from web.http.startup_token import StartupToken
    from web.http.surface import Surface

    space = [os.environ.get("SPACE_HOST", "")] if place.space else []
    tunnel = [SHARED] if place.share else []
    return Policy(
        hosts=KnownHosts(place.host, filter(None, [*place.allowed, *space, *tunnel])),
        surface=Surface(accounts=place.accounts, hub=place.sign_in, root_path=urlsplit(place.root_path).path),
        token=StartupToken(secret) if way == "machine" else None,
        framed=place.space,
        locked_page=lambda headers: locked_page(translations.words_for(headers.get("accept-language", ""))),
    )


def serve(
    engine: Engines,
    studio: Storage,
    *,
    server_name: str | None = None,
    share: bool = False,
    root_path: str | None = None,
    accounts: Accounts | None = None,
    owners: str = "auto",
    allowed_hosts: Sequence[str] = (),
    open_browser: bool = False,
    **options: Any,
) -> None:
    """Serves the page until the process is told to stop.

    `accounts`: who may log in; None for everyone. `owners`: how owners are told apart, as for
    `web.identity.owners.way_of`. `allowed_hosts`: names that the page is reached by, beside those of this machine.
    `open_browser`: show the page in this machine's browser. The other options are as for `launch`.
    Raises InvalidOption.
    """
    from studio.periodic import every
    from web.http.uploads import Uploads
    from web.identity.addresses import trust_proxies
    from web.page import create_app
    from web.ui.i18n import Translations

    place = hosting(
        server_name, share=share, root_path=root_path, accounts=accounts is not None, allowed_hosts=allowed_hosts
    )
    translations = Translations.load()
    trust_proxies()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is private is cleared away
    with ExitStack() as stack:
        folder = stack.enter_context(private_folder())
        house = furnish(engine, studio, folder, translations, place, owners)
        policy = policy_of(place, house.owners.way, studio.voices.secret(SIGNING), translations)
        uploads = Uploads(house.folder)
        stack.enter_context(every(SWEEPING, studio.voices.purge_expired))
        stack.enter_context(every(SWEEPING, uploads.expire))
        stack.enter_context(every(EXPIRING, lambda: expire(studio)))
        demo = create_app(house)
        url = launch(
            demo,
            policy=policy,
            translations=translations,
            accounts=accounts,
            routes=[*house.links.routes(), *uploads.routes()],
            server_name=place.host,
            share=place.share,  # said either way: where nothing is said, Gradio may decide to share
            root_path=place.root_path or None,
            **options,
        )
        show_address(policy.token.link(url) if policy.token else url, demo.share_url, open_browser=open_browser)
        demo.block_thread()


def show_address(url: str, shared: str | None, *, open_browser: bool) -> None:
    """Prints where the page is, and shows it in a browser where the machine has a screen."""
    print(f"Reprise is at {url}", flush=True)
    if shared:
        print(f"and for everyone at {shared}", flush=True)
    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if open_browser and screen:
        webbrowser.open(url)


def expire(studio: Storage) -> None:
    """Has the history forget what is old."""
    gone = studio.history.expire()
    if gone:
        log.info("Deleted from the history, being older than their owners keep them: %d.", gone)


def furnish(
    engine: Engines, studio: Storage, folder: str, translations: Translations, place: Hosting, owners: str
) -> House:
    """What the page works with. `owners`: as for `serve`. Raises InvalidOption."""
    from studio.takes.kept import Takes
    from web.context import House
    from web.identity.owners import Owners, way_of

    known = Owners(way_of(owners, place), studio.voices.secret(SIGNING))
    takes = Takes(studio.history)
    return House(engine, studio, known, links_to(studio, takes, place.root_path), translations, Path(folder), takes)


def links_to(studio: Storage, takes: Takes, root_path: str = "") -> Links:
    """Links to everything that is kept and that the page hands out."""
    from web.downloads.links import Links, voice_files
    from web.downloads.scripts import script_files
    from web.downloads.sounds import clip_files, take_files
    from web.downloads.voice_archive import voice_archives

    producers = {
        "voice": voice_files(studio.voices),
        "voices": voice_archives(studio.voices),
        "clip": clip_files(studio.voices),
        "take": take_files(takes),
        "script": script_files(studio.scripts),
    }
    return Links(studio.voices.secret(SIGNING), producers, root_path=root_path)
