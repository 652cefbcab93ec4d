"""Addresses of clients: one for each internet connection."""

from types import SimpleNamespace

import pytest

from web.identity.addresses import client_address


def address_of(host: str | None) -> str:
    return client_address(SimpleNamespace(client=SimpleNamespace(host=host)))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_client_address_groups_ipv6_by_network(host: str | None, address: str) -> None:
    assert address_of(host) == address
    assert client_address(None) == ""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
        ("no address", "another", False),
    ],
)
def test_addresses_of_one_visitor_are_the_same(one: str, other: str, same: bool) -> None:
    assert (address_of(one) == address_of(other)) == same
