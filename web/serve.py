"""Serve the page through Gradio's `launch`, which Hugging Face Spaces require."""

from __future__ import annotations

import logging
import os
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from web.binding import LOCAL, bound_host, checked_address
from web.folders import private_folder
from web.proxies import exclude_from_proxies

if TYPE_CHECKING:
    import gradio as gr
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from storage import Storage
    from studio.context import AppContext
    from web.context import WebContext
    from web.downloads.links import DownloadLinks
    from web.http.gate import GatePolicy
    from web.identity.accounts import Accounts
    from web.identity.owners import Deployment, OwnerMode
    from web.ui.i18n import Translations

log = logging.getLogger(__name__)

PURGE_SECONDS = 60.0  # interval of purging voices past their undo period, old uploads, and deleted owners' takes
EXPIRE_SECONDS = 24 * 3600.0  # interval of deleting expired history
SHARE_DOMAIN = ".gradio.live"  # domain of Gradio's tunnels
EVENT_THREADS = 40  # threads for unqueued events; Gradio has a single limit for unqueued and running queued events
SIGNING = "signing"  # name of the secret that signs tokens and links


def launch(
    demo: gr.Blocks,
    *,
    policy: GatePolicy | None = None,
    translations: Translations | None = None,
    accounts: Accounts | None = None,
    routes: Sequence[Route] = (),
    api: ASGIApp | None = None,
    server_name: str | None = None,
    **options: Any,
) -> str:
    """Launch a page behind the gate, with our style, and without run history, monitoring and API page.

    policy: the gate's. routes: additional routes, which take precedence over Gradio's. api: the API's application, if
    the policy's routes include it. options: `launch`'s own server_port, share, root_path.

    Returns the page's local URL. The page is served until the demo is closed. Raises InvalidOption for a taken port
    and for an address of another machine.
    """
    from starlette.middleware import Middleware

    from web import gradio_internals
    from web.http.alive import AliveEndpoint
    from web.http.calls import CallValidator
    from web.http.gate import GatePolicy, gate_lifespan
    from web.http.headers import PagePolicyMiddleware, ResponseHeaders
    from web.http.hosts import AllowedHosts
    from web.http.routes import AllowedRoutes, with_stripped_paths
    from web.identity.login import LOGIN_NOTE, LoginMiddleware
    from web.limits import connections
    from web.limits.budgets import TAKES
    from web.limits.throttle import LoginThrottle
    from web.ui.i18n import Translations
    from web.ui.modules import Modules
    from web.ui.page_version import page_version
    from web.ui.theme import launch_style

    bind = checked_address(server_name or LOCAL)
    policy = policy or GatePolicy(AllowedHosts(bind), AllowedRoutes(accounts=accounts is not None))
    login = partial(LoginMiddleware, throttle=LoginThrottle()) if accounts else None
    modules = Modules(translations or Translations.load())
    version = page_version(demo.config, modules.version)
    calls = CallValidator(
        demo.config,
        gradio_internals.upload_folder(demo),
        lambda session: gradio_internals.unread_messages(demo, session) is not None,
        version,
    )
    gate = gate_lifespan(policy, calls, login, api)
    alive = AliveEndpoint(version, policy.token)
    root_path = urlsplit(options.get("root_path") or "").path
    exclude_from_proxies("localhost", bind.strip("[]"))

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with gradio_internals.limit_sessions(app), gate(app):
            yield

    with gradio_internals.launch_errors(bind, options.get("server_port")):
        _, url, _ = demo.launch(
            auth=accounts.check if accounts else None,  # type: ignore[arg-type]  # Gradio awaits async functions
            auth_message=LOGIN_NOTE if accounts else None,
            app_kwargs={
                "routes": with_stripped_paths([*modules.routes(), *alive.routes(), *routes], root_path),
                "lifespan": lifespan,
                "middleware": [
                    Middleware(
                        PagePolicyMiddleware,
                        headers=ResponseHeaders(framed=policy.framed),
                        head=partial(modules.head, page=version),
                    )
                ],
            },
            max_threads=TAKES + EVENT_THREADS,
            ssr_mode=False,  # the SSR server would need our routes, and renders none of our components
            run_history=False,
            enable_monitoring=False,
            footer_links=[],
            show_error=False,
            pwa=False,
            quiet=True,
            prevent_thread_lock=True,
            server_name=bind,
            **gradio_internals.NO_SECOND_CHECK,
            **launch_style(),
            **options,
        )
    gradio_internals.serve_own_assets(demo)
    connections.limit_connections(gradio_internals.running_server(demo))
    return str(url)


def read_deployment(
    server_name: str | None,
    *,
    share: bool,
    root_path: str | None,
    accounts: bool,
    allowed_hosts: Sequence[str] = (),
) -> Deployment:
    """Return the deployment, from the options and the environment variables that Gradio and Spaces use."""
    from web.identity.owners import Deployment

    return Deployment(
        host=bound_host(server_name),
        share=share,
        accounts=accounts,
        sign_in=bool(os.environ.get("SPACE_ID") and os.environ.get("OAUTH_CLIENT_ID")),
        root_path=_root_path(root_path or os.environ.get("GRADIO_ROOT_PATH", "")),
        allowed=tuple(allowed_hosts),
        space=bool(os.environ.get("SPACE_ID")),
    )


def _root_path(text: str) -> str:
    """Return a path or URL as Gradio expects it: with a slash before it and none after it, "" for the root."""
    path = text.strip().rstrip("/")
    return path if not path or path.startswith("/") or "://" in path else f"/{path}"


