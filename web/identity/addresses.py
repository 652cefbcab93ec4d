"""Where requests come from, as far as budgets need to know: one address is one household or one office."""

from __future__ import annotations

import os
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

# Of these networks are the proxies of Hugging Face Spaces. uvicorn reads the variable, and takes the visitor's address
# from the header of a proxy that it names; without it those on this machine alone are believed.
TRUSTED = "FORWARDED_ALLOW_IPS"
INSIDE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,::1/128,fc00::/7"
HOUSEHOLD = 64  # bits of an IPv6 address that one connection to the internet has for itself


def address_of(request: Any) -> str:
    """A request's address, Gradio's or Starlette's; of IPv6 its network. "" where none is known."""
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
    """On a Space everyone comes through a proxy, which says for whom. A host that says otherwise has its way."""
    if os.environ.get("SPACE_ID"):
        os.environ.setdefault(TRUSTED, INSIDE)
