"""HTML within Markdown → text. Tags that browsers know are removed; others such as `<sigh>` are text."""

import html

import regex

_COMMENT = regex.compile(r"<!--(?:(?!<!--|-->).)*+-->", regex.DOTALL)
_NOT_READ = regex.compile(r"(?i)\s*<(?:script|style|!(?!--)|\?)")
_INLINE = frozenset("a abbr b cite code del em font i ins kbd mark q s small span strike strong sub sup tt u".split())
_TAG = regex.compile(
    r"(?i)</?(?P<name>a|abbr|b|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|hr|i"
    r"|img|ins|kbd|li|mark|ol|p|pre|q|rp|rt|ruby|s|small|span|strike|strong|sub|summary|sup|table|tbody|td|th|thead"
    r"|tr|tt|u|ul|video|wbr)(?P<attributes>\s[^<>]*)?/?>"
)
# Longer than any code point: Python refuses to convert the longest of these.
_HUGE_NUMBER = regex.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{8,}+);?")


def unescape(text: str) -> str:
    """Replace character references (`&amp;`, `&#8212;`) by their characters."""
    return html.unescape(_HUGE_NUMBER.sub("\ufffd", text))


def text_of_html(source: str, omitted: list[str]) -> str:
    """Remove the tags of an HTML block; comments, scripts and attributes are added to `omitted`."""
    if _NOT_READ.match(source):
        omitted.append(source.strip())
        return ""

    def leave_out(found: "regex.Match[str]") -> str:
        omitted.append(found[0].strip())
        return "\n"

    text = _COMMENT.sub(leave_out, source)
    return unescape(_TAG.sub(lambda found: _replacement(found, omitted), text))


def text_of_tag(source: str, omitted: list[str]) -> str:
    """Return the text in place of one tag or comment in a paragraph: empty, a space, or the unknown tag itself."""
    if source.startswith(("<!", "<?")):
        omitted.append(source.strip())
        return " "
    found = _TAG.fullmatch(source)
    return _replacement(found, omitted) if found else source


def _replacement(tag: "regex.Match[str]", omitted: list[str]) -> str:
    if attributes := (tag["attributes"] or "").strip():
        omitted.append(attributes)
    return "" if tag["name"].lower() in _INLINE else " "
