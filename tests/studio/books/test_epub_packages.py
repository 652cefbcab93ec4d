"""EPUBs as programs make them: names of files, spines and tables of contents that are not as the specification says."""

from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from tests.studio.books.making import CONTAINER, archive, epub, picture
from tests.studio.books.test_reading import read, texts

PAGE = "<html><body><p>Hello.</p></body></html>"
NCX = '<item id="n" href="toc.ncx" media-type="{}"/>'
POINT = '<navPoint><navLabel><text>{}</text></navLabel><content src="part%20{}.xhtml"/></navPoint>'


def package(href: str, items: str = "", spine: str = "") -> str:
    return (
        f'<package><metadata/><manifest><item id="a" href="{href}"/>{items}</manifest>'
        f'<spine>{spine}<itemref idref="a"/></spine></package>'
    )


@pytest.mark.parametrize(
    ("name", "href"),
    [
        ("OEBPS/a b.xhtml", "a%20b.xhtml"),
        ("OEBPS/a b.xhtml", "a b.xhtml"),
        ("OEBPS/a%20b.xhtml", "a%20b.xhtml"),
        ("OEBPS/100%.xhtml", "100%.xhtml"),
        (normalize("NFD", "OEBPS/é.xhtml"), "%C3%A9.xhtml"),
        ("oebps/Part.XHTML", "part.xhtml"),
        ("OEBPS\\part.xhtml", "part.xhtml"),
        ("OEBPS/part.xhtml", "/OEBPS/part.xhtml"),
        ("part.xhtml", "../part.xhtml"),
    ],
)
def test_names_of_files_in_links_and_archives(tmp_path: Path, name: str, href: str) -> None:
    files = {"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package(href), name: PAGE}
    assert texts(read(tmp_path, archive(files))) == [("Hello.", None)]


@pytest.mark.parametrize(
    ("container", "opf"),
    [
        ("META-INF/container.xml", "./OEBPS/book.opf"),
        ("META-INF/container.xml", "/OEBPS/book.opf"),
        ("META-INF/container.xml", "OEBPS/my%20book.opf"),
        ("META-INF/container.xml", "OEBPS/missing.opf"),
        ("META-INF\\container.xml", "OEBPS/book.opf"),
        ("A Book/META-INF/container.xml", "OEBPS/book.opf"),
        ("mimetype", "OEBPS/book.opf"),
    ],
)
def test_package_is_found(tmp_path: Path, container: str, opf: str) -> None:
    folder = container.rpartition("META-INF")[0]
    files = {
        container: CONTAINER.replace("OEBPS/book.opf", opf),
        f"__MACOSX/{folder}OEBPS/._book.opf": "x",
        f"{folder}OEBPS/{'my book' if 'my' in opf else 'book'}.opf": package("part.xhtml"),
        f"{folder}OEBPS/part.xhtml": PAGE,
    }
    assert texts(read(tmp_path, archive(files), "book.epub")) == [("Hello.", None)]


def test_pictures_of_a_spine_are_not_read(tmp_path: Path) -> None:
    items = '<item id="p" href="p.jpg" media-type="image/jpeg"/>'
    files: dict[str, str | bytes] = {"META-INF/container.xml": CONTAINER, "OEBPS/part.xhtml": PAGE}
    files |= {"OEBPS/book.opf": package("part.xhtml", items, '<itemref idref="p"/>'), "OEBPS/p.jpg": picture("JPEG")}
    assert texts(read(tmp_path, archive(files))) == [("Hello.", None)]


@pytest.mark.parametrize(("titles", "read_as"), [((), ["Hello."]), (("", "Notes"), ["A note.", "Hello."])])
def test_documents_outside_of_the_reading_order(tmp_path: Path, titles: tuple[str, ...], read_as: list[str]) -> None:
    """They are read only if the table of contents names them."""
    spine = '<itemref idref="n" linear="no"/><itemref idref="a"/>'
    items = '<item id="n" href="part%201.xhtml"/><item id="nav" href="nav.xhtml" properties="nav"/>'
    opf = package("part%200.xhtml", items).replace('<itemref idref="a"/>', spine)
    data = epub(["<p>Hello.</p>", "<p>A note.</p>"], titles, **{"OEBPS/book.opf": opf})
    assert [text for text, _ in texts(read(tmp_path, data))] == read_as


def test_book_entirely_outside_of_the_reading_order_is_read(tmp_path: Path) -> None:
    opf = package("part.xhtml").replace('idref="a"', 'idref="a" linear="no"')
    files = {"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": opf, "OEBPS/part.xhtml": PAGE}
    assert texts(read(tmp_path, archive(files))) == [("Hello.", None)]


def test_entities_of_html_in_titles(tmp_path: Path) -> None:
    title = "Salt &amp; Sand &mdash; R&B &unknown; &#233;"
    ncx = f"<ncx><navMap>{POINT.format('A&nbsp;&amp; B', 0)}</navMap></ncx>"
    files: dict[str, Any] = {"OEBPS/nav.xhtml": "<html></html>", "OEBPS/toc.ncx": ncx}
    items = NCX.format("application/x-dtbncx+xml")
    book = read(tmp_path, epub(["<p>Hello.</p>"], title=title, items=items, metadata="", **files))
    assert (book.title, texts(book)) == ("Salt & Sand — R&B &unknown; é", [("Hello.", "A & B")])


def test_empty_titles_of_a_book(tmp_path: Path) -> None:
    assert read(tmp_path, epub(["<p>Hello.</p>"], title="</dc:title><dc:title> A Title")).title == "A Title"


@pytest.mark.parametrize("contents", ["", "nothing", "<ncx><navMap>"])
def test_damaged_table_of_contents_is_ignored(tmp_path: Path, contents: str) -> None:
    files: dict[str, Any] = {"OEBPS/nav.xhtml": "<html></html>", "OEBPS/toc.ncx": contents}
    book = read(tmp_path, epub(["<h1>One</h1>"], items=NCX.format("application/x-dtbncx+xml"), **files))
    assert texts(book) == [("One", "One")]


def test_table_of_contents_is_known_by_its_name(tmp_path: Path) -> None:
    ncx = f"<ncx><navMap>{POINT.format('A', 0)}</navMap></ncx>"
    files: dict[str, Any] = {"OEBPS/nav.xhtml": "<html></html>", "OEBPS/toc.ncx": ncx}
    assert texts(read(tmp_path, epub(["<h1>One</h1>"], items=NCX.format("text/xml"), **files))) == [("One", "A")]


def test_titles_in_a_table_of_contents_are_read_like_text(tmp_path: Path) -> None:
    title = "第一<ruby>章<rt>しょう</rt></ruby><br/>A<span hidden=''>x</span>"
    assert texts(read(tmp_path, epub(["<p>Hello.</p>"], [title]))) == [("Hello.", "第一章 A")]


def test_chapter_of_a_document_without_text_begins_in_the_next_one(tmp_path: Path) -> None:
    documents = ["<p><img src='one.png'/></p>", "<p>Hello.</p>", "<p><img src='two.png'/></p>", "<p>Bye.</p>"]
    assert texts(read(tmp_path, epub(documents, ["One", "", "Two"]))) == [("Hello.", "One"), ("Bye.", "Two")]
