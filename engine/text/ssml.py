"""SSML, the markup of texts for other services → plain text with `[pause:…]` in place of its breaks.

Elements that only SSML has are recognised anywhere. A text that begins with `<speak>` is XML up to `</speak>`: all its
tags are markup, its character references are decoded, and single line ends are spaces.

Sources: W3C, Speech Synthesis Markup Language 1.1 (2010), which leaves the lengths of strengths to the implementation;
`_STRENGTHS` has those of Azure's documentation.
"""

import html

import regex

from engine.text.pauses import PAUSE

_STRENGTHS = {"none": 0.0, "x-weak": 0.25, "weak": 0.5, "medium": 0.75, "strong": 1.0, "x-strong": 1.25}  # seconds
# What separates the text on both sides of a tag. Other tags may be within a word.
_BETWEEN = {"p": "\n\n", "/p": "\n\n", "s": "\n", "voice": "\n", "audio": " ", "/audio": " ", "/speak": ""}

# Elements of HTML, such as <p>, <s>, <mark> and <audio>, are markup in a document only.
_NAMES = "break emphasis prosody say-as phoneme speak lang mark sub voice amazon: google: mstts:".split()
_SSML_ONLY = (
    r"break|emphasis|prosody|say-as|phoneme|speak|(?:amazon|google|mstts):[\w-]++|(?<=/)(?:lang|voice)"
    r"|lang(?=\s++xml:lang)|mark(?=\s++name)|voice(?=\s++(?:name|xml:lang|language|gender)\b)"
)
_QUOTE = "\"“”„'‘’"  # word processors change the quotes
_VALUE = r"(?:[\"“”„][^\"“”„<>]*+[\"“”„]|['‘’][^'‘’<>]*+['‘’]|[^\s\"“”„'‘’<>=/]++)"
_END = rf"(?=[^<>]{{0,2000}}+>)(?:\s++(?P<attribute>[\w:.-]++)\s*+=\s*+(?P<value>{_VALUE}))*+\s*+/?>"
_SUB = rf"<sub{_END}(?P<content>[^<>]{{0,1000}}+)</sub\s{{0,9}}+>"
_ALIAS = r"(?=<sub[^<>]*?\salias\s*+=)"  # without it, <sub> is of HTML
_COMMENT = r"<!--(?:(?!<!--|-->).){0,2000}+-->"
_BEGINNING = regex.compile(rf"(?i)[\s\ufeff]*+(?:<\?xml[^<>]{{0,200}}+>\s*+)?<speak{_END}")
_ANYWHERE = regex.compile(rf"(?i){_ALIAS}{_SUB}|<(?P<name>/?+(?:{_SSML_ONLY})){_END}")
_IN_DOCUMENT = regex.compile(
    rf"(?is){_SUB}|<(?P<name>/?+[a-z][\w:.-]*+){_END}|{_COMMENT}"
    r"|(?P<reference>&\#?+\w{1,32}+;)|(?P<space>(?<!\s)\s++(?=\S))"
)

# The end of a text that may be the beginning of markup.
_STARTED = "|".join("(?:".join(name) + ")?" * (len(name) - 1) for name in _NAMES)
_UNENDED = (  # as far as it can be what `_END` matches
    rf"(?=[^<>]{{0,2000}}+\Z)(?:\s++[\w:.-]++\s*+=\s*+{_VALUE})*+"
    r"(?:\s++[\w:.-]++\s*+(?:=\s*+(?:[\"“”„][^\"“”„<>]*+|['‘’][^'‘’<>]*+)?)?|\s*+/?)\Z"
)
_SUB_STARTED = rf"<sub{_END}[^<>]{{0,1000}}+(?:<(?:/(?:s(?:u(?:b\s{{0,9}}+)?)?)?)?)?\Z"
_COMMENT_STARTED = r"<!(?:-(?:-(?:(?!<!--|-->).){0,2002}+)?)?\Z"
_BEGINNING_STARTED = regex.compile(
    r"(?i)[\s\ufeff]*+(?:<\?(?:x(?:m(?:l[^<>]{0,200}+(?:>\s*+)?)?)?)?)?+"
    rf"(?:(?:<(?:s(?:p(?:ea?)?)?)?)?\Z|<speak{_UNENDED})"
)
_LONGEST = 4_000  # characters of a token
_STARTS = {
    _ANYWHERE: regex.compile(
        rf"(?i){_ALIAS}{_SUB_STARTED}|</?(?:{_STARTED})?\Z|</?(?:{'|'.join(_NAMES)})[\w-]*+{_UNENDED}"
    ),
    _IN_DOCUMENT: regex.compile(
        rf"(?is){_SUB_STARTED}|</?(?:[a-z][\w:.-]*+{_UNENDED}|\Z)|{_COMMENT_STARTED}"
        rf"|&\#?+\w{{0,32}}+\Z|(?<!\s)\s++\Z"
    ),
}
_POINT = regex.compile(r"\p{Po}")


