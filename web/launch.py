"""Launch the page behind the gate, through Gradio's `launch`, which Hugging Face Spaces require."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.middleware import Middleware

from web import gradio_internals
from web.binding import LOOPBACK, checked_address
from web.http.alive import AliveEndpoint
from web.http.answers import CompressedAnswers
from web.http.calls import CallValidator
from web.http.gate import GatePolicy, gate_lifespan
from web.http.headers import PagePolicyMiddleware, ResponseHeaders
from web.http.hosts import AllowedHosts
from web.http.routes import AllowedRoutes, with_stripped_paths
from web.http.startup_token import StartupToken, locked_page
from web.identity.login import LOGIN_NOTE, LoginMiddleware
from web.limits import budgets, connections
from web.limits.throttle import LoginThrottle
from web.proxies import exclude_from_proxies
from web.ui.i18n import Translations
from web.ui.modules import Modules
from web.ui.page_version import page_version
from web.ui.theme import launch_style

if TYPE_CHECKING:
    import gradio as gr
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from web.identity.accounts import Accounts
    from web.identity.owners import Deployment, OwnerMode

SHARE_DOMAIN = ".gradio.live"  # domain of Gradio's tunnels
EVENT_THREADS = 40  # threads for unqueued events; Gradio has a single limit for unqueued and running queued events
_OPTIONS: dict[str, Any] = {  # of Gradio's `launch`
    "ssr_mode": False,  # the SSR server would need our routes, and renders none of our components
    "run_history": False,
    "enable_monitoring": False,
    "footer_links": [],
    "show_error": False,
    "pwa": False,
    "quiet": True,
    "prevent_thread_lock": True,
}


def create_policy(deployment: Deployment, mode: OwnerMode, secret: bytes, translations: Translations) -> GatePolicy:
    """Return the gate's policy. secret: the server's signing secret. Raises InvalidOption for an invalid host name."""
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
    bind = checked_address(server_name or LOOPBACK)
    policy = policy or GatePolicy(AllowedHosts(bind), AllowedRoutes(accounts=accounts is not None))
    login = partial(LoginMiddleware, throttle=LoginThrottle()) if accounts else None
    modules = Modules(translations or Translations.load())
    version = page_version(demo.config, modules.version)
    alive = AliveEndpoint(version, policy.token)
    root_path = urlsplit(options.get("root_path") or "").path
    exclude_from_proxies("localhost", bind.strip("[]"))
    with gradio_internals.launch_errors(bind, options.get("server_port")):
        _, url, _ = demo.launch(
            auth=accounts.check if accounts else None,  # type: ignore[arg-type]  # Gradio awaits async functions
            auth_message=LOGIN_NOTE if accounts else None,
            app_kwargs={
                "routes": with_stripped_paths([*modules.routes(), *alive.routes(), *routes], root_path),
                "lifespan": _lifespan(demo, policy, version, login, api),
                "middleware": [
                    Middleware(CompressedAnswers),
                    Middleware(
                        PagePolicyMiddleware,
                        headers=ResponseHeaders(framed=policy.framed),
                        head=partial(modules.head, page=version),
                    ),
                ],
            },
            max_threads=budgets.TAKES + EVENT_THREADS,
            server_name=bind,
            **_OPTIONS,
            **gradio_internals.NO_SECOND_CHECK,
            **launch_style(),
            **options,
        )
    gradio_internals.serve_own_assets(demo)
    connections.limit_connections(gradio_internals.running_server(demo))
    return str(url)


def _lifespan(
    demo: gr.Blocks, policy: GatePolicy, version: str, login: Callable[[ASGIApp], ASGIApp] | None, api: ASGIApp | None
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Return the lifespan of Gradio's application, which puts it behind the gate. version: of the page."""
    calls = CallValidator(
        demo.config,
        gradio_internals.upload_folder(demo),
        lambda session: gradio_internals.unread_messages(demo, session) is not None,
        version,
    )
    gate = gate_lifespan(policy, calls, login, api)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with gradio_internals.limit_sessions(app), gate(app):
            yield

    return lifespan
