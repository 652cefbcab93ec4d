"""Serve the page until the process is interrupted.

Gradio creates its folders when it is imported, so `serve` imports it, and all modules that use it, in a private folder.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from studio.periodic import every
from studio.startup import exclude_loaded_objects
from web.binding import bound_host
from web.folders import private_folder
from web.identity.addresses import trust_proxies
from web.identity.owners import Deployment

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from storage import Storage
    from studio.context import AppContext
    from web.identity.accounts import Accounts

log = logging.getLogger(__name__)

PURGE_SECONDS = 60.0  # interval of purging voices past their undo period, old uploads, and deleted owners' takes
EXPIRE_SECONDS = 24 * 3600.0  # interval of deleting expired history


def read_deployment(
    server_name: str | None,
    *,
    share: bool,
    root_path: str | None,
    accounts: bool,
    allowed_hosts: Sequence[str] = (),
) -> Deployment:
    """Return the deployment, from the options and the environment variables that Gradio and Spaces use."""
    return Deployment(
        host=bound_host(server_name),
        share=share,
        accounts=accounts,
        sign_in=bool(os.environ.get("SPACE_ID") and os.environ.get("OAUTH_CLIENT_ID")),
        root_path=root_path_of(root_path or os.environ.get("GRADIO_ROOT_PATH", "")),
        allowed=tuple(allowed_hosts),
        space=bool(os.environ.get("SPACE_ID")),
    )


def root_path_of(text: str) -> str:
    """Return a path or URL as Gradio expects it: with a slash before it and none after it, "" for the root."""
    path = text.strip().rstrip("/")
    return path if not path or path.startswith("/") or "://" in path else f"/{path}"


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
    deployment = read_deployment(
        server_name, share=share, root_path=root_path, accounts=accounts is not None, allowed_hosts=allowed_hosts
    )
    storage = app.storage
    trust_proxies()
    with ExitStack() as stack:
        folder = stack.enter_context(private_folder())
        from web.context import SIGNING, create_context
        from web.launch import create_policy, launch
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
