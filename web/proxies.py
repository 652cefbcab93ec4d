"""Proxies that the environment names (`HTTP_PROXY`, `ALL_PROXY`, …), or the settings of macOS and Windows, for the HTTP
clients of Gradio and the Hub."""

import os
from ipaddress import IPv6Address
from urllib.request import getproxies


def make_proxies_readable() -> None:
    """Rewrite what httpx refuses to read: `socks://`, as desktops name SOCKS5, and networks of IPv6 without a proxy."""
    for name, value in os.environ.items():
        if name.lower() == "no_proxy":
            hosts = (host.strip().removeprefix("[").removesuffix("]") for host in value.split(","))
            os.environ[name] = ",".join(filter(_is_readable, hosts))
        elif name.lower().endswith("_proxy") and value.startswith("socks://"):
            os.environ[name] = value.replace("socks", "socks5", 1)


def exclude_from_proxies(*hosts: str) -> None:
    """Have hosts of this machine called directly: Gradio calls its own server when it starts."""
    named = getproxies()
    if named and named.get("no") != "*":  # with other names, it would not mean all hosts
        for scheme in {"http", "https"} & named.keys():  # of the system's settings, which are not read beside variables
            os.environ.setdefault(f"{scheme}_proxy", named[scheme])
        os.environ["no_proxy"] = ",".join(filter(None, (named.get("no"), *hosts)))


def _is_readable(host: str) -> bool:
    if host.count(":") < 2:
        return True
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True
