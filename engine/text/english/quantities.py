"""Numbers in context as words: telephone numbers, money, fractions, measures and ranges."""

import re

from engine.text.english.numbers import cardinal, digits, number, ordinal, year
from engine.text.english.rules import DIRECTIONS, NUMBER, SPELL, STOP, Rule, before, rule, spelled
from engine.text.english.units import PER_UNITS, UNIT, unit_name

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "jeon", "jeon"),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₪": ("shekel", "shekels", "agora", "agorot"),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "₺": ("lira", "lira", "kurush", "kurush"),
    "₿": ("bitcoin", "bitcoin", "cent", "cents"),
}
_COUNTRIES = {
    "US": spelled("US"), "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian", "NZ": "New Zealand",
    "HK": "Hong Kong", "S": "Singapore",
}  # fmt: skip
_CODES = {
    "USD": ("US", "$"), "EUR": ("", "€"), "GBP": ("", "£"), "JPY": ("", "¥"), "INR": ("", "₹"), "AUD": ("A", "$"),
    "CAD": ("C", "$"), "NZD": ("NZ", "$"), "HKD": ("HK", "$"), "SGD": ("S", "$"),
}  # fmt: skip
_AMOUNTS = {  # as in "$5M"
    "k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion",
    "tn": "trillion",
}  # fmt: skip
_LENGTH_OR_QUOTE = re.compile(
    r"(?P<feet>\b\d['′]\s?(?:1[01]|\d))[\"″]"
    r"|(?P<size>(?:(?<![\w.,/'=+°-])(?<!° )|(?<=['\"′″][x×]))"
    r"(?:[1-9]\d{0,2}(?:\.\d{1,3})?|(?:\d{1,2}[ -])?[1-9]/\d{1,2}))[\"″'′]"
    r"(?=-|\s?[x×]\s?\d|\s(?:[a-z\d]|[A-Z]{2}))"
    r"|\"|(?P<opening>(?<!\w)'(?=\S))|'(?!\w)"
)
_MEASURED = re.compile(
    r"\s(?:above|and|apart|at|below|by|deep|from|high|in|long|of|on|or|tall|thick|to|wide)\b|\s?[x×]"
)
_ARTICLE, _NOUN = re.compile(r"\b[Aa]n? (?:\S+ (?:or|to) )?\Z"), re.compile(r",?[\s-][a-z]")
_POWERS = {"squared": "square", "cubed": "cubic", "2": "square", "3": "cubic"}
_COUNTED = (
    "copies|customers|dollars|downloads|euros?|followers|fans|jobs|likes|members|pesos|people|players|rupees|subscribers"
    "|tonnes|users|views|viewers|visitors|words|workers|yen|yuan"
)

_SIGNS = "".join(CURRENCIES)
_ALONE = rf"(?<![\w.,:{_SIGNS}-])"
_SIGN, _AMOUNT = f"[{_SIGNS}]", "|".join(_AMOUNTS)
_SCALE = "(?:hundred|thousand|million|billion|trillion)"
_LENGTH = r"(?:(?:centi|milli)?meters?|feet|foot|inch(?:es)?|yards?)"
_PRICED = r"(\d|¢|dollars?|euros?|pounds?|cents?|yen|rupees?|times?|\b[a-z]{3,}s)"
# Others may be dates, as "3/12".
_PART = r"(?:[1-9]/(?:[2-9]|100?)|\d{1,2}/(?:32|64|16(?=[ -]inch)))"


def _telephone(match: re.Match[str]) -> str:
    """Read groups of digits, with pauses between them."""
    groups = [digits(group) for group in re.findall(r"\d+", match[0])]
    return ("plus " if match[0].startswith("+") else "") + ", ".join(groups)


def _identifier(match: re.Match[str]) -> str:
    """Read short groups as numbers: "10-2-1"."""
    groups = match[0].split("-")
    if all(len(group) < 3 and group[0] != "0" for group in groups):
        return ", ".join(cardinal(int(group)) for group in groups)
    return _telephone(match)


def _international(match: re.Match[str]) -> str:
    return _telephone(match) if 8 <= sum(map(str.isdigit, match[0])) <= 15 else match[0]


