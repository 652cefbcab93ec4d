"""The address and port that the page is served at."""

import os
import socket

from engine.errors import InvalidOption

LOOPBACK = "127.0.0.1"


def bound_host(server_name: str | None) -> str:
    """Return the host to serve at: the option's, else that of Gradio's variable, which containers and Spaces set."""
    return server_name or os.environ.get("GRADIO_SERVER_NAME") or LOOPBACK


def checked_address(host: str) -> str:
    """Return a host name or address to serve at, as Gradio expects it: IPv6 addresses in brackets.

    Raises InvalidOption for one that is not of this machine: Gradio would try it at each port, for five seconds each.
    """
    try:
        _bind(host)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "not a host name"
        raise InvalidOption(
            f"The page cannot be served at {host} ({why}). Choose an address of this machine by --host; 0.0.0.0 stands "
            "for all of them."
        ) from error
    bare = _bare(host)
    return f"[{bare}]" if ":" in bare else bare


def check_binding(server_name: str | None, port: int | None) -> None:
    """Raise InvalidOption for an address of another machine and for a taken port, before a model is loaded.

    port: None if the first free one is looked for later.
    """
    host = bound_host(server_name)
    checked_address(host)
    if port is None:
        return
    try:
        _bind(host, port)
    except OSError as error:
        raise port_taken(host, port) from error


def port_taken(host: str, port: int | None) -> InvalidOption:
    """Return the error for a port that is taken; port: None if no free one was found."""
    place = f"port {port}" if port else "any of the ports that are tried"
    return InvalidOption(
        f"The page cannot be served at {host}, {place}: another program may be using it. Choose a port by --port."
    )


def _bare(host: str) -> str:
    return host.removeprefix("[").removesuffix("]")


def _bind(host: str, port: int = 0) -> None:
    family, kind, _, _, address = socket.getaddrinfo(_bare(host), port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as probe:
        # Otherwise the port of a server that has just ended counts as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
