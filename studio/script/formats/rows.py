"""Rows of a spreadsheet's file: CSV, with commas, semicolons or tabs between the columns."""

import csv
import io
from collections.abc import Iterator

import regex

_DELIMITERS = ",;\t"
_SEPARATOR = regex.compile(rf"sep=([{_DELIMITERS}])\s*")  # as the first line


def read_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, with the numbers of their last lines.

    Columns are separated by the sign that is most frequent in the first line, or as a first line such as "sep=;" says.
    Raises csv.Error.
    """
    lines = list(io.StringIO(text.removeprefix("\ufeff"), newline=""))  # that end with \n, \r or \r\n
    if lines and (named := _SEPARATOR.fullmatch(lines[0])):
        delimiter, lines[0] = named[1], "\n"
    else:
        delimiter = _delimiter(next((line for line in lines if line.strip()), ""))
    reader = csv.reader(lines, delimiter=delimiter)
    stripped = ((reader.line_num, [cell.strip() for cell in row]) for row in reader)
    return ((line, row) for line, row in stripped if any(row))


def _delimiter(first: str) -> str:
    """Return the sign that is most frequent in the first line, outside quotation marks."""
    return max(_DELIMITERS, key=regex.sub(r'"[^"]*"', "", first).count)