def create_policy(deployment: Deployment, mode: OwnerMode, secret: bytes, translations: Translations) -> GatePolicy:
    """Return the gate's policy. secret: the server's signing secret. Raises InvalidOption for an invalid host name."""
    from web.http.gate import GatePolicy
    from web.http.hosts import AllowedHosts
    from web.http.routes import AllowedRoutes
    from web.http.startup_token import StartupToken, locked_page

    # A Space with a custom domain has several names.
    space = os.environ.get("SPACE_HOST", "").split(",") if deployment.space else []
    tunnel = [SHARE_DOMAIN] if deployment.share else []
    return GatePolicy(
        hosts=AllowedHosts(deployment.host, filter(None, [*deployment.allowed, *space, *tunnel])),
        routes=AllowedRoutes(
            accounts=deployment.accounts,
            hub=deployment.sign_in,
            api=True,
            root_path=urlsplit(deployment.root_path).path,
        ),
        token=StartupToken(secret) if mode == "machine" else None,
        framed=deployment.space,
        locked_page=lambda headers: locked_page(translations.texts_for(headers.get("accept-language", ""))),
    )


def serve(
    app: AppContext,
    *,
    server_name: str | None = None,
    share: bool = False,
    root_path: str | None = None,
    accounts: Accounts | None = None,
    owners: str = "auto",
    allowed_hosts: Sequence[str] = (),
    open_browser: bool = False,
    api: ASGIApp | None = None,
    **options: Any,
) -> None:
    """Serve the page until the process is interrupted.

    accounts: who may log in; None: no login. owners: the `choice` of `web.identity.owners.owner_mode`. allowed_hosts:
    host names of the page besides those of this machine. open_browser: open the page in this machine's browser.
    api: the API's application. The other options are as for `launch`. Raises InvalidOption.
    """
    from studio.periodic import every
    from studio.startup import exclude_loaded_objects
    from web.identity.addresses import trust_proxies

    deployment = read_deployment(
        server_name, share=share, root_path=root_path, accounts=accounts is not None, allowed_hosts=allowed_hosts
    )
    storage = app.storage
    trust_proxies()
    with ExitStack() as stack:
        folder = stack.enter_context(private_folder())
        # Import Gradio only now, so that it creates its folders in the private one.
        from web.page import create_app
        from web.ui.i18n import Translations
        from web.uploads.endpoint import UploadEndpoint

        translations = Translations.load()
        context = create_context(app, folder, translations, deployment, owners)
        policy = create_policy(deployment, context.owners.mode, storage.voices.secret(SIGNING), translations)
        uploads = UploadEndpoint(context.folder, translations)
        stack.enter_context(every(PURGE_SECONDS, storage.voices.purge_expired))
        stack.enter_context(every(PURGE_SECONDS, uploads.expire))
        stack.enter_context(every(PURGE_SECONDS, app.takes.drop_deleted))
        stack.enter_context(every(EXPIRE_SECONDS, lambda: expire(storage)))
        demo = create_app(context)
        url = launch(
            demo,
            policy=policy,
            translations=translations,
            accounts=accounts,
            routes=[*context.links.routes(), *uploads.routes()],
            api=api,
            server_name=deployment.host,
            share=deployment.share,  # always explicit: otherwise Gradio may decide to share
            root_path=deployment.root_path or None,
            **options,
        )
        stack.callback(demo.close, verbose=False)
        exclude_loaded_objects()
        show_address(policy.token.link(url) if policy.token else url, demo.share_url, open_browser=open_browser)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def show_address(url: str, shared: str | None, *, open_browser: bool) -> None:
    """Print the page's URL, and open it in a browser if the machine has a display."""
    url = url.replace("//[::]", "//localhost", 1)  # stands for all addresses, as 0.0.0.0, which Gradio replaces
    print(f"Reprise is at {url}", flush=True)
    if shared:
        print(f"and for everyone at {shared}", flush=True)
    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if open_browser and screen:
        webbrowser.open(url)


def expire(storage: Storage) -> None:
    """Delete history past its owner's retention time, and log the count."""
    gone = storage.history.expire()
    if gone:
        log.info("Deleted %d expired takes from the history.", gone)


def create_context(
    app: AppContext, folder: str | Path, translations: Translations, deployment: Deployment, owners: str
) -> WebContext:
    """Create the page's services on top of the application's. owners: as for `serve`. Raises InvalidOption."""
    from web.context import WebContext
    from web.identity.owners import OwnerResolver, owner_mode

    return WebContext(
        **vars(app),
        owners=OwnerResolver(owner_mode(owners, deployment), app.storage.voices.secret(SIGNING)),
        links=create_links(app, deployment.root_path, translations),
        translations=translations,
        folder=Path(folder),
    )


def create_links(app: AppContext, root_path: str = "", translations: Translations | None = None) -> DownloadLinks:
    """Create the download links for voices, clips, takes and scripts."""
    from web.downloads.links import DownloadLinks
    from web.downloads.scripts import script_producer
    from web.downloads.sounds import clip_producer, take_producer
    from web.downloads.voices import archive_producer, voice_producer

    voices = app.storage.voices
    producers = {
        "voice": voice_producer(voices),
        "voices": archive_producer(voices),
        "clip": clip_producer(voices),
        "take": take_producer(app.takes),
        "script": script_producer(app.storage.scripts),
    }
    secret = voices.secret(SIGNING)
    return DownloadLinks(secret, producers, root_path=root_path, translations=translations)
