"""Checks that all configurations share."""

from engine.errors import InvalidConfig

# Limits with room for several times S2-Pro's sizes. A damaged config is rejected before anything of its sizes is
# allocated.
MAX_VOCABULARY = 1 << 20
MAX_CODEBOOKS = 64
_LISTED = 8  # names in an error message


def check_int(where: str, name: str, value: object, low: int, high: int) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be a whole number from {low:,} to {high:,}.")


def check_number(where: str, name: str, value: object, above: float, most: float) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is a number above `above` and at most `most`."""
    if type(value) not in (int, float) or not above < value <= most:  # type: ignore[operator]
        raise InvalidConfig(
            f"{where} has {name} = {shown(value)}; it must be a number above {above:g} and at most {most:g}."
        )


def check_flag(where: str, name: str, value: object) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is true or false."""
    if type(value) is not bool:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be true or false.")


def check_text(where: str, name: str, value: object, most: int) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is text of at most `most` characters."""
    if type(value) is not str or len(value) > most:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be text of at most {most:,} characters.")


def shown(value: object) -> str:
    """Return the `repr` of a value for an error message, cut after 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def listed(names: list[str]) -> str:
    """Join names for an error message, at most eight of them."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(name[:200] for name in names[:_LISTED]) + more