def plain_text(text: str) -> str:
    """Return text without SSML: with pauses, the aliases of `<sub>`, and the content of other elements."""
    if "<" not in text:
        return text
    reader = SsmlReader()
    return reader.read(text) + reader.finish()


class SsmlReader:
    """Removes SSML as `plain_text` does from a text that arrives in pieces."""

    def __init__(self) -> None:
        self._markup: regex.Pattern[str] | None = None  # None until a word or `<speak>` comes
        self._held = ""  # the end of the text so far, which may be the beginning of markup
        self._last = ""  # character of the plain text so far

    def read(self, piece: str) -> str:
        """Return the plain text of a piece and of what was held, up to what may be the beginning of markup."""
        text = self._held + piece
        parts: list[str] = []
        at = 0
        ends: dict[regex.Pattern[str], int] = {}
        while token := self._next(text, at):
            is_near_end = self._markup is not None and token.start() >= len(text) - _LONGEST
            if is_near_end and token.start() >= self._complete_end(text, at, ends):
                break
            self._append(parts, text[at : token.start()])
            self._append(parts, self._replacement(token))
            at = token.end()
        end = self._complete_end(text, at, ends)
        self._append(parts, text[at:end])
        self._held = text[end:]
        return "".join(parts)

    def finish(self) -> str:
        """Return the rest of the text. Incomplete markup is text."""
        rest, self._held = self._held, ""
        return rest

    def _append(self, parts: list[str], part: str) -> None:
        parts.append(part)
        self._last = part[-1:] or self._last

    def _next(self, text: str, at: int) -> "regex.Match[str] | None":
        """Return the next markup after `at`, if there is any."""
        if self._markup is None:
            if (beginning := _BEGINNING.match(text, at)) or _BEGINNING_STARTED.match(text, at):
                return beginning
            self._markup = _ANYWHERE
        return self._markup.search(text, at)

    def _complete_end(self, text: str, at: int, ends: dict["regex.Pattern[str]", int]) -> int:
        """Return the end of the text after `at` whose markup is complete.

        `ends` keeps it for each kind of markup, so that a text of many documents is not searched once for each.
        """
        if self._markup is None:
            return at
        if ends.get(self._markup, -1) < at:
            started = _STARTS[self._markup].search(text, max(at, len(text) - _LONGEST))
            ends[self._markup] = started.start() if started else len(text)
        return ends[self._markup]

    def _replacement(self, token: "regex.Match[str]") -> str:
        """Return the text in place of markup. The beginning and the end of a document change what is markup."""
        if self._markup is None:
            self._markup = _IN_DOCUMENT
            return "\n" if self._last else ""
        if token["name"] is None:
            return self._without_name(token)
        name = token["name"].lower()
        if name == "break":
            return _pause(_attributes(token))
        if name == "/speak" and self._markup is _IN_DOCUMENT:
            self._markup = None
        return _BETWEEN.get(name, " " if _POINT.match(self._last) else "")

    def _without_name(self, token: "regex.Match[str]") -> str:
        """Return the text in place of a substitution, a character reference, space or a comment."""
        if (content := token["content"]) is not None:
            return _decoded(_attributes(token).get("alias", content))
        if token["reference"]:
            return _decoded(token[0])
        if token["space"]:
            return "\n\n" if token[0].count("\n") > 1 else " "
        return ""


def _attributes(tag: "regex.Match[str]") -> dict[str, str]:
    """Return the values of a tag's attributes by their names in lower case."""
    pairs = zip(tag.captures("attribute"), tag.captures("value"), strict=True)
    return {name.lower(): value[1:-1] if value[0] in _QUOTE else value for name, value in pairs}


def _decoded(text: str) -> str:
    """Decode character references. A decoded < begins no tag."""
    return html.unescape(text).replace("<", "< ")


def _pause(attributes: dict[str, str]) -> str:
    """Return the pause of a break; a space for one of no length."""
    tag = f"[pause:{attributes.get('time', '').strip().removeprefix('+')}]"
    if PAUSE.fullmatch(tag):
        return tag
    seconds = _STRENGTHS.get(attributes.get("strength", "").strip().lower(), _STRENGTHS["medium"])
    return f"[pause:{seconds:g}]" if seconds else " "
