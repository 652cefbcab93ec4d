"""Starting the page. Everything goes through Gradio's `launch`, as Hugging Face Spaces need it."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gradio as gr
    from starlette.routing import BaseRoute

    from storage import Studio
    from web.face.translations import Translations
    from web.house import House
    from web.model.engines import Engines
    from web.takes.kept import Takes
    from web.visitors.accounts import Accounts
    from web.visitors.links import Links
    from web.visitors.owners import Hosting

log = logging.getLogger(__name__)

SWEEPING = 60.0  # seconds between two looks for voices whose deletion can no longer be undone
EXPIRING = 24 * 3600.0  # seconds between two looks for what the history is to forget
QUICK = 40  # threads for what is quick; Gradio has one number for these and for queued events that are under way
SIGNING = "signing"  # the server's secret that keys and links are signed with


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder of this process alone for uploads and finished takes; it goes when the process goes."""
    # Gradio reads it whenever it makes a page.
    folder = tempfile.mkdtemp(prefix="reprise-")
    before = os.environ.get("GRADIO_TEMP_DIR")
    os.environ["GRADIO_TEMP_DIR"] = folder
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if before is None:
            del os.environ["GRADIO_TEMP_DIR"]
        else:
            os.environ["GRADIO_TEMP_DIR"] = before


def launch(
    demo: gr.Blocks,
    *,
    translations: Translations | None = None,
    accounts: Accounts | None = None,
    routes: Sequence[BaseRoute] = (),
    **options: Any,
) -> Any:
    """Launches with our looks and our privacy: no run history, no monitoring, no API page, bounded uploads.

    `routes`: of our own beside Gradio's. They are there before the server listens, so there is no need to hold its
    thread for adding them. `options` are `launch`'s own: server_name, server_port, share, root_path,
    prevent_thread_lock.
    """
    from web.face.looks import looks
    from web.uploads import MAX_UPLOAD_MB
    from web.visitors.budgets import TAKES
    from web.visitors.sessions import bounded

    return demo.launch(
        auth=accounts.check if accounts else None,  # type: ignore[arg-type]  # Gradio awaits it where it is async
        i18n=translations.i18n if translations else None,
        app_kwargs={"routes": list(routes), "lifespan": bounded},
        max_threads=TAKES + QUICK,
        ssr_mode=False,  # a second server before ours would have to know the routes, and renders none of our parts
        run_history=False,
        enable_monitoring=False,
        footer_links=[],
        max_file_size=f"{MAX_UPLOAD_MB}mb",
        show_error=False,
        pwa=False,
        **looks(),
        **options,
    )


def hosting(server_name: str | None, *, share: bool, root_path: str | None, accounts: bool) -> Hosting:
    """How the page will be served, by the options and by what Gradio and Spaces read from the environment."""
    from web.visitors.owners import Hosting

    return Hosting(
        host=server_name or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1",
        share=share,
        accounts=accounts,
        sign_in=bool(os.environ.get("SPACE_ID") and os.environ.get("OAUTH_CLIENT_ID")),
        root_path=root_path or os.environ.get("GRADIO_ROOT_PATH", ""),
    )


def serve(
    engine: Engines,
    studio: Studio,
    *,
    server_name: str | None = None,
    share: bool = False,
    root_path: str | None = None,
    accounts: Accounts | None = None,
    owners: str = "auto",
    **options: Any,
) -> None:
    """Serves the page until the process is told to stop.

    `accounts`: who may log in; None for everyone. `owners`: how owners are told apart, as for
    `web.visitors.owners.way_of`. The other options are as for `launch`. Raises InvalidOption.
    """
    from web.every import every
    from web.face.translations import Translations
    from web.page import create_app
    from web.visitors.addresses import trust_proxies

    place = hosting(server_name, share=share, root_path=root_path, accounts=accounts is not None)
    translations = Translations.load()
    trust_proxies()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is private is cleared away
    with (
        private_folder() as folder,
        every(SWEEPING, studio.voices.sweep),
        every(EXPIRING, lambda: expire(studio)),
    ):
        house = furnish(engine, studio, folder, translations, place, owners)
        launch(
            create_app(house),
            translations=translations,
            accounts=accounts,
            routes=house.links.routes(),
            server_name=place.host,
            share=place.share,  # said either way: where nothing is said, Gradio may decide to share
            root_path=place.root_path or None,
            **options,
        )


def expire(studio: Studio) -> None:
    """Has the history forget what is old."""
    gone = studio.history.expire()
    if gone:
        log.info("Deleted from the history, being older than their owners keep them: %d.", gone)


def furnish(
    engine: Engines, studio: Studio, folder: str, translations: Translations, place: Hosting, owners: str
) -> House:
    """What the page works with. `owners`: as for `serve`. Raises InvalidOption."""
    from web.house import House
    from web.takes.kept import Takes
    from web.visitors.owners import Owners, way_of

    known = Owners(way_of(owners, place), studio.voices.secret(SIGNING))
    takes = Takes(studio.history)
    return House(engine, studio, known, links_to(studio, takes, place.root_path), translations, Path(folder), takes)


def links_to(studio: Studio, takes: Takes, root_path: str = "") -> Links:
    """Links to everything that is kept and that the page hands out."""
    from web.library.parcels import voice_archives
    from web.script.files import script_files
    from web.takes.sounds import clip_files, take_files
    from web.visitors.links import Links, voice_files

    producers = {
        "voice": voice_files(studio.voices),
        "voices": voice_archives(studio.voices),
        "clip": clip_files(studio.voices),
        "take": take_files(takes),
        "script": script_files(studio.scripts),
    }
    return Links(studio.voices.secret(SIGNING), producers, root_path=root_path)
