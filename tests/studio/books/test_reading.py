"""Books are read as scripts with chapters; hostile files raise an error within bounds of memory and time."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import docx
import pytest
import regex
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml.ns import nsdecls
from PIL import Image

from engine.errors import InvalidInput, InvalidText
from storage.scripts.limits import MAX_CHAPTER
from studio.books import reading
from studio.books.book_text import MAX_PART, BookText, Unreadable, paragraphs_of, shortened
from studio.books.extract import READERS
from studio.books.html_blocks import _is_left_out, _name
from studio.books.markup import parse_html
from studio.books.metadata import plausible_author, plausible_title
from studio.books.pdf import _without_edges
from studio.books.reading import Book, book_kind, read_book
from studio.pictures.covers import make_cover
from studio.script.formats.document import HEADING_PAUSE, PARAGRAPH_PAUSE, SECTION_PAUSE
from tests.studio.books.making import CONTAINER, archive, epub, pdf, picture, word
from tests.support.linear import assert_linear

BOMB = "<p>" + " " * (MAX_PART + 1) + "</p>"
ENTITIES = '<!DOCTYPE x [<!ENTITY a "' + "ha" * 500 + '"><!ENTITY b "' + "&a;" * 1000 + '">]>'
ENCRYPTION = (
    '<encryption xmlns="urn:x"><EncryptedData><CipherData><CipherReference URI="OEBPS/part%200.xhtml"/></CipherData>'
    "</EncryptedData></encryption>"
)


def read(tmp_path: Path, data: bytes, name: str = "book") -> BookText:
    """Read the book in this process; the separate process is tested below."""
    path = tmp_path / name
    path.write_bytes(data)
    kind = book_kind(path)
    assert kind is not None
    return READERS[kind](path)


def texts(book: BookText) -> list[tuple[str, str | None]]:
    return [(block.text, block.chapter) for block in book.blocks]


def test_epub_chapters_follow_its_table_of_contents(tmp_path: Path) -> None:
    first = """<section><h2>1</h2><p>It was <em>so</em> quiet&nbsp;there,<sup epub:type="noteref">1</sup>
      caf&#233;.</p><!-- not this --><p>Line<br/>two.</p><script>no()</script></section>"""
    second = "<div>Loose <b>words</b><p>A &lt;p&gt;.</p>and more</div><ul><li>One</li><li>Two</li></ul>"
    book = read(tmp_path, epub([first, second, "<h1>Only a heading</h1><p>End.</p>"], ["The Beginning", "A &amp; B"]))
    assert book.title == "A Book"
    assert texts(book) == [
        ("1", "The Beginning"),
        ("It was so quiet there, café.", None),
        ("Line two.", None),
        ("Loose words", "A & B"),
        ("A <p>.", None),
        ("and more", None),
        ("One", None),
        ("Two", None),
        ("Only a heading", "Only a heading"),
        ("End.", None),
    ]


def test_page_numbers_marks_of_notes_and_hidden_text_of_an_epub_are_not_read(tmp_path: Path) -> None:
    page = """<p>So <span class="pagenum"><a id="p5">[Pg 5]</a></span>quiet,<a class="fnanchor" href="#n1">[1]</a> and
      <span epub:type="pagebreak" title="6">6</span>still.<sup><a href="#n2">2</a></sup> <a href="#n3"><sup>*</sup></a>
      </p><p hidden="hidden">Not this.</p><p style="color: red; display: none">Nor.</p><p role="doc-pagebreak">7</p>
      <p>10<sup>2</sup> is <a href="#x">100</a><sup>th</sup>.</p>
      <h2 class="pagebreak">I</h2><div class="page-break">It is 1<sup>1</sup>/<sub>2</sub>.</div>"""
    assert texts(read(tmp_path, epub([page]))) == [
        ("So quiet, and still.", None),
        ("10² is 100th.", None),
        ("I", "I"),
        ("It is 1 1/2.", None),
    ]


@pytest.mark.parametrize(
    ("style", "is_read"),
    [
        (".x { display: none }", False),
        ("/* a { */ @charset 'utf-8'; p, SPAN.x,.y {\n color: red;\n VISIBILITY : hidden }", False),
        ("i.x { display: none } .xx { display: none } #x, p .x { display: none }", True),
        ("@media print { .x { display: none } } @media amzn-kf8 { .a { } .x { display: none } }", True),
        (".x { display: none } body .x { display: inline }", True),
        (".x { display: none", True),
        (".x { -webkit-backface-visibility: hidden; backface-visibility: hidden }", True),
        (".x { display: none } .x { backface-visibility: visible }", False),
        (".x { display: none } /* .x { display: block }", False),
    ],
)
@pytest.mark.parametrize("is_linked", [False, True])
def test_text_of_classes_that_style_sheets_hide_is_not_read(
    tmp_path: Path, style: str, is_read: bool, is_linked: bool
) -> None:
    link = '<link rel="stylesheet" href="../css/a%20b.css"/><link rel="stylesheet" href="missing.css"/>'
    head = link if is_linked else f"<style>{style}</style>"
    page = f'{head}<p>One <span class="y x">two</span> three.</p>'
    text = "One two three." if is_read else "One three."
    assert texts(read(tmp_path, epub([page] * 2, **{"css/a b.css": style}))) == [(text, None)] * 2


@pytest.mark.parametrize("sheet", ["/*" * 500_000, ".x{" * 300_000, "." * 1_000_000, ".x{display:none}" * 60_000])
def test_style_sheets_are_read_in_linear_time(tmp_path: Path, sheet: str) -> None:
    assert len(texts(read(tmp_path, epub([f"<p>One.</p><style>{sheet}</style>"])))) == 1


