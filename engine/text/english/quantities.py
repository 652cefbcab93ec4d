"""Numbers in context as words: telephone numbers, money, fractions, measures and ranges."""

import re

from engine.text.english.numbers import cardinal, digits, number, ordinal, year
from engine.text.english.rules import NUMBER, SPELL, Rule, rule, spelled

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_COUNTRIES = {
    "US": spelled("US"), "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian", "NZ": "New Zealand",
    "HK": "Hong Kong", "S": "Singapore",
}  # fmt: skip
_CODES = {
    "USD": ("US", "$"), "EUR": ("", "€"), "GBP": ("", "£"), "JPY": ("", "¥"), "INR": ("", "₹"), "AUD": ("A", "$"),
    "CAD": ("C", "$"), "NZD": ("NZ", "$"), "HKD": ("HK", "$"), "SGD": ("S", "$"),
}  # fmt: skip
_AMOUNTS = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion", "t": "trillion"}  # as in "$5M"
_UNITS = {
    "km": "kilometers", "cm": "centimeters", "mm": "millimeters", "nm": "nanometers", "mi": "miles", "yd": "yards",
    "ft": "feet", "m": "meters", "kg": "kilograms", "mg": "milligrams", "g": "grams", "lb": "pounds", "lbs": "pounds",
    "oz": "ounces", "fl oz": "fluid ounces", "ml": "milliliters", "l": "liters", "tbsp": "tablespoons",
    "tsp": "teaspoons", "km/h": "kilometers per hour", "kph": "kilometers per hour", "mph": "miles per hour",
    "m/s": "meters per second", "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz",
    "kb": "kilobytes", "mb": "megabytes", "gb": "gigabytes", "tb": "terabytes", "kbps": "kilobits per second",
    "mbps": "megabits per second", "gbps": "gigabits per second", "kw": "kilowatts", "kwh": "kilowatt hours",
    "W": "watts", "V": "volts", "mah": "milliamp hours", "db": "decibels", "kcal": "kilocalories",
    "°c": "degrees celsius", "°f": "degrees fahrenheit", "°": "degrees", "s": "seconds", "ms": "milliseconds",
    "sec": "seconds", "secs": "seconds", "min": "minutes", "mins": "minutes", "h": "hours", "hr": "hours",
    "hrs": "hours", "yr": "years", "yrs": "years", "sq ft": "square feet", "sq m": "square meters",
    "sq mi": "square miles", "sq km": "square kilometers",
    "µm": "micrometers", "µg": "micrograms", "µl": "microliters", "µs": "microseconds",
}  # fmt: skip
_CASED = ("ms", "m", "g", "s", "h", "W", "V")  # in the other case these are other words: "5G", "10 M", "iPhone 5S"
_UNIT = "|".join((*_CASED, f"(?i:{'|'.join(sorted(map(re.escape, _UNITS.keys() - _CASED), key=len, reverse=True))})"))
_LENGTH_OR_QUOTE = re.compile(
    r"(?P<feet>\b\d['′]\s?(?:1[01]|\d))[\"″]"
    r"|(?P<size>(?<![\w.,/'=+-])(?:[1-9]\d{0,2}(?:\.\d{1,3})?|(?:\d{1,2}[ -])?[1-9]/\d{1,2}))[\"″'′](?=-|\s[a-z])"
    r"|\"|(?P<opening>(?<!\w)'(?=\S))|'(?!\w)"
)
_MEASURED = re.compile(r"\s(?:above|and|apart|at|below|by|deep|from|high|in|long|of|on|or|tall|thick|to|wide|x)\b")
_PLURAL_END = re.compile(r"(?<!u)s(?= per | celsius| fahrenheit|$)")
_POWERS = {"squared": "square", "cubed": "cubic"}
_PER = {
    **{unit: unit for unit in "second minute hour day night week month year person head mile pound gallon".split()},
    "sec": "second", "min": "minute", "h": "hour", "hr": "hour", "mo": "month", "yr": "year", "lb": "pound",
    "oz": "ounce", "kg": "kilogram", "km": "kilometer", "mb": "megabyte", "gb": "gigabyte",
}  # fmt: skip

_COUNTED = (
    "customers|downloads|followers|fans|likes|members|people|players|subscribers|users|views|viewers|visitors|words"
)

_ALONE = r"(?<![\w.,:$£€¥₹-])"
_SIGN, _AMOUNT = "[$£€¥₹]", "|".join(_AMOUNTS)
_PART = r"[1-9]/(?:[2-9]|10)"


