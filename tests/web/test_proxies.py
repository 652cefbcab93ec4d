"""Proxies of the environment do not keep the page from starting."""

import os
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

import gradio as gr
import httpx
import pytest

from tests.support.ports import free_port
from web.launch import launch
from web.proxies import exclude_from_proxies, make_proxies_readable

NOWHERE = "127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        for each in (name, name.upper()):
            monkeypatch.setenv(each, "")  # so that it is restored, also if it was not set
            monkeypatch.delenv(each)


def test_page_is_served_where_a_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{NOWHERE}")
    with gr.Blocks() as page:
        pass
    port = free_port()
    try:
        assert launch(page, server_port=port).startswith(f"http://127.0.0.1:{port}")
    finally:
        page.close()


@pytest.mark.parametrize("scheme", ["socks", "socks5", "socks5h"])
def test_clients_can_be_made_where_a_socks_proxy_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Gradio makes one when it is imported."""
    monkeypatch.setenv("all_proxy", f"{scheme}://{NOWHERE}")
    make_proxies_readable()
    httpx.Client().close()


def test_clients_can_be_made_whatever_hosts_have_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "localhost, .example.com,10.0.0.0/8,[::1],::1/128,fe80::/10,fe80::1,example.org:80")
    make_proxies_readable()
    assert os.environ["NO_PROXY"] == "localhost,.example.com,10.0.0.0/8,::1,fe80::1,example.org:80"
    httpx.Client().close()


def test_other_hosts_without_proxies_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    exclude_from_proxies("127.0.0.1")
    assert os.environ["no_proxy"] == "intranet.example,127.0.0.1"


def test_no_host_has_a_proxy_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://{NOWHERE}")
    monkeypatch.setenv("no_proxy", "*")
    exclude_from_proxies("127.0.0.1")
    assert proxy_bypass_environment("hub.example")


def test_proxies_of_the_systems_settings_stay_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of macOS and Windows are read where there are no variables, `no_proxy` included."""
    monkeypatch.setattr("web.proxies.getproxies", lambda: {"https": f"http://{NOWHERE}"})
    exclude_from_proxies("127.0.0.1")
    assert getproxies_environment() == {"https": f"http://{NOWHERE}", "no": "127.0.0.1"}