def test_notes_that_readers_show_on_demand_are_not_read(tmp_path: Path) -> None:
    page = """<p>So quiet.<a epub:type="noteref" href="#n1">1</a></p><aside epub:type="footnote" id="n1"><p>Not this.
      </p></aside><aside role="doc-footnote">Nor.</aside><aside>A box.</aside><p>Still.</p>"""
    assert texts(read(tmp_path, epub([page]))) == [("So quiet.", None), ("A box.", None), ("Still.", None)]


def test_links_to_notes_and_back_are_not_read(tmp_path: Path) -> None:
    page = """<p>So quiet<a href="notes.xhtml#n1">[1]</a><a href="#n2">[*]</a>, see <a href="http://x.org/">[2]</a> and
      <a href="#c">Chapter 3</a>.</p><p><a href="#r1">[1]</a> A note. <a role="doc-backlink" href="#r1">Back</a></p>"""
    assert texts(read(tmp_path, epub([page]))) == [("So quiet, see [2] and Chapter 3.", None), ("A note.", None)]


@pytest.mark.parametrize(
    "mark",
    ["_idFootnoteLink _idGenColorInherit", "_idEndnoteLink", "sdfootnoteanc", "MsoFootnoteReference", "footnote-ref"],
)
def test_note_marks_of_programs_are_not_read(tmp_path: Path, mark: str) -> None:
    page = f"""<p>So quiet<span><a class="{mark}" href="notes.xml#n6">6</a></span> <i class="{mark}">and</i> so on.</p>
      <p><a class="_idFootnoteAnchor" href="#b6">6</a> A note.</p>"""
    assert texts(read(tmp_path, epub([page]))) == [("So quiet and so on.", None), ("A note.", None)]


def test_raised_numbers_are_marks_of_notes_if_they_are_links(tmp_path: Path) -> None:
    page = """<p>So<sup><span><a href="#n1">12</a></span></sup> quiet<a href="#n2"><span><sup>3</sup></span></a>
      <a id="x">10<sup>2</sup>, 10<sup>–3</sup></a>.</p>"""
    assert texts(read(tmp_path, epub([page]))) == [("So quiet 10², 10⁻³.", None)]


def test_paragraphs_that_are_divided_by_line_ends(tmp_path: Path) -> None:
    page = """<h1>One<br/><br/>Rain</h1>It was night.<br/>A long<br/>night.<br/>“Who?”<br/><br/><i>No one.</i>
      <p>A verse,<br/>A rhyme.<br/>The end<br/>&#160;<br/><a id="x"></a>Of it.</p>
      <div>雨が降る。<br/>「誰？」<br/></div>"""
    read_as = ["One Rain", "It was night.", "A long night.", "“Who?”", "No one.", "A verse, A rhyme. The end", "Of it."]
    assert [text for text, _ in texts(read(tmp_path, epub([page])))] == [*read_as, "雨が降る。", "「誰？」"]


def test_variables_and_numbers_of_formulas_are_read(tmp_path: Path) -> None:
    equation = "<m:semantics><m:mrow><m:mi>n</m:mi><m:mo>=</m:mo><m:mn>2</m:mn></m:mrow><m:annotation>no</m:annotation>"
    power = "<math><msup><mi>x</mi><mn>2</mn></msup></math>"
    page = f"<p>Let <math><mi>x</mi></math> be <m:math>{equation}</m:semantics></m:math>, or {power}.</p>"
    assert texts(read(tmp_path, epub([page]))) == [("Let x be n=2, or .", None)]


def test_text_that_is_not_for_speech_is_not_read(tmp_path: Path) -> None:
    page = """<p aria-hidden="true">11</p><h1><span class="sr-only">Chapter 11, </span>Late</h1>
      <p><span aria-label="Once"><span aria-hidden="true">Once</span></span> <span aria-hidden="false">upon</span> a</p>
      <svg:svg><svg:text>No</svg:text></svg:svg>"""
    assert [text for text, _ in texts(read(tmp_path, epub([page])))] == ["Chapter 11, Late", "Once upon a"]


def test_items_of_ordered_lists_have_their_numbers(tmp_path: Path) -> None:
    page = """<ol><li>One<ul><li>A</li></ul></li><li><p>Two.</p><p>More of it.</p></li><li></li><li value="7">Seven</li>
      <li>8. Eight</li><li>2 eggs</li><li>1.5 pounds</li><li>(11) More</li></ol><p>Text.</p>
      <ol start="0"><li>Zero</li></ol><ol type="a"><li>First</li></ol>
      <ol style="list-style-type: none"><li>Plain</li></ol><ol reversed=""><li>Last</li></ol>"""
    items = "1. One|A|2. Two.|More of it.|7. Seven|8. Eight|9. 2 eggs|10. 1.5 pounds|(11) More"
    others = "Text.|0. Zero|First|Plain|Last"
    assert [text for text, _ in texts(read(tmp_path, epub([page])))] == f"{items}|{others}".split("|")


def test_pictures_of_letters_are_letters(tmp_path: Path) -> None:
    """Initials, and ideographs that fonts do not have."""
    page = """<p><img alt="O" src="o.png"/>nce <img alt="A" src="a.png"/> upon</p>
      <p><span class="initial"><img alt=" T " src="t.png"/></span>here. <img alt="A cat" src="c.png"/>end.</p>
      <div><img alt="W" src="w.png"/></div><p>When.</p>
      <p><ruby><rb><img alt="喰" src="k.png"/></rb><rt>く</rt></ruby>い殺され<img alt="蝟" src="h.png"/>、</p>"""
    read_as = ["Once upon", "There. end.", "When.", "喰い殺され蝟、"]
    assert [text for text, _ in texts(read(tmp_path, epub([page])))] == read_as


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8", "iso-8859-1"])
def test_epub_documents_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    name = encoding[:6] if encoding.startswith("utf-16") else encoding
    page = f'<?xml version="1.0" encoding="{name}"?><html><body><p>Élan, café</p></body></html>'
    mark = "\ufeff" if encoding.startswith("utf") else ""
    files: dict[str, Any] = {"OEBPS/part 0.xhtml": (mark + page).encode(encoding)}
    book = read(tmp_path, epub([""], **files))
    assert texts(book) == [("Élan, café", None)]


