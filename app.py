"""Reprise: the page and the command line.

python app.py                       serve the page
python app.py speak "Hello." …      synthesize speech to a file
python app.py check FILE            check whether a file was made with Reprise
python app.py voices list …         manage saved voices
python app.py keys create NAME …    manage API keys
python app.py library copy FROM TO  move the library to another database
python app.py library erase OWNER   delete all data of one owner
python app.py wyoming               serve speech to Home Assistant
python app.py mcp                   serve tools to language models
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from functools import partial

import typer

import web  # noqa: F401 - before Gradio, which `prepare_zero_gpu` imports: see web/gradio_import.py
from cli import options
from cli.check import check
from cli.context import CommandContext, context_of, model_notices, require
from cli.keys import keys
from cli.library import library
from cli.speak import speak
from cli.terminal import escape_unprintable, exit_at_once, exit_on_error, exit_on_signal, say
from cli.voices import voices
from studio.engines.zero_gpu import prepare as prepare_zero_gpu
from studio.packages import MCP
from studio.startup import exclude_loaded_objects, paused_collections

main = typer.Typer(
    help="Clone a voice from a clip and hear speech while it is generated. Without a command: serve the page.",
    add_completion=False,
    rich_markup_mode=None,  # Rich removes text in square brackets
    pretty_exceptions_enable=False,
)


@main.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    model: options.Model = "bundled",
    device: options.Device = "auto",
    host: options.Host = None,
    port: options.Port = None,
    database: options.Database = None,
    sounds: options.Sounds = None,
    snapshots: options.Snapshots = None,
    precision: options.Precision = None,
    graphs: options.Graphs = "frame",
    compiled: options.Compiled = False,
    deterministic: options.Deterministic = False,
    slots: options.Slots = None,
    cluster: options.Cluster = None,
    replicas: options.Replicas = "1",
    replica_gpus: options.ReplicaGpus = None,
    models: options.Models = None,
    idle_unload: options.IdleUnload = 0.0,
    watermarked: options.Watermarked = False,
    share: options.Share = False,
    auth: options.Auth = None,
    owners: options.Owners = "auto",
    allowed_hosts: options.AllowedHosts = None,
    clip_hosts: options.ClipHosts = None,
    open_browser: options.OpenBrowser = True,
    root_path: options.RootPath = None,
    version: options.Version = False,
) -> None:
    """Serve the page."""
    source = context.get_parameter_source("model")
    if models and source is not None and source.name == "DEFAULT":
        model = models[0]
    context.obj = command = CommandContext(
        model=model, device=device, database=database, sounds=sounds, snapshots=snapshots, precision=precision,
        graphs=graphs, compiled=compiled, deterministic=deterministic, slots=slots, cluster=cluster, replicas=replicas,
        replica_gpus=replica_gpus, idle_unload=idle_unload, watermarked=watermarked,
        reuse_deployment=bool(context.invoked_subcommand),
    )  # fmt: skip
    prepare_zero_gpu()
    if context.invoked_subcommand:
        return
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("web").setLevel(logging.INFO)
    with exit_on_error(), paused_collections():
        from api.app import create_api
        from web.binding import check_binding
        from web.http.hosts import check_clip_hosts, check_names, is_local
        from web.identity.accounts import auth_settings, load_accounts
        from web.serve import root_path_of
        from web.serve import serve as serve_page

        accounts = load_accounts(auth_settings(auth or []))
        notices = model_notices(model, models or [])
        check_binding(host, port)
        check_names(allowed_hosts or [])
        check_clip_hosts(clip_hosts or [])
        root_path = root_path_of(root_path or "")
        with command.services(notices) as services:
            serve_page(
                services, api=create_api(services, is_local, clip_hosts=clip_hosts or [], root_path=root_path),
                server_name=host, server_port=port, share=share, root_path=root_path, accounts=accounts,
                owners=owners, allowed_hosts=allowed_hosts or [], open_browser=open_browser,
            )  # fmt: skip


@main.command()
def wyoming(
    context: typer.Context,
    uri: options.WyomingUri = "tcp://127.0.0.1:10200",
    model: options.ModelAfter = None,
    device: options.DeviceAfter = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Serve speech to Home Assistant over the Wyoming protocol."""
    command = context_of(context, model=model, device=device, database=database)
    with exit_on_error(), paused_collections():
        require("wyoming")
        from api.assistants.wyoming import check_address, create_server, serve
        from api.context import ApiContext

        server = create_server(uri)
        asyncio.run(check_address(server))
        with command.services() as services, suppress(KeyboardInterrupt):
            exclude_loaded_objects()
            ready = partial(say, f"Reprise speaks Wyoming at {uri}")
            asyncio.run(serve(ApiContext.create(services), server, ready))


@main.command()
def mcp(
    context: typer.Context,
    model: options.ModelAfter = None,
    device: options.DeviceAfter = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Serve tools to language models over MCP, on standard input and output."""
    command = context_of(context, model=model, device=device, database=database)
    with exit_on_error(), paused_collections(), exit_at_once():
        require("mcp", MCP)
        with command.services() as services, exit_on_signal(signal.SIGINT):
            from api.assistants.mcp import create_mcp
            from api.context import ApiContext

            server = create_mcp(ApiContext.create(services))
            exclude_loaded_objects()
            server.run("stdio")


main.command()(speak)
main.command()(check)
main.add_typer(voices, name="voices")
main.add_typer(keys, name="keys")
main.add_typer(library, name="library")


if __name__ == "__main__":
    escape_unprintable()
    options.ignore_service_url()
    main()
