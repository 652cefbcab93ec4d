"""Titles and authors in the metadata of books, without those that programs make up."""

from __future__ import annotations

import re

from storage.scripts.limits import MAX_AUTHOR
from studio.books.book_text import shortened

_NO_TITLE = re.compile(
    r"""
    (?:microsoft|ms)\s*(?:office\s*)?(?:word|powerpoint|publisher|excel)(?:\s*-.*|\sdocument)?  # … - thesis.doc
    | .*\.(?:docx?|dotx?|rtf|odt|pdf|pages|txt|html?|tex|dvi|ps|indd|qxp|qxd|pmd|fm|wpd|epub)  # names of files
    | (?:untitled|unbenannt|ohne\stitel|sans\s(?:titre|nom)|sin\st[ií]tulo|無題|名称未設定|无标题|未命名)(?:[-\s]*\d+)?
    | (?:document|dokument|documento|文書|文档|book|presentation)\s*\d*
    | title|titel|titre|t[ií]tulo|unknown
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NO_AUTHOR = re.compile(
    r"""
    (?:unknown|unbekannt|inconnu|desconocido|不明|未知)(?:\s(?:author|autor))?
    | (?:(?:microsoft\soffice|windows|default)\s)?user
    | admin(?:istrator)? | owner | author | autor | auteur | python-docx
    | .*[\\@].*  # accounts and addresses
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ACCOUNT = re.compile(r"[a-z0-9._-]+")


def plausible_title(title: str) -> str:
    """Return the title of a book; "" for none and for one that a program made up, such as "Document1"."""
    title = shortened(title)
    return title if any(map(str.isalnum, title)) and not _NO_TITLE.fullmatch(title) else ""


def plausible_author(author: str, *, may_be_account: bool) -> str:
    """Return the author of a book; "" for none and for one such as "Administrator".

    may_be_account: whether a name without a capital is that of a user's account.
    """
    author = shortened(author)[:MAX_AUTHOR]
    if not any(map(str.isalpha, author)) or _NO_AUTHOR.fullmatch(author):
        return ""
    return "" if may_be_account and _ACCOUNT.fullmatch(author) else author