@pytest.mark.parametrize(
    ("head", "encoding", "text"),
    [
        ('<?xml version="1.0" encoding="iso-8859-1"?><html>', "cp1252", "“It’s” – Élan…"),
        (
            '<html><head><meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS"/></head>',
            "cp932",
            "髙い①",
        ),
        ('<?xml version="1.0" encoding="gb2312"?><html>', "gb18030", "镕"),
        ('<html><head><meta charset="windows-1251"/></head>', "cp1251", "Да"),
        ('<html><head><meta charset="iso-8859-1"/></head>', "utf-8", "Élan"),
        ('<?xml version="1.0" encoding="utf-16"?><html>', "utf-8", "Élan"),
        ('<?xml version="1.0" encoding="none-such"?><html>', "utf-8", "Élan"),
    ],
)
def test_epub_documents_in_encodings_as_browsers_understand_them(
    tmp_path: Path, head: str, encoding: str, text: str
) -> None:
    files: dict[str, Any] = {"OEBPS/part 0.xhtml": f"{head}<body><p>{text}</p></body></html>".encode(encoding)}
    assert texts(read(tmp_path, epub([""], **files))) == [(text, None)]


def test_titles_have_only_characters(tmp_path: Path) -> None:
    data = pdf([["Some text of the first page."], ["More of it."]], {"Ch\0ap\ufffeter\x07 \ue000One": 0, "\0\0": 1})
    assert texts(read(tmp_path, data))[0][1] == "Chapter One"
    assert texts(read(tmp_path, data))[1][1] is None
    assert shortened("\0A\ufeff  \ud800Book\n\x1f") == "A Book"
    assert shortened("\0" * MAX_CHAPTER + "End") == "End"


NAV = """<nav epub:type="page-list"><ol><li><a href="part%201.xhtml#page9">9</a></li></ol></nav>
    <nav epub:type="toc"><ol>
    <li><a href="part%200.xhtml">Emma</a><ol><li><a href="part%200.xhtml#c1">A</a>
    <ol><li><a href="part%200.xhtml#s1">Too deep</a></li></ol></li><li><a href="part%200.xhtml#c2">B</a></li></ol></li>
    <li><a href="part%201.xhtml#c3">C</a></li></ol></nav>"""
NCX = regex.sub(
    r'<a href="(.*?)">(.*?)</a>',
    r'<navLabel><text>\2</text></navLabel><content src="\1"/>',
    NAV.partition('<nav epub:type="toc">')[2]
    .replace("</nav>", "")
    .replace("<li>", "<navPoint>")
    .replace("</li>", "</navPoint>"),
)


@pytest.mark.parametrize("kind", ["nav", "ncx"])
def test_epub_document_with_several_chapters(tmp_path: Path, kind: str) -> None:
    """As those of Project Gutenberg: a document contains chapters, and a chapter continues in the next document."""
    first = """<h1>Emma</h1><div id="c1"><h2>I</h2><p>One.</p><h3 id="s1">Aside</h3></div><a name="c2"></a><h2>II</h2>
        <p>Two.</p>"""
    second = '<p><img id="page9"/>More of two.</p><h2 id="c3">III</h2><p>Three.</p>'
    files = {"OEBPS/nav.xhtml": f"<html><body>{NAV}</body></html>"}
    if kind == "ncx":
        files = {"OEBPS/nav.xhtml": "<html></html>", "OEBPS/toc.ncx": f"<ncx><navMap>{NCX}</navMap></ncx>"}
    items = '<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    assert texts(read(tmp_path, epub([first, second], items=items, **files))) == [
        ("Emma", "Emma"), ("I", "A"), ("One.", None), ("Aside", None), ("II", "B"), ("Two.", None),
        ("More of two.", None), ("III", "C"), ("Three.", None),
    ]  # fmt: skip


def test_word_chapters_follow_its_headings(tmp_path: Path) -> None:
    parts = [
        ("Title", "My Life"),
        ("Normal", "Hello."),
        ("Heading 1", "One"),
        ("Heading 2", "A part"),
        ("Normal", "Yes."),
    ]
    book = read(tmp_path, word(parts))
    assert book.title == "A Document"
    assert texts(book) == [
        ("My Life", "My Life"), ("Hello.", None), ("One", "One"), ("A part", None), ("Yes.", None),
        ("left, right", None),
    ]  # fmt: skip


