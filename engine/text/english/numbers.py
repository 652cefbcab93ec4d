"""Numbers as words."""

_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
_MAX_DIGITS = 15  # longer numbers are read digit by digit
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth",
    "eight": "eighth", "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50}


def cardinal(number: int) -> str:
    """Spell out a whole number: 1234 -> "one thousand two hundred thirty four"."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f" {_ONES[number % 10]}" if number % 10 else "")
    size, name = next(scale for scale in _SCALES if number >= scale[0])
    rest = number % size
    return f"{cardinal(number // size)} {name}" + (f" {cardinal(rest)}" if rest else "")


def ordinal(number: int) -> str:
    """Spell out the ordinal of a whole number: 21 -> "twenty first"."""
    head, _, last = cardinal(number).rpartition(" ")
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{head} {_ORDINALS.get(last, regular)}".strip()


def year(number: int) -> str:
    """Read a four-digit number as a year: 1984 -> "nineteen eighty four", 2007 -> "two thousand seven"."""
    century, rest = divmod(number, 100)
    if century % 10 == 0 and rest < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {oh(rest)}"


def oh(number: int) -> str:
    """Read two digits after others, as the minutes of a time: 5 -> "oh five", 15 -> "fifteen"."""
    return f"oh {_ONES[number]}" if number < 10 else cardinal(number)


def digits(text: str) -> str:
    """Read digit by digit: "007" -> "zero zero seven"."""
    return " ".join(_ONES[int(digit)] for digit in text)


def number(text: str) -> str:
    """Spell out a number, with or without thousands separators and decimals."""
    whole, _, fraction = text.replace(",", "").partition(".")
    by_digits = len(whole) > _MAX_DIGITS or (len(whole) > 1 and whole[0] == "0")
    spoken_whole = digits(whole) if by_digits else cardinal(int(whole))
    return f"{spoken_whole} point {digits(fraction)}" if fraction else spoken_whole


def roman(numeral: str) -> int:
    """Return the value of a Roman numeral below 90: "XIV" -> 14."""
    values = [_ROMAN[letter] for letter in numeral]
    return sum(-here if here < following else here for here, following in zip(values, [*values[1:], 0], strict=True))


def plural(words: str) -> str:
    """Return the plural of a number: "nineteen ninety" -> "nineteen nineties"."""
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}es" if words.endswith("x") else f"{words}s"