def _telephone(match: re.Match[str]) -> str:
    """Read groups of digits, with pauses between them."""
    groups = [digits(group) for group in re.findall(r"\d+", match[0])]
    return ("plus " if match[0].startswith("+") else "") + ", ".join(groups)


def _international(match: re.Match[str]) -> str:
    return _telephone(match) if 8 <= sum(map(str.isdigit, match[0])) <= 15 else match[0]


def _money(match: re.Match[str]) -> str:
    one, many, cent, cents = CURRENCIES[match[2]]
    if match[1]:
        one, many = (f"{_COUNTRIES[match[1]]} {name}" for name in (one, many))
    amount, scale = match[3].replace(",", ""), match[5] or _AMOUNTS.get((match[6] or "").lower())
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


def _part(fraction: str) -> str:
    over, under = map(int, fraction.split("/"))
    name = {2: "half", 4: "quarter"}.get(under) or ordinal(under)
    return f"{cardinal(over)} {name if over == 1 else 'halves' if under == 2 else f'{name}s'}"


def _fraction(match: re.Match[str]) -> str:
    return f"{number(match[1])} and {_part(match[2])}" if match[1] else _part(match[2])


def _feet(match: re.Match[str]) -> str:
    return f"{match[1] or match[3]} foot {match[2] or match[4]}"


def _measure(match: re.Match[str]) -> str:
    written, power = match[2], match[3]
    unit = _UNITS.get(written) or _UNITS[written.lower()]
    if power:
        unit = f"{unit} {power}" if "/" in written else f"{_POWERS[power]} {unit}"
    if match[1] == "1":
        unit = _PLURAL_END.sub("", unit.replace("feet", "foot"), count=1)
    return f"{match[1]} {unit}"


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
            return f"{size} {many if size != '1' and _MEASURED.match(match.string, match.end()) else one}"
        is_open[mark] = bool(match["opening"]) if mark == "'" else not is_open.get(mark)
        return match[0]

    return _LENGTH_OR_QUOTE.sub(read, text)


