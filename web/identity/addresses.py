"""Client addresses for budgets. One address stands for one household or office."""

from __future__ import annotations

import os
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

# uvicorn takes the client address from the headers of proxies in this variable; by default, only of proxies on this
# machine. INSIDE: networks of the proxies of Hugging Face Spaces.
TRUSTED = "FORWARDED_ALLOW_IPS"
INSIDE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,::1/128,fc00::/7"
HOUSEHOLD = 64  # prefix length of the IPv6 network of one internet connection


def client_address(request: Any) -> str:
    """Return the address of a Gradio or Starlette request; for IPv6, its /64 network. "" if unknown."""
    host = getattr(getattr(request, "client", None), "host", None) or ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return str(host)
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, HOUSEHOLD), strict=False))


def trust_proxies() -> None:
    """On a Space, trust the headers of its proxy for client addresses, unless configured otherwise."""
    if os.environ.get("SPACE_ID"):
        os.environ.setdefault(TRUSTED, INSIDE)
