"""Headers of responses: frames of the Hugging Face Hub, and cookies."""

import pytest
from starlette.datastructures import MutableHeaders

from web.http.headers import ResponseHeaders


def applied(cookie: str, *, framed: bool = False, encrypted: bool = False) -> MutableHeaders:
    headers = MutableHeaders({"set-cookie": cookie})
    ResponseHeaders(framed=framed).apply(headers, encrypted=encrypted, trusted=True)
    return headers


def test_hub_may_show_the_page_of_a_space_in_a_frame() -> None:
    hub, own = applied("a=1", framed=True), applied("a=1")
    assert hub["content-security-policy"].endswith("frame-ancestors https://huggingface.co https://*.huggingface.co")
    assert not {"x-frame-options", "cross-origin-opener-policy"} & set(hub)
    assert own["content-security-policy"].endswith("frame-ancestors 'none'")
    assert (own["x-frame-options"], own["cross-origin-opener-policy"]) == ("DENY", "same-origin")
    assert "connect-src 'self' data: blob: https://huggingface.co;" in ResponseHeaders(framed=True).page_policy("")
    assert "connect-src 'self' data: blob:;" in ResponseHeaders().page_policy("")


@pytest.mark.parametrize(
    ("cookie", "framed", "encrypted", "sent"),
    [
        ("a=1; Path=/; SameSite=none", False, False, "a=1; Path=/; SameSite=Lax"),
        ("a=1", False, True, "a=1; Secure; SameSite=Lax"),
        ("a=1; secure; Partitioned", False, True, "a=1; secure; SameSite=Lax"),
        ("a=1; SameSite=Lax", True, False, "a=1; Secure; SameSite=None; Partitioned"),
    ],
)
def test_cookies_are_sent_to_the_page_alone(cookie: str, framed: bool, encrypted: bool, sent: str) -> None:
    assert applied(cookie, framed=framed, encrypted=encrypted).getlist("set-cookie") == [sent]
