"""Tables (.csv, .tsv, or rows pasted from a spreadsheet) → paragraphs: one for each row, with its speaker."""

import csv
from collections.abc import Sequence

from engine.errors import InvalidText
from engine.text.ssml import plain_text
from storage.scripts.limits import MAX_SPEAKER
from studio.script.formats.document import Document, Paragraph
from studio.script.formats.rows import read_rows

# Titles of columns, the most telling ones first: with a column of characters, "name" may be that of a file.
_TEXTS = (
    "text line lines dialogue dialog subtitle sentence script transcript content"
    " zeile satz texto línea linea diálogo frase texte ligne réplique phrase テキスト 台詞 セリフ 文本 台词 内容"
).split()
_SPEAKERS = (
    "speaker character voice actor role name sprecher sprecherin figur rolle stimme personaje hablante voz personnage"
    " locuteur voix rôle nom 話者 キャラクター 名前 说话人 角色 人物 姓名"
).split()


def is_table(text: str) -> bool:
    """Return whether pasted text is rows of a spreadsheet, with titles for a text and a speaker."""
    titles = text.lstrip("\ufeff\r\n").split("\n", 1)[0].split("\t")
    return None not in (_column(titles, _TEXTS), _column(titles, _SPEAKERS))


def read_table(text: str) -> Document:
    """Read each row that has a text as a paragraph. Its speaker, if a column has one, is None where the cell is empty.

    Raises InvalidText for a table whose first row has no title such as "text".
    """
    try:
        titles, *rows = [row for _, row in read_rows(text)] or [[]]
    except csv.Error as error:
        raise InvalidText("cards.no_column") from error
    column, names = _column(titles, _TEXTS), _column(titles, _SPEAKERS)
    if column is None:
        raise InvalidText("cards.no_column")
    paragraphs = [
        Paragraph(" ".join(plain_text(_cell(row, column)).split()), speaker=_cell(row, names)[:MAX_SPEAKER], whole=True)
        for row in rows
    ]
    return Document(tuple(paragraph for paragraph in paragraphs if paragraph.text))


def _column(titles: Sequence[str], known: Sequence[str]) -> int | None:
    """Return the number of the column with the first of the known titles."""
    present = [title.strip().casefold() for title in titles]
    return next((present.index(title) for title in known if title in present), None)


def _cell(row: Sequence[str], column: int | None) -> str:
    return " ".join(row[column].split()) if column is not None and column < len(row) else ""