@pytest.mark.parametrize("style", ["toc 1", "TOC Heading", "Contents 2"])
def test_word_contents_are_not_read(tmp_path: Path, style: str) -> None:
    document, file = docx.Document(), io.BytesIO()
    if style not in document.styles:
        document.styles.add_style(style, WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("Chapter One 7", style)
    document.add_paragraph("Hello.")
    document.save(file)
    assert texts(read(tmp_path, file.getvalue())) == [("Hello.", None)]


def test_word_document_without_properties_has_no_title(tmp_path: Path) -> None:
    book = read(tmp_path, word([("Normal", "Hello.")], title=None))
    assert (book.title, texts(book)[0]) == ("", ("Hello.", None))


AUTHORS = """<dc:creator id="a">Neil
  Gaiman</dc:creator><meta refines="#a" property="role">aut</meta><dc:creator id="b">Terry Pratchett</dc:creator>
  <dc:creator id="c">Paul Kidby</dc:creator><meta refines="#c" property="role" scheme="marc:relators">ill</meta>"""
EDITOR = '<dc:creator xmlns:opf="http://www.idpf.org/2007/opf" opf:role="edt">Ann Editor</dc:creator>'


@pytest.mark.parametrize(
    ("metadata", "author"),
    [("", ""), (AUTHORS, "Neil Gaiman & Terry Pratchett"), (EDITOR, "Ann Editor")],
)
def test_authors_of_an_epub(tmp_path: Path, metadata: str, author: str) -> None:
    assert read(tmp_path, epub(["<p>Hello.</p>"], metadata=metadata)).author == author


def test_author_of_a_document_and_of_a_pdf(tmp_path: Path) -> None:
    book = read(tmp_path, word([("Normal", "Hello.")], "Essays", author="Ann Writer"))
    assert (book.title, book.author) == ("Essays", "Ann Writer")
    book = read(tmp_path, pdf([["Hello."]], metadata={"/Title": "Essays", "/Author": "Ann Writer"}))
    assert (book.title, book.author) == ("Essays", "Ann Writer")


@pytest.mark.parametrize(
    ("title", "plausible"),
    [
        *((title, True) for title in ("Emma", "1984", "Untitled Grammarians", "Document of Hope", "吾輩は猫である")),
        *((title, True) for title in ("Microsoft Excel 2019 Bible", "Microsoft Word for Dummies")),
        *((title, False) for title in ("", " ", "…", "Microsoft Word - thesis.doc", "untitled", "Untitled-1")),
        *((title, False) for title in ("Microsoft Word Document", "Microsoft PowerPoint", "MS Word-Dokument")),
        *((title, False) for title in ("thesis_final.DOCX", "Document1", "Title", "Dokument 2", "无标题")),
    ],
)  # fmt: skip
def test_titles_that_programs_make_up_are_left_out(title: str, plausible: bool) -> None:
    assert plausible_title(title) == (title if plausible else "")


@pytest.mark.parametrize(
    ("author", "plausible", "as_account"),
    [
        *((author, True, True) for author in ("Jane Austen", "Voltaire", "bell hooks", "夏目漱石", "Anonymous")),
        *((author, False, False) for author in ("", "-", "Unknown", "Administrator", "Microsoft Office User")),
        *((author, False, False) for author in ("COMPANY\\ann", "ann@example.com", "Author", "python-docx")),
        ("exurb1a", True, False),
    ],
)  # fmt: skip
def test_authors_that_are_accounts_are_left_out(author: str, plausible: bool, as_account: bool) -> None:
    assert plausible_author(author, may_be_account=False) == (author if plausible else "")
    assert plausible_author(author, may_be_account=True) == (author if as_account else "")


COVER_ITEM = '<item id="pic" href="art/c%20over.png" media-type="image/png"{}/>'
COVER_PAGE = '<item id="pic" href="cover.xhtml" media-type="application/xhtml+xml"/>'
COVER_META = '<meta name="cover" content="pic"/>'


@pytest.mark.parametrize(
    ("items", "metadata", "found"),
    [
        (COVER_ITEM.format(' properties="cover-image"'), "", True),
        (COVER_ITEM.format(""), COVER_META, True),
        (COVER_ITEM.format(""), "", False),
        ('<item id="pic" href="gone.png" media-type="image/png" properties="cover-image"/>', "", False),
        (COVER_ITEM.format(""), '<meta name="cover" content="art/c%20over.png"/>', True),
        (COVER_PAGE, COVER_META, True),
        (COVER_PAGE, '<guide><reference type="cover" href="cover.xhtml"/></guide>', True),
        ('<item id="pic" href="nav.xhtml"/>', COVER_META, False),
    ],
)
def test_cover_of_an_epub(tmp_path: Path, items: str, metadata: str, found: bool) -> None:
    page = '<html><body><svg><image xlink:href="art/c%20over.png"/></svg></body></html>'
    files: dict[str, Any] = {"OEBPS/art/c over.png": picture(), "OEBPS/cover.xhtml": page}
    book = read(tmp_path, epub(["<p>Hello.</p>"], items=items, metadata=metadata, **files))
    assert book.cover == (picture() if found else b"")


@pytest.mark.parametrize(("format", "mode"), [("PNG", "RGBA"), ("GIF", "P"), ("WEBP", "RGB"), ("JPEG", "CMYK")])
def test_covers_are_small_jpegs(format: str, mode: str) -> None:
    with Image.open(io.BytesIO(make_cover(picture(format, 1500, 900, mode)))) as cover:
        assert (cover.format, cover.mode, cover.size) == ("JPEG", "RGB", (1000, 600))


def test_cover_is_turned_upright_and_its_background_is_white() -> None:
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.new("RGBA", (40, 20), (0, 0, 0, 0)).save(file, "PNG", exif=exif)
    with Image.open(io.BytesIO(make_cover(file.getvalue()))) as cover:
        assert (cover.size, cover.getpixel((0, 0)), dict(cover.getexif())) == ((20, 40), (255, 255, 255), {})


@pytest.mark.parametrize("data", [b"", b"hello", picture()[:60], picture("BMP")])
def test_pictures_that_cannot_be_read_are_no_covers(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a picture"):
        make_cover(data)


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def control(content: str, properties: str = "") -> str:
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def row(*cells: str) -> str:
    return f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"


FORMULA = f"<m:oMath {nsdecls('m')}><m:r><m:t>{{}}</m:t></m:r></m:oMath>"
POWER = "</m:t></m:r><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e></m:sSup><m:r><m:t>"
DELETED_END = "<w:pPr><w:rPr><w:del/></w:rPr></w:pPr>"
NOT_HIDDEN, SUPERSCRIPT = '<w:vanish w:val="0"/>', '<w:vertAlign w:val="superscript"/>'
CONTENTS = '<w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj>'
YES, NO = f"<w:p>{run('Yes')}</w:p>", f"<w:p>{run('No')}</w:p>"
IN = f"<w:p>{run('In')}"
OLD_BOX = (
    '<w:r><w:pict><v:textbox xmlns:v="urn:schemas-microsoft-com:vml"><w:txbxContent>{0}</w:txbxContent></v:textbox>'
    "</w:pict></w:r>"
)
BOX = (
    '<w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice'
    ' Requires="wps"><w:drawing><wps:txbx xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape">'
    "<w:txbxContent>{0}</w:txbxContent></wps:txbx></w:drawing></mc:Choice>"
    f"<mc:Fallback>{OLD_BOX}</mc:Fallback></mc:AlternateContent></w:r>"
)


@pytest.mark.parametrize(
    ("xml", "read_as"),
    [
        (f"<w:p>{run('It is ')}<w:ins>{run('very ')}</w:ins>{run('cold.')}</w:p>", ["It is very cold."]),
        (f"<w:p>{run('It is')}<w:del><w:r><w:delText> very</w:delText></w:r></w:del>{run('.')}</w:p>", ["It is."]),
        (f"<w:p>{DELETED_END}{run('It is ')}</w:p><w:p>{run('cold.')}</w:p>{YES}", ["It is cold.", "Yes"]),
        (f"{YES}<w:p>{DELETED_END}<w:del><w:r><w:delText>No</w:delText></w:r></w:del></w:p>{NO}", ["Yes", "No"]),
        (f"<w:p>{DELETED_END}{run('The end')}</w:p>", ["The end"]),
        (f"<w:p>{run('Yes')}<w:moveFrom>{run(' and no')}</w:moveFrom>{run('.')}</w:p>", ["Yes."]),
        (f"<w:p>{run('Dear ')}{control(run('Anna'))}{run('.')}</w:p>", ["Dear Anna."]),
        (control(YES + control(NO)), ["Yes", "No"]),
        (f"<w:p>{run('In ')}<w:smartTag>{run('Oslo')}</w:smartTag>{run('.')}</w:p>", ["In Oslo."]),
        (f"<w:tbl>{row(YES, YES, NO)}</w:tbl>", ["Yes, Yes, No"]),
        (f"<w:tbl>{row(f'<w:tbl>{row(YES, NO)}{row(NO)}</w:tbl><w:p/>', YES)}</w:tbl>", ["Yes, No No, Yes"]),
        ("<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>A</w:t><w:br/><w:t>b</w:t></w:r></w:p>", ["A b"]),
        (control(YES, CONTENTS) + control(YES, "<w:showingPlcHdr/>") + NO, ["No"]),
        (
            f"<w:p><w:r><w:ruby><w:rt>{run('かんじ')}</w:rt><w:rubyBase>{run('漢字')}</w:rubyBase></w:ruby></w:r></w:p>",
            ["漢字"],
        ),
        (f"<w:p>{run('Shown ')}{run('and not ', '<w:vanish/>')}{run('text.', NOT_HIDDEN)}</w:p>", ["Shown text."]),
        (f"<w:p>{run('Let ')}{FORMULA.format('x')}{run(' be.')}</w:p>", ["Let x be."]),
        (f"<w:p>{run('Let it be')}{FORMULA.format(POWER)}{run('.')}</w:p>", ["Let it be."]),
        (f"<w:p>{run('It is ')}{BOX.format(YES + NO)}{run('cold.')}</w:p>{NO}", ["It is cold.", "Yes", "No", "No"]),
        (f"<w:p>{OLD_BOX.format(f'<w:tbl>{row(YES, NO)}</w:tbl>')}</w:p>", ["Yes, No"]),
        (f"<w:p>{BOX.format(IN + BOX.format(YES) + '</w:p>')}</w:p>", ["In", "Yes"]),
        (f"<w:tbl>{row(f'{IN}{BOX.format(YES)}</w:p>', NO)}</w:tbl>", ["In, No", "Yes"]),
        (f"<w:p>{run('Not')}<w:del>{BOX.format(YES)}</w:del></w:p>", ["Not"]),
        (f"<w:p>{run('10')}{run('2', SUPERSCRIPT)}{run(', the 1')}{run('st', SUPERSCRIPT)}</w:p>", ["10², the 1st"]),
    ],
)  # fmt: skip
def test_word_text_is_that_of_the_final_version(tmp_path: Path, xml: str, read_as: list[str]) -> None:
    book = read(tmp_path, word([], xml=xml))
    assert [text for text, _ in texts(book)] == ["left, right", *read_as]


def test_word_document_in_the_strict_form_of_the_format(tmp_path: Path) -> None:
    usual = word(
        [("Heading 1", "One"), ("Normal", "It is cold.")], xml=f"<w:p>{run('10')}{run('2', SUPERSCRIPT)}</w:p>"
    )
    strict = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(usual)) as read_from, zipfile.ZipFile(strict, "w") as written:
        for name in read_from.namelist():
            data = read_from.read(name)
            for part in ("officeDocument", "wordprocessingml", "drawingml"):
                data = data.replace(
                    f"schemas.openxmlformats.org/{part}/2006".encode(), f"purl.oclc.org/ooxml/{part}".encode()
                )
            written.writestr(name, data)
    books = [read(tmp_path, data) for data in (usual, strict.getvalue())]
    assert texts(books[0]) == texts(books[1])
    assert (books[1].title, texts(books[1])[0]) == ("A Document", ("One", "One"))


def test_pdf_paragraphs_span_pages_without_headers_and_numbers(tmp_path: Path) -> None:
    pages = [
        ["A Running Head", "Chapter One", "", "It was a dark and stormy night, and the rain", "fell in tor-", "1"],
        ["A Running Head", "rents.", "Next paragraph of this book, which goes on over", "two lines here.", "2"],
        ["A Running Head", "The second chapter begins on this page, you see.", "3"],
    ]
    book = read(tmp_path, pdf(pages, {"One": 0, "Two": 2}))
    assert texts(book) == [
        ("Chapter One", "One"),
        ("It was a dark and stormy night, and the rain fell in torrents.", None),
        ("Next paragraph of this book, which goes on over two lines here.", None),
        ("The second chapter begins on this page, you see.", "Two"),
    ]


@pytest.mark.parametrize(
    ("lines", "paragraph"),
    [
        (("A very dif-", "ficult, long-", "term problem"), "A very difficult, long-term problem"),
        (("my mother-in-", "law, pre-", "and post-war"), "my mother-in-law, pre- and post-war"),
        (("今天天气很好，我们一起", "去公园散步。"), "今天天气很好，我们一起去公园散步。"),
    ],
)
def test_lines_are_joined_like_those_of_texts(lines: tuple[str, ...], paragraph: str) -> None:
    assert list(paragraphs_of(iter(lines), width=12)) == [paragraph]


def test_lines_of_ornaments_are_paragraphs() -> None:
    lines = ["The end of a scene in", "a full line of text.", "* * *", "a new", "scene", "◇", "Another", "“", "—end—"]
    paragraphs = ["The end of a scene in a full line of text.", "* * *", "a new scene", "◇", "Another “ —end—"]
    assert list(paragraphs_of(iter(lines), width=20)) == paragraphs


def test_pdf_chapters_begin_at_their_titles(tmp_path: Path) -> None:
    pages = [
        [
            "1 The Rain",
            "It rained all day long, and nobody in the whole town",
            "left the house, because the street had",
        ],
        [
            "become a river by noon, as it had in the year before.",
            "2",
            "The River",
            "It was wide and very deep.",
            "3. Home",
        ],
        ["CHAPTER FOUR", "At Home", "It was the last house of the street, and it was dry."],
        ["It has no title of its own, but it is in the outline."],
    ]
    outline = {"1. The Rain": 0, "The River": 1, "3 Home": 1, "Not here": 1, "At home": 2, "Afterword": 3}
    assert texts(read(tmp_path, pdf(pages, outline))) == [
        ("1 The Rain", "1. The Rain"),
        (" ".join((*pages[0][1:], pages[1][0])), None),
        ("2", "The River"),
        ("The River", None),
        ("It was wide and very deep.", None),
        ("3. Home", "3 Home"),
        ("CHAPTER FOUR", "At home"),
        ("At Home", None),
        ("It was the last house of the street, and it was dry.", None),
        ("It has no title of its own, but it is in the outline.", "Afterword"),
    ]  # fmt: skip


def test_pdf_chapters_are_below_a_single_entry(tmp_path: Path) -> None:
    data = pdf([["A Book"], ["It was night."], ["It was day."]], {"One": 1, "Two": 2}, above="A Book")
    assert [chapter for _, chapter in texts(read(tmp_path, data))] == [None, "One", "Two"]


WORDS = "one two three four five six seven eight nine ten eleven twelve".split()


@pytest.mark.parametrize("head", ["{title}", "{title}  {number}", "{number}|{title}"])
def test_pdf_running_heads_of_chapters_are_left_out(tmp_path: Path, head: str) -> None:
    """They are on the odd pages of each chapter only. The titles themselves are kept."""
    pages: list[list[str]] = []
    for number, name in enumerate(WORDS, 1):
        title = "Beginning" if number <= 6 else "Ending"
        heads = head.format(title=title, number=number).split("|") if number % 2 else [f"{number}"]
        first = [title] if number in (1, 7) else heads
        pages.append([*first, f"Page {name} has this line, which goes on over", f"the whole page, number {name}."])
    book = read(tmp_path, pdf(pages, {"Beginning": 0, "Ending": 6}))
    paragraphs = [(" ".join(lines[-2:]), None) for lines in pages]
    assert texts(book) == [
        ("Beginning", "Beginning"), *paragraphs[:6], ("Ending", "Ending"), *paragraphs[6:],
    ]  # fmt: skip


@pytest.mark.parametrize("above", [[], ["CHAPTER"]])
def test_pdf_running_head_above_its_chapters_title_is_left_out(tmp_path: Path, above: list[str]) -> None:
    pages = [["The Rain", f"Page {name} has this line, which goes on over", f"it, number {name}."] for name in WORDS]
    pages[0] = ["The Rain", *above, "The Rain", *pages[0][1:]]
    book = read(tmp_path, pdf(pages, {"The Rain": 0}))
    assert [text for text, _ in texts(book)] == [*above, "The Rain", *(" ".join(page[-2:]) for page in pages)]
    assert texts(book)[0][1] == "The Rain"


def test_pdf_names_of_speakers_at_edges_are_kept(tmp_path: Path) -> None:
    pages = [[f"Word {name}.", "HAMLET", f"Line {name}.", "HAMLET", f"More {name}."] for name in WORDS]
    for at in range(3, 8):
        pages[at] = ["HAMLET", *pages[at]]
    text = " ".join(text for text, _ in texts(read(tmp_path, pdf(pages))))
    assert text.count("HAMLET") == 29


def test_pdf_sentences_repeated_at_edges_of_pages_are_kept(tmp_path: Path) -> None:
    """Such as refrains, which a running head is not."""
    pages = [[f"This is page {name} of the song.", f"It has a line, number {name}."] for name in WORDS]
    for at in (3, 4):
        pages[at] += ["And still the rain came down."]
    text = " ".join(text for text, _ in texts(read(tmp_path, pdf(pages))))
    assert text.count("rain") == 2


@pytest.mark.parametrize("mark", ["\n", "1"])
@pytest.mark.parametrize("around", ["{}x", "x{}", "{}x1"])
def test_pdf_edges_of_pages_are_found_in_linear_time(mark: str, around: str) -> None:
    def page(size: int) -> list[list[str]]:
        return [around.format(mark * size).split("\n")]

    assert_linear(lambda pages: _without_edges(pages, {0: ["A Title"]}), page, 40_000, limit=2.0)


@pytest.mark.parametrize("nest", ["<sup>", '<span class="pagenum">'])
def test_nested_marks_of_an_epub_are_found_in_linear_time(nest: str) -> None:
    def make(size: int) -> bytes:
        return f"<p>{nest * 200}{'<i>1</i>' * size}</p>".encode()

    def look(document: bytes) -> None:
        for element in parse_html(document).iter():
            _is_left_out(element, _name(element))

    assert_linear(look, make, 20_000, limit=2.0)


def test_pdf_roman_numbers_of_a_preface_are_left_out(tmp_path: Path) -> None:
    numbers = ("vii", "viii", "- ix -", "x", "xi")
    pages = [[f"This is page {name} of the preface."] for name in WORDS[:5]]
    text = "c " + " ".join(lines[0] for lines in pages)
    pages = [[*lines, number] for lines, number in zip(pages, numbers, strict=True)]
    pages[0] = ["c", *pages[0]]
    assert " ".join(text for text, _ in texts(read(tmp_path, pdf(pages)))) == text


@pytest.mark.parametrize("style", ["{}", "- {} -", "Page {}.", "{} / 300"])
def test_pdf_numbers_that_are_text_are_kept(tmp_path: Path, style: str) -> None:
    """Page numbers go with those of the pages nearby; a year at the edge of a page does not."""
    pages = [
        ["4", "This chapter begins here, and it was in the year", "1984.", style.format(11)],
        ["2 or 3 years went by before anybody wrote the next book.", "", style.format(12)],
        [],
        [style.format(14), "2001", "was the next one of these years, I am quite sure of it."],
        ["And all of this ended in", "2024.", style.format(15)],
        ["The last page has no number of its own, and it ends in", "3.10.2024"],
    ]
    pages = [[*lines, "2025-01-31"] for lines in pages]
    assert " ".join(text for text, _ in texts(read(tmp_path, pdf(pages)))) == (
        "4 This chapter begins here, and it was in the year 1984. "
        "2 or 3 years went by before anybody wrote the next book. "
        "2001 was the next one of these years, I am quite sure of it. And all of this ended in 2024. "
        "The last page has no number of its own, and it ends in 3.10.2024"
    )


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: b"%PDF-1.4 and nothing more", "damaged"),
        (lambda: pdf([["Secret."]], password="x"), "encrypted"),
        (lambda: pdf([[], []]), "scanned"),
        (lambda: epub(["<p>Hello.</p>"])[:-200], "damaged"),
        (lambda: epub([BOMB]), "too_large"),
        (lambda: epub(["<p>Hello.</p>"], **{"META-INF/encryption.xml": ENCRYPTION}), "encrypted"),
        (lambda: archive({"META-INF/container.xml": CONTAINER}), "damaged"),
        (lambda: archive({"META-INF/container.xml": "<broken"}), "damaged"),
        (lambda: archive({"META-INF/container.xml": ENTITIES + "<x>&b;&b;</x>"}), "damaged"),
        (lambda: archive({"word/document.xml": "<x/>"}), "damaged"),
        (lambda: archive({"word/document.xml": BOMB}), "too_large"),
    ],
)
def test_hostile_files_raise_specific_errors(tmp_path: Path, make: Callable[[], bytes], key: str) -> None:
    with pytest.raises(Unreadable) as error:
        read(tmp_path, make(), "book.epub")
    assert error.value.key == f"books.{key}"


