"""Units of measure and their names."""

import re
from collections.abc import Iterable

# In any case, unless `_CASED` has them: "KG", "Mph".
_UNITS = {
    "km": "kilometers", "cm": "centimeters", "mm": "millimeters", "nm": "nanometers", "µm": "micrometers",
    "mi": "miles", "nmi": "nautical miles", "yd": "yards", "ft": "feet", "″": "inches", "m": "meters",
    "kg": "kilograms", "g": "grams", "mg": "milligrams", "mcg": "micrograms", "µg": "micrograms", "lb": "pounds",
    "lbs": "pounds", "oz": "ounces", "fl oz": "fluid ounces", "gal": "gallons", "qt": "quarts", "dl": "deciliters",
    "l": "liters", "ml": "milliliters", "µl": "microliters", "tbs": "tablespoons", "tbsp": "tablespoons",
    "tsp": "teaspoons",
    "qts": "quarts", "pkg": "packages", "mol": "moles", "mmol": "milli moles", "kcal": "kilocalories",
    "sq ft": "square feet", "sq m": "square meters", "sq mi": "square miles", "sq km": "square kilometers",
    "kph": "kilometers per hour", "mph": "miles per hour", "mpg": "miles per gallon",
    "rpm": "revolutions per minute", "bpm": "beats per minute", "fps": "frames per second",
    "dpi": "dots per inch", "ppi": "pixels per inch", "px": "pixels", "MP": "megapixels",
    "ppm": "parts per million", "ppb": "parts per billion", "psi": "pounds per square inch",
    "mmhg": "millimeters of mercury", "mbar": "millibars", "Nm": "newton meters", "hp": "horsepower",
    "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz", "db": "decibels",
    "kb": "kilobytes", "mb": "megabytes", "gb": "gigabytes", "tb": "terabytes",
    "kib": "kibi bytes", "mib": "mebi bytes", "gib": "gibi bytes", "tib": "tebi bytes",
    "kbit": "kilobits", "mbit": "megabits", "gbit": "gigabits", "tbit": "terabits", "kbps": "kilobits per second",
    "mbps": "megabits per second", "gbps": "gigabits per second",
    "kw": "kilowatts", "kwh": "kilowatt hours", "mah": "milli amp hours", "kj": "kilo joules",
    "W": "watts", "Wh": "watt hours", "V": "volts", "Ω": "ohms", "lm": "lumens", "lx": "lux",
    "°c": "degrees celsius", "°f": "degrees fahrenheit", "°": "degrees",
    "s": "seconds", "ms": "milliseconds", "µs": "microseconds", "sec": "seconds", "secs": "seconds", "min": "minutes",
    "mins": "minutes", "h": "hours", "hr": "hours", "hrs": "hours", "wk": "weeks", "wks": "weeks", "mos": "months",
    "yr": "years", "yrs": "years", "bps": "basis points", "pts": "points",
}  # fmt: skip
_PREFIXES = {"n": "nano", "p": "pico", "µ": "micro", "m": "milli", "h": "hecto", "k": "kilo", "M": "mega", "G": "giga"}
# The prefixes of units with capitals. Others make other abbreviations: "MA", "PA".
_PREFIXED = {
    "V": "nµmkM", "A": "nµmk", "Ω": "mkMG", "F": "pnµ", "W": "nµmMG", "Wh": "MG", "Pa": "hkMG", "N": "mk", "J": "mMG"
}  # fmt: skip
_FULL = {"A": "amps", "F": "farads", "Pa": "pascals", "N": "newtons", "J": "joules"} | _UNITS
_UNITS |= {prefix + unit: f"{_PREFIXES[prefix]} {_FULL[unit]}" for unit in _PREFIXED for prefix in _PREFIXED[unit]}
# In the other case these are other words: "5G", "10 M", "iPhone 5S", "2 HP laptops".
_CASED = {"m", "g", "s", "h", "ms", "hp", "lx", *(unit for unit in _UNITS if unit != unit.lower())}


def _any_of(units: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, units), key=lambda unit: (-len(unit), unit)))


UNIT = f"{_any_of(_CASED)}|(?i:{_any_of(_UNITS.keys() - _CASED)})"
PER_UNITS = {
    **{unit: unit for unit in "second minute hour day night week month year person head mile pound gallon".split()},
    "sec": "second", "min": "minute", "h": "hour", "hr": "hour", "wk": "week", "mo": "month", "yr": "year",
    "lb": "pound", "oz": "ounce", "kg": "kilogram", "km": "kilometer", "gal": "gallon", "mb": "megabyte",
    "gb": "gigabyte",
}  # fmt: skip
_PLURAL_END = re.compile(r"(?<!u)s(?= per | of | celsius| fahrenheit|$)")


def unit_name(written: str, *, one: bool) -> str:
    """Return the name of a unit that `UNIT` matches: "kg" -> "kilograms", or "kilogram" for one."""
    unit = _UNITS.get(written) or _UNITS[written.lower()]
    return _PLURAL_END.sub("", unit.replace("feet", "foot").replace("inches", "inch"), count=1) if one else unit