def _money(match: re.Match[str]) -> str:
    one, many, cent, cents = CURRENCIES[match[2]]
    if match[1]:
        one, many = (f"{_COUNTRIES[match[1]]} {name}" for name in (one, many))
    amount, scale = match[3].replace(",", ""), match[5] or _AMOUNTS.get((match[6] or "").lower())
    if _ARTICLE.search(before(match, 12)) and _NOUN.match(match.string, match.end()):  # "an $800 phone"
        many, cents = one, cent
    name = one if "-" in match[0] or match[7] is not None else many  # "a five dollar bill"
    whole, _, fraction = amount.partition(".")
    if scale or match[4] or len(fraction) not in (0, 2):
        part = f"and {_part(match[4])}" if match[4] else ""
        return " ".join(filter(None, (number(amount), part, scale, name)))
    if not int(fraction or "0"):
        return f"{number(whole)} {one if whole == '1' else name}"
    small = f"{cardinal(int(fraction))} {cent if int(fraction) == 1 else cents}"
    return small if whole == "0" else f"{number(whole)} {one if whole == '1' else many} and {small}"


def _code(match: re.Match[str]) -> str:
    country, sign = _CODES[match[1] or match[4]]
    return f"{country}{sign}{match[2] or match[3]}"


def _dollars(match: re.Match[str]) -> str:
    """Read an amount with a sign and a code, "$50 USD", in the currency of the code."""
    country, sign = _CODES[match[3]]
    return f"{country}{sign}{match[2]}" if sign == match[1] else match[0]


def _part(fraction: str) -> str:
    over, under = map(int, fraction.split("/"))
    name = {2: "half", 4: "quarter"}.get(under) or ordinal(under)
    return f"{cardinal(over)} {name if over == 1 else 'halves' if under == 2 else f'{name}s'}"


def _fraction(match: re.Match[str]) -> str:
    amount = f"{number(match[1])} and {_part(match[2])}" if match[1] else _part(match[2])
    return f"{amount} {unit_name(match[3], one=not match[1])}" if match[3] else amount


def _cups(match: re.Match[str]) -> str:
    return f"{match[1]} {'cup' if re.fullmatch(rf'1|{_PART}', match[1]) else 'cups'}"


def _feet(match: re.Match[str]) -> str:
    return f"{match[1] or match[3]} foot {match[2] or match[4]}"


def _coordinate(match: re.Match[str]) -> str:
    parts = zip(match.groups()[:3], ("degrees", "minutes", "seconds"), strict=True)
    return " ".join([*(f"{number} {unit}" for number, unit in parts if number), DIRECTIONS[match[4]]])


def _measure(match: re.Match[str]) -> str:
    amount, power, per = match["amount"], match["power"], match["per"]
    unit = unit_name(match["unit"], one=match["hyphen"] is not None or amount == "1")
    if per:
        unit, below = f"{unit} per", PER_UNITS.get(per.lower()) or unit_name(per, one=True)
        if match["each"]:
            below += f" per {PER_UNITS[match['each'].lower()]}"
        if power and below == "second":
            return f"{amount} {unit} second {power}"
        return f"{amount} {unit} {_power(power)}{below}"
    return f"{amount} {_power(power)}{unit}"


def _power(power: str | None) -> str:
    return f"{_POWERS[power]} " if power else ""


def _hexadecimal(match: re.Match[str]) -> str:
    return " ".join(digits(sign) if sign.isdigit() else spelled(sign) for sign in f"0X{match[1]}")


def _whole(text: str) -> str:
    plain = len(text) == 4 and text.isdigit()
    return year(int(text)) if plain and 1000 <= int(text) < 2100 else number(text)


def lengths_written(text: str) -> str:
    """Write out marks of feet and inches: those after a number and before a word, where no quotation is open."""
    is_open = {'"': False, "'": False}

    def read(match: re.Match[str]) -> str:
        size, mark = match["size"], match[0][-1]
        if match["feet"]:
            return match["feet"]
        if size and not is_open.get(mark):
            one, many = ("foot", "feet") if mark in "'′" else ("inch", "inches")
            gap = " " if match.string.startswith(("x", "×"), match.end()) else ""
            return f"{size} {many if size != '1' and _MEASURED.match(match.string, match.end()) else one}{gap}"
        is_open[mark] = bool(match["opening"]) if mark == "'" else not is_open.get(mark)
        return match[0]

    return _LENGTH_OR_QUOTE.sub(read, text)