def test_long_and_deeply_nested_books(tmp_path: Path) -> None:
    deep = read(tmp_path, epub(["<div>" * 5_000 + "Deep." + "</div>" * 5_000]))
    assert "Deep." in " ".join(block.text for block in deep.blocks) or deep.blocks == []
    with pytest.raises(Unreadable, match="too_long"):
        BookText().add("x" * 5_000_001)


def extracted(tmp_path: Path, **answer: Any) -> Book:
    with mock.patch.object(reading, "_extracted", return_value={"author": "", "cover": "", **answer}):
        return read_book(tmp_path, "pdf")


def test_chapters_pause_longer_and_long_books_are_split(tmp_path: Path) -> None:
    blocks = [{"text": f"Chapter {number}.", "chapter": f"C{number}"} for number in range(3)]
    (script,) = extracted(tmp_path, title="B", blocks=[blocks[0], {"text": "Yes.", "chapter": None}, blocks[1]]).scripts
    assert [(card.text, card.pause, card.chapter) for card in script.cards] == [
        ("Chapter 0.", HEADING_PAUSE, "C0"), ("Yes.", SECTION_PAUSE, None),
        ("Chapter 1.", HEADING_PAUSE, "C1"),
    ]  # fmt: skip
    with mock.patch.object(reading, "MAX_PARAGRAPHS", 4):
        long = [part for block in blocks for part in (block, *[{"text": "More.", "chapter": None}] * 2)]
        scripts = extracted(tmp_path, title="B", blocks=long).scripts
    assert [script.cards[0].chapter for script in scripts] == ["C0", "C1", "C2"]
    assert [len(script.cards) for script in scripts] == [3, 3, 3]
    assert scripts[0].cards[1].pause == PARAGRAPH_PAUSE
    for wordless in ([], [{"text": "* * *", "chapter": None}]):
        with pytest.raises(InvalidText, match="no words to say in this book"):
            extracted(tmp_path, title="B", blocks=wordless)