TELEPHONES: tuple[Rule, ...] = (
    # No telephone number, but a large one with spaces: "1 000 000".
    rule(
        r"(?<![\w.,-])(?<!\d )(?:[1-9]\d?(?: \d{3}){2,}|[1-9]\d{0,2}(?: 000)+)(?![\w-]| \d)",
        lambda match: match[0].replace(" ", ""),
    ),
    rule(r"(?<![\w.])\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,5}(?!\w)", _international),
    rule(r"(?<![\w.,-])(?:1[-. ])?(?:\(\d{3}\)\s?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])", _telephone),
    # Without an area code. Other numbers of three and four digits may be ranges: "150-1200", "476-1453".
    rule(rf"{_ALONE}(?:555-\d{{4}}|[2-9]\d\d-(?:0\d{{3}}|[3-9]\d\d[1-9]))(?![\w-]|[.,]\d)", _telephone),
    rule(rf"{_ALONE}0\d{{2,4}}(?: \d{{3,4}}){{1,2}}(?!\w)", _telephone),
    rule(rf"{_ALONE}\d+(?:-\d+){{2,}}(?![\w-])", _telephone),  # other identifiers, such as ISBNs, and "1-2-3"
    rule(r"(?i)\b((?:call|dial)(?:ed|led|ing|ling|s)? )(911|999|988|112|311|411)\b", lambda m: m[1] + digits(m[2])),
)
MONEY: tuple[Rule, ...] = (
    rule(  # as written in most of Europe: "€1.234,56"
        rf"({_SIGN}\s?)?(?<![\w.,])(\d{{1,3}}(?:\.\d{{3}})+),(\d\d)\b(?!\d)",
        lambda match: f"{match[1] or ''}{match[2].replace('.', '')}.{match[3]}",
    ),
    rule(r"((?:€|\bEUR)\s?)?(?<![\w.,])(\d+),(\d\d)\b(?![.,]?\d)(?(1)|(?=\s?(?:€|EUR\b)))", r"\1\2.\3"),
    rule(rf"{_ALONE}({NUMBER})\s?({_SIGN})(?![\w]|\s?\d)", r"\2\1"),  # "5 €"
    rule(rf"\b({'|'.join(_CODES)})\s?({NUMBER})|{_ALONE}({NUMBER})\s?({'|'.join(_CODES)})\b", _code),
    rule(rf"({_SIGN})(?=\.\d)", r"\g<1>0"),
    rule(rf"({_SIGN})({NUMBER})\s?[-–]\s?({NUMBER})(?!\d)", r"\2 to \1\3"),
    rule(rf"(?i)(?<=\d)({_AMOUNT})?\s?[-–]\s?(?={_SIGN}\s?\d)", r"\1 to "),
    rule(rf"(?<![\w)])[-−](?=(?:{'|'.join(_COUNTRIES)})?{_SIGN}\d)", " minus "),
    rule(rf"({_SIGN})[-−](?=\d)", r" minus \1"),
    rule(
        rf"(?:\b({'|'.join(_COUNTRIES)}))?({_SIGN})\s?({NUMBER})(?:\s{{1,2}}({_PART})\b(?!/))?"
        rf"(?:[\s-]?(thousand|million|billion|trillion)\b|(?i:({_AMOUNT}))\b)?"
        r"((?=-[a-z]|\s(?:bill|coin|note)s?\b))?",
        _money,
    ),
    rule(
        rf"(?i)(\d|dollars?|euros?|pounds?|cents?|yen|rupees?|times?) ?/ ?({'|'.join(_PER)})\b",
        lambda match: f"{match[1]} per {_PER[match[2].lower()]}",
    ),
)
FRACTIONS: tuple[Rule, ...] = (
    rule(r"(?<=\d)\s?/\s?(?=\d[\d.,]*+\s*=)", " divided by "),
    rule(r"(?<=\d)\s?[-–]\s?(?=\d[\d.,]*+\s*=)", " minus "),
    rule(r"(?<=[\w)])\^([23])(?!\.?\d)", lambda match: " squared" if match[1] == "2" else " cubed"),
    rule(r"(?<=[\w)])\^(?=-?\d)", " to the power of "),
    rule(r"\b(?:24/7|50/50|20/20|9/11)\b", lambda match: match[0].replace("/", " ")),
    rule(r"(?<![\w.,/])(\d{1,3}\.\d{1,3})\s?/\s?(\d{1,3})\b(?!/|[.,]\d)", r"\1 out of \2"),  # ratings
    rule(rf"(?:(?<![\w.,/])(\d{{1,3}})(?:\s{{1,2}}|-))?(?<![\w.,/])({_PART})\b(?!/)", _fraction),
)
MEASURES: tuple[Rule, ...] = (
    rule(rf"(?<=\d)(\s?(?:%|{_UNIT})|[kKMB])\s?[-–]\s?(?=\d)", r"\1 to "),
    rule(
        rf"\b({NUMBER})([kKMB])(?=(?: to [\d.,]+[kKMB])?\s(?:[a-z]+\s)?(?:{_COUNTED})\b)",
        lambda match: f"{match[1]} {_AMOUNTS[match[2].lower()]}",
    ),
    rule(r"\b(\d)'\s?(1[01]|\d)\b|\b(\d+) ?(?:ft|feet)\.? (\d+) ?in\b(?:\.(?=,|\s+[a-z]))?", _feet),
    rule(rf"(?<![\w.,])({NUMBER})\s?({_UNIT})(?: (squared|cubed))?(?![\w/{SPELL}])(?:\.(?=,|\s+[a-z]))?", _measure),
)
ORDINALS: tuple[Rule, ...] = (
    rule(r"(?i)(\d(?:st|nd|rd|th))\s?[-–]\s?(?=\d+(?:st|nd|rd|th)\b)", r"\1 to "),
    rule(r"(?i)\b(\d{1,12}|\d{1,3}(?:,\d{3}){1,3})(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1].replace(",", "")))),
)
NUMBERS: tuple[Rule, ...] = (
    rule(r"(?<=[A-Za-z]-)\d[\d.]*(?:-\d[\d.]*)+", lambda match: match[0].replace("-", " ")),  # "Llama-3.1-8B"
    rule(r"(?<=\d):(?=\d)", " to "),
    rule(r"(?<=\d)\s?[-–]\s?(?=\d)", " to "),
    rule(r"(?<![\w)%°])[-−](?=\d)", " minus "),
    rule(r"(?<=\d)\s?\*\s?(?=\d)|(?<=\d) x (?=\d)", " times "),
    rule(r"(?<=\d)x(?=\d)", " by "),
    rule(r"~(?=\s?\d)", " about "),
    rule(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)", lambda match: match[0].replace(".", " dot ")),
    rule(r"(?<!\d)\d++(?:\.\d++){2,}", lambda match: match[0].replace(".", " point ")),
    rule(r"(?<![\w.])\.(?=\d)", " point "),
    rule(rf"({NUMBER})('s\b)?", lambda match: f" {_whole(match[1])}{match[2] or ''} "),
)