TELEPHONES: tuple[Rule, ...] = (
    rule(r"(?<![\w.,'])\d{1,3}(?:'\d{3})+(?![\w'])", lambda match: match[0].replace("'", "")),  # as in Switzerland
    # No telephone number, but a large one with spaces: "1 000 000".
    rule(
        r"(?<![\w.,-])(?<!\d )(?:[1-9]\d?(?: \d{3}){2,}|[1-9]\d{0,2}(?: 000)+)(?![\w-]| \d)",
        lambda match: match[0].replace(" ", ""),
    ),
    rule(r"(?<![\w.])\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,5}(?!\w)", _international),
    rule(r"(?<![\w.,-])(?:1[-. ])?(?:\(\d{3}\)[\s-]?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])", _telephone),
    # Without an area code. Other numbers of three and four digits may be ranges: "150-1200", "476-1453".
    rule(rf"{_ALONE}(?:555-\d{{4}}|[2-9]\d\d-(?:0\d{{3}}|[3-9]\d\d[1-9]))(?![\w-]|[.,]\d)", _telephone),
    rule(rf"{_ALONE}0\d{{2,4}}(?: \d{{3,6}}){{1,2}}(?!\w)", _telephone),
    rule(r"(?<![\w.,-])1-(8\d\d)-(?=[\d-]*[A-Z])", r"1, \1, "),  # "1-800-FLOWERS"
    rule(rf"{_ALONE}\d{{4}}(?: \d{{4}}){{2,}}(?![\w-])", _telephone),  # cards
    rule(rf"{_ALONE}\d+(?:-\d+){{2,}}(?![\w-])", _identifier),  # other identifiers, such as ISBNs, and "1-2-3"
    rule(r"(?i)\b((?:call|dial)(?:ed|led|ing|ling|s)? )(911|999|988|112|311|411)\b", lambda m: m[1] + digits(m[2])),
)
MONEY: tuple[Rule, ...] = (
    rule(  # as written in most of Europe: "€1.234,56"
        rf"({_SIGN}\s?)?(?<![\w.,])(\d{{1,3}}(?:\.\d{{3}})+),(\d\d)\b(?!\d)",
        lambda match: f"{match[1] or ''}{match[2].replace('.', '')}.{match[3]}",
    ),
    rule(r"((?:€|\bEUR)\s?)?(?<![\w.,])(\d+),(\d\d)\b(?![.,]?\d)(?(1)|(?=\s?(?:€|EUR\b)))", r"\1\2.\3"),
    rule(  # "5-10 USD", "5-10 €"
        rf"{_ALONE}({NUMBER})\s?-\s?(?={NUMBER}\s?(?:{_SIGN}(?!\w|\s?\d)|(?:{'|'.join(_CODES)})\b))", r"\1 to "
    ),
    rule(rf"{_ALONE}({NUMBER})\s?({_SIGN})(?![\w]|\s?\d)", r"\2\1"),  # "5 €"
    rule(rf"~(?=\s?(?:{'|'.join(_COUNTRIES)})?{_SIGN}\s?\d)", " about "),
    rule(rf"({_SIGN}{NUMBER}) ?/ ?(?:each|ea)\b", r"\1 each"),
    rule(rf"({_SIGN}{NUMBER})/(?=[a-z]{{4,}}\b)", r"\1 per "),  # "$8/child"
    rule(rf"({_SIGN})\s?({NUMBER})\s?({'|'.join(_CODES)})\b", _dollars),
    rule(rf"\b({'|'.join(_CODES)})\s?({NUMBER})|{_ALONE}({NUMBER})\s?({'|'.join(_CODES)})\b", _code),
    rule(rf"({_SIGN})(?=\.\d)", r"\g<1>0"),
    rule(rf"({_SIGN})({NUMBER})\s?[-–]\s?({NUMBER})(?!\d)", r"\2 to \1\3"),
    # "$1-$2 million": the scale is that of both.
    rule(rf"({_SIGN})({NUMBER})(?=\s?[-–]\s?\1{NUMBER}(?:[\s-]?{_SCALE}|(?i:{_AMOUNT}))\b)", r"\2"),
    rule(rf"(?i)(?<=\d)({_AMOUNT})?\s?[-–]\s?(?={_SIGN}\s?\d)", r"\1 to "),
    rule(rf"(?<![\w)])[-−](?=(?:{'|'.join(_COUNTRIES)})?{_SIGN}\d)", " minus "),
    rule(rf"\bUS (?={_SIGN}\d)", "US"),
    rule(rf"({_SIGN})({'|'.join(_COUNTRIES)})\s?(?=\d)", r"\2\1"),  # as written in Australia: "$US5"
    rule(rf"\b(?!(?:{'|'.join(_COUNTRIES)}){_SIGN})([A-Za-z]+)(?={_SIGN}\d)", r"\1 "),
    rule(
        rf"(?:\b({'|'.join(_COUNTRIES)}))?({_SIGN})\s?({NUMBER})(?:\s{{1,2}}({_PART})\b(?!/))?"
        rf"(?:[\s-]?({_SCALE})\b|(?i:({_AMOUNT}))\b)?"
        r"((?=-[a-z]|\s(?:bill|coin|note)s?\b))?",
        _money,
    ),
)
PER: tuple[Rule, ...] = (
    rule(r"(?<=\d)x(?= (?:a|daily|monthly|per|weekly|yearly)\b|/(?:day|month|week|year)\b)", " times"),
    rule(r"\b(\d*[02-9]|\d*11)st\b|\b(\d{1,2})st(?=,? ?\d{1,2} ?lbs?\b)", r"\1\2 stone"),
    rule(
        rf"(?i){_PRICED} ?/ ?({'|'.join(PER_UNITS)})\b",
        lambda match: f"{match[1]} per {PER_UNITS[match[2].lower()]}",
    ),
    rule(
        rf"{_PRICED} ?/ ?(?:(sq (?:ft|k?m|mi))|(ft|[ck]?m|mi)(?: ?(squared|cubed)|\^?([23])))\b",
        lambda match: f"{match[1]} per {_power(match[4] or match[5])}{unit_name(match[2] or match[3], one=True)}",
    ),
    rule(rf"\b(?i:per) ((?i:{'|'.join(PER_UNITS)}))\b{STOP}", lambda match: f"per {PER_UNITS[match[1].lower()]}"),
)
INCHES: tuple[Rule, ...] = (
    rule(
        r"\b(\d{1,3}(?:\.\d{1,12})?)°\s?(?:(\d{1,2}(?:\.\d{1,12})?)['′]\s?)?"
        r"(?:(\d{1,2}(?:\.\d{1,12})?)(?:′′|'')?\s?)?([NSEW])\b",
        _coordinate,
    ),
    rule(rf"\b(\d)'\s?(1[01]|\d)\b|\b(\d+) ?(?:ft|feet)\.? (\d+) ?in\b{STOP}", _feet),
    rule(r"(?<=\d)([ -]?)in(?:\.(?=[,;)]|\s+[a-z])|(?=\.\s*\Z))", r"\1″"),
)
FRACTIONS: tuple[Rule, ...] = (
    rule(rf"(?<![\w.,/])((?:\d{{1,2}}[ -])?{_PART}|\d{{1,2}}) c\.(?= [a-z])", _cups),
    rule(r"(?<![\w/])(\d{2,3})/(\d{2,3})(?= ?mmHg\b)", r"\1 over \2"),
    rule(r"(?i)(\b(?:blood pressure|BP) (?:is |of |was )?)(\d{2,3})/(\d{2,3})\b", r"\1\2 over \3"),
    rule(r"\b(\d+(?:\.\d+)?)(?:e([-−]?)|E(?:\+|([-−])))(\d{1,3})\b", r"\1 times 10 to the power of \2\3\4"),
    rule(r"(?<=\d)\s?/\s?(?=\d[\d.,]*+\s*=)", " divided by "),
    rule(r"(?<=\d)\s?[-–]\s?(?=\d[\d.,]*+(?:\s*=|\)\^))", " minus "),
    rule(r"(?<=[\w)])\^([23])(?!\.?\d)", lambda match: " squared" if match[1] == "2" else " cubed"),
    rule(r"(?<=[^\W_)])\^(?=-?[^\W_])|(?<=\))\^(?=-?\d)", " to the power of "),
    rule(r"\b(?:24/7|50/50|20/20|9/11)\b", lambda match: match[0].replace("/", " ")),
    rule(r"\b(\d{1,2})/(\d{1,2})(?= time\b)", r"\1 \2"),  # of music
    rule(r"(?<![\w.,/])(\d{1,3})/\1\b(?!/|[.,]\d)", r"\1 out of \1"),
    rule(r"(?<![\w.,/])(\d{1,2}\.\d{1,3})\s?/\s?(100?|5)\b(?!/|[.,]\d)", r"\1 out of \2"),  # ratings
    rule(
        rf"(?:(?<![\w.,/])(\d{{1,3}})(?:\s{{1,2}}|-))?(?<![\w.,/])({_PART})\b(?!/)"
        rf"(?:[\s-]?({UNIT})(?![\w/{SPELL}]){STOP})?",
        _fraction,
    ),
)
MEASURES: tuple[Rule, ...] = (
    rule(  # "2m + 1", but "1h = 60 minutes"
        rf"(?<![\w.,])(\d+)([a-z])(?=\s[+=−]\s(?:\d+|[a-z])\b(?!\s?(?:{UNIT})\b|\s[a-z]{{3,}}s\b))",
        lambda match: f"{match[1]} {spelled(match[2])}",
    ),
    rule(r"\b(iPhone \d)s\b", rf"\1 S{SPELL}"),
    rule(r"(?<=\d)(\s?[kKMGT]b)(?=/s(?:ec)?\b)", r"\1it"),  # a rate of bits; that of bytes is "MB/s"
    rule(rf"(?<=\d)(\s?(?:%|{UNIT})|[kKMB])\s?[-–]\s?(?=\d)", r"\1 to "),
    rule(
        rf"\b({NUMBER})(?:([kKmMB])(?=(?: to [\d.,]+[kKmMB])?\s(?:[a-z]+\s)?(?:{_COUNTED})\b)|\s?([bmt]n)\b)",
        lambda match: f"{match[1]} {_AMOUNTS[(match[2] or match[3]).lower()]}",
    ),
    rule(
        rf"(?:(?<![\w.,])|(?<=\dx))(?<![A-Z]-)(?P<amount>(?:{NUMBER}|\.\d+)(?: {_SCALE})?)"
        rf"(?:\s|(?P<hyphen>-))?(?P<unit>{UNIT})(?:/(?P<per>{UNIT}|{'|'.join(PER_UNITS)})\b)?"
        rf"(?:(?<=[a-z])/(?P<each>(?i:{'|'.join(PER_UNITS)}))\b)?"
        rf"(?: ?(?P<power>squared|cubed|(?<=[mt])[23]))?(?![\w{SPELL}])(?:(?<=°[CFcf])|(?!/[a-z])){STOP}",
        _measure,
    ),
)
ORDINALS: tuple[Rule, ...] = (
    rule(r"(?i)(\d(?:st|nd|rd|th))\s?[-–]\s?(?=\d+(?:st|nd|rd|th)\b)", r"\1 to "),
    rule(r"(?i)\b(\d{1,12}|\d{1,3}(?:,\d{3}){1,3})(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1].replace(",", "")))),
)
NUMBERS: tuple[Rule, ...] = (
    rule(r"\+/[-−–](?=\s?\d)", " plus or minus "),
    rule(r"(?<=[A-Za-z]-)\d[\d.]*(?:-\d[\d.]*)+", lambda match: match[0].replace("-", " ")),  # "Llama-3.1-8B"
    rule(r"\b0x([\dA-Fa-f]{1,16})\b", _hexadecimal),
    rule(r"(?<=\d):(?=\d)", " to "),
    rule(r"(?<=\d)\s?[-–]\s?(?=\d)", " to "),
    rule(r"(?<![\w)%°])(?:[-−](?=\.?\d)|–(?=\d+(?:\.\d+)?\s?(?:°|degrees?\b|%)))", " minus "),
    rule(rf"\b({_LENGTH} ?)(?:x(?= ?\d)|×(?= ?\d[\d./]*[ -]{_LENGTH}\b))", r"\1 by "),
    rule(rf"(?<=\d)\s?\*\s?(?=\d)|(?<=\d) ?x ?(?=10 (?:to|squared|cubed)\b|{NUMBER} ?=)", " times "),
    rule(r"(?<=\d) ?x ?(?=\d)", " by "),
    rule(r"~(?=\s?\d)", " about "),
    rule(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)", lambda match: match[0].replace(".", " dot ")),
    rule(r"(?<!\d)\d++(?:\.\d++){2,}", lambda match: match[0].replace(".", " point ")),
    rule(r"(?<![\w.])\.(\d+)", lambda match: f" point {digits(match[1])} "),
    rule(rf"({NUMBER})('s\b)?", lambda match: f" {_whole(match[1])}{match[2] or ''} "),
)