@pytest.mark.parametrize("separator", ["* * *", "*", "#", "⁂", "＊　＊　＊", "◇", "~ • ~", "———"])
def test_separators_of_scenes_are_pauses(tmp_path: Path, separator: str) -> None:
    lines = [(separator, "One"), ("One.", None), (separator, None), ("Two.", None), ("“…”", None), (separator, "Two")]
    blocks = [{"text": text, "chapter": chapter} for text, chapter in [*lines, ("Three.", None), (separator, None)]]
    (script,) = extracted(tmp_path, title="B", blocks=blocks).scripts
    assert [(card.text, card.pause, card.chapter) for card in script.cards] == [
        ("One.", SECTION_PAUSE, "One"), ("Two. “…”", SECTION_PAUSE, None), ("Three.", SECTION_PAUSE, "Two"),
    ]  # fmt: skip


def test_rules_between_scenes_of_an_epub_are_separators(tmp_path: Path) -> None:
    page = '<hr/><p id="x">One.</p><hr class="break"/><p>Two.</p><hr hidden=""/><p>Three.</p>'
    path = tmp_path / "book.epub"
    path.write_bytes(epub([page], ["A"]))
    cards = read_book(path, "epub").scripts[0].cards
    assert [(card.text, card.pause, card.chapter) for card in cards] == [
        ("One.", SECTION_PAUSE, "A"), ("Two.", PARAGRAPH_PAUSE, None), ("Three.", PARAGRAPH_PAUSE, None),
    ]  # fmt: skip


