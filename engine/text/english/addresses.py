"""Addresses as words: of the web, of e-mail, and of places in the United States."""

import re

from engine.text.english.numbers import digits
from engine.text.english.rules import DIRECTIONS, Rule, before, rule, spelled

_IN_ADDRESSES = {
    "/": "slash", ".": "dot", "-": "dash", "_": "underscore", "?": "question mark", "=": "equals", "&": "and",
    "#": "hash", ":": "colon", "~": "tilde", "+": "plus", "%": "percent", ",": "comma", ";": "semicolon",
}  # fmt: skip
_AFTER_ADDRESS = ".,;:!?)]}>'/"  # marks of the sentence, and a slash that nothing follows
# "www", and countries and types of files at the end: ".uk", ".js"
_SPELLED = re.compile(r"(?i)^www(?=\.)|(?<=\.)(?!co|in|is|it|me|so|to)[a-z]{2}(?=$|[/:?])")
_HOST = r"(?:[\w-]{1,63}\.){1,4}"
_GROUP = r"[\dA-Fa-f]{1,4}"  # of an address of IPv6
_GROUPS = rf"{_GROUP}(?::{_GROUP}){{0,6}}"
_DOMAINS = "ai|app|biz|ca|co|com|de|dev|edu|eu|fr|gov|info|io|net|org|uk"

_STATES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California", "CO": "Colorado",
    "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia", "HI": "Hawaii", "ID": "Idaho",
    "IL": "Illinois", "IN": "Indiana", "IA": "Iowa", "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine",
    "MD": "Maryland", "MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi", "MO": "Missouri",
    "MT": "Montana", "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey", "NM": "New Mexico",
    "NY": "New York", "NC": "North Carolina", "ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon",
    "PA": "Pennsylvania", "RI": "Rhode Island", "SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee",
    "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia", "WA": "Washington", "WV": "West Virginia",
    "WI": "Wisconsin", "WY": "Wyoming", "DC": spelled("DC"),
}  # fmt: skip
_REACH = 30  # characters
_PLACE = re.compile(r"(?:,|\b[A-Z][a-z]+) \Z")  # before a state: "log in OR 54321" names none
_MAY_BE_WORDS = "HI|MD|OK"  # without a postal code


def _address(match: re.Match[str]) -> str:
    written = match[0].rstrip(_AFTER_ADDRESS)
    rest = match[0][len(written) :].lstrip("/")
    host = re.sub(r"(?i)^(?:https?|ftp)://", "", written)
    named = _SPELLED.sub(lambda label: spelled(label[0]), host)
    return "".join(f" {_IN_ADDRESSES[sign]} " if sign in _IN_ADDRESSES else sign for sign in named) + rest


def _ip(match: re.Match[str]) -> str:
    signs = (digits(sign) if sign.isdigit() else "colon" if sign == ":" else spelled(sign) for sign in match[0])
    return f" {' '.join(signs)} "


def _state(match: re.Match[str]) -> str:
    if not _PLACE.search(before(match, _REACH)):
        return match[0]
    code = "".join(f", {digits(part)}" for part in match.groups()[1:] if part)
    return _STATES[match[1]] + code


def _path(match: re.Match[str]) -> str:
    signs = _IN_ADDRESSES | {"\\": "backslash"}
    folders = "".join(f" {signs[sign]} " if sign in signs else sign for sign in match[2].rstrip(_AFTER_ADDRESS))
    return f"{spelled(match[1])} colon {folders}{match[2][len(match[2].rstrip(_AFTER_ADDRESS)) :]}"


ADDRESSES: tuple[Rule, ...] = (
    # Before "\text" is taken for a formula's command. In lower case, other letters may be variables: "x:\alpha".
    rule(r"\b([A-Zcd]):((?:\\[\w.~-]++)++\\?)(?!\{)", _path),
    rule(r"<((?:https?://|www\.)[^\s<>]+|[\w.+-]{1,64}@[\w.-]{1,253})>", r", \1 ,"),
    rule(r"(?i)\b(?:(?:https?|ftp)://|www\.)\S+", _address),
    rule(rf"\b[\w.+-]{{1,64}}@{_HOST}[A-Za-z]{{2,24}}\b", _address),
    rule(rf"\b{_HOST}(?:{_DOMAINS})\b(?:/\S*)?", _address),
    rule(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3}):(?=\d{2,5}\b)", r"\1 colon "),
    rule(
        rf"(?<![\w:.])(?:{_GROUP}(?::{_GROUP}){{7}}|(?=[\dA-Fa-f:]{{0,39}}\d)(?:{_GROUPS})?::{_GROUPS})(?![\w:])", _ip
    ),
    rule(rf"(?:(?<=[\w.], )|(?<=[a-z] )(?!ID))({'|'.join(_STATES)}) (\d{{5}})(?:-(\d{{4}}))?(?![\w-])", _state),
    rule(rf"(?<=[a-z], )(?!{_MAY_BE_WORDS})({'|'.join(_STATES)})(?=[,.;)]|\s*\Z)", _state),
    rule(  # "350 W 42nd St", "5 W. Main St"
        r"\b(\d{1,5} )([NSEW])\b\.?"
        r"(?=\s(?:\d{1,3}(?:st|nd|rd|th)|(?:[A-Z][a-z]+\s){1,2}(?:St|Ave|Rd|Blvd|Dr|Ln|Street|Avenue|Road))\b)",
        lambda match: match[1] + DIRECTIONS[match[2]],
    ),
    rule(
        r"\b((?:Highway|Hwy|I|Interstate|Route|Rte|US)\.?[ -]\d{1,3} )([NESW])\b(?!')",
        lambda match: match[1] + DIRECTIONS[match[2]],
    ),
)