@pytest.mark.parametrize("style", ["{}: {}", "{} (aside): {}", "{}. {}"])
def test_speakers_of_a_play(tmp_path: Path, style: str) -> None:
    said = [("ANNA", "Hello."), ("BEN", "Hi."), ("ANNA", "Well?"), ("BEN", "Well.")]
    blocks = [
        {"text": "Act 1: A room", "chapter": "Act 1: A room"},
        {"text": "Ann and Ben are in bed.", "chapter": None},
    ]
    blocks += [{"text": style.format(*line), "chapter": None} for line in said]
    (script,) = extracted(tmp_path, title="B", blocks=blocks).scripts
    speakers = [card.speaker for card in script.cards]
    assert speakers == [None, None, "ANNA", "BEN", "ANNA", "BEN"]
    assert script.cards[-1].text == ("[aside] Well." if "aside" in style else "Well.")
    assert script.cards[0].chapter == "Act 1: A room"


def test_remarks_of_a_book_are_text(tmp_path: Path) -> None:
    lines = ["Example: a cat.", "It sleeps.", "It eats.", "Example: a dog.", "It barks."]
    (script,) = extracted(tmp_path, title="B", blocks=[{"text": line, "chapter": None} for line in lines]).scripts
    assert script.speakers == ()


def test_ornament_after_the_last_full_part_is_left_out(tmp_path: Path) -> None:
    blocks = [{"text": text, "chapter": None} for text in ("One.", "Two.", "…")]
    with mock.patch.object(reading, "MAX_PARAGRAPHS", 2):
        (script,) = extracted(tmp_path, title="B", blocks=blocks).scripts
    assert [card.text for card in script.cards] == ["One.", "Two."]


def test_book_is_read_in_a_bounded_process(tmp_path: Path) -> None:
    path = tmp_path / "book"
    named: dict[str, Any] = {"items": COVER_ITEM.format(' properties="cover-image"'), "metadata": AUTHORS}
    named["OEBPS/art/c over.png"] = picture()
    path.write_bytes(epub(["<p>Hello.</p>"], ["One"], **named))
    book = read_book(path, "epub")
    assert (book.title, [card.text for card in book.scripts[0].cards]) == ("A Book", ["Hello."])
    assert book.scripts[0].author == "Neil Gaiman & Terry Pratchett"
    assert Image.open(io.BytesIO(book.cover)).size == (300, 400)
    named["OEBPS/art/c over.png"] = b"no picture"
    path.write_bytes(epub(["<p>Hello.</p>"], **named))
    assert read_book(path, "epub").cover == b""
    path.write_bytes(b"PK nothing")
    assert book_kind(path) is None
    with pytest.raises(InvalidText, match="damaged"):
        read_book(path, "epub")
    with mock.patch.object(reading, "SECONDS", 0.01), pytest.raises(InvalidText, match="too much memory or time"):
        read_book(path, "epub")


@pytest.mark.parametrize("comment", [b"", b"A comment."])
def test_members_of_a_long_directory_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comment: bytes
) -> None:
    """A ZIP file of 44 MB can list a million members, which takes ten seconds and 360 MB."""
    path = tmp_path / "book"
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("META-INF/container.xml", CONTAINER)
        book.comment = comment
    assert book_kind(path) == "epub"
    monkeypatch.setattr(reading, "MAX_DIRECTORY", 50)
    assert book_kind(path) is None
    assert book_kind(path.rename(tmp_path / "book.epub")) == "epub"
