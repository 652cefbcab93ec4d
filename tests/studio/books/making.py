"""Minimal books in each format."""

import io
import zipfile
from collections.abc import Mapping, Sequence

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from PIL import Image
from pypdf import PdfReader, PdfWriter

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def archive(files: Mapping[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return file.getvalue()


def epub(
    documents: Sequence[str],
    titles: Sequence[str] = (),
    title: str = "A Book",
    items: str = "",
    metadata: str = "",
    **more: str | bytes,
) -> bytes:
    """documents: XHTML bodies, in order. titles: entries of the table of contents for the first documents.

    items, metadata: further ones of the package. more: further files, or others in place of those made here.
    """
    names = [f"part {number}.xhtml" for number in range(len(documents))]
    items += "".join(f'<item id="i{at}" href="part%20{at}.xhtml" media-type="x"/>' for at in range(len(names)))
    spine = "".join(f'<itemref idref="i{at}"/>' for at in range(len(names)))
    package = (
        '<?xml version="1.0" encoding="utf-8"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title>'
        f"{metadata}</metadata>"
        f'<manifest><item id="nav" href="nav.xhtml" properties="nav" media-type="x"/>{items}</manifest>'
        f"<spine>{spine}</spine></package>"
    )
    links = "".join(f'<li><a href="part%20{at}.xhtml#x">{title}</a></li>' for at, title in enumerate(titles))
    pages = {
        f"OEBPS/{name}": f'<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"'
        f' xmlns:epub="http://www.idpf.org/2007/ops"><head><title>T</title></head><body>{body}</body></html>'
        for name, body in zip(names, documents, strict=True)
    }
    nav = f"<html><body><nav><ol>{links}</ol></nav></body></html>"
    first = {"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package, "OEBPS/nav.xhtml": nav}
    return archive({**first, **pages, **more})


def picture(format: str = "PNG", width: int = 300, height: int = 400, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height), "teal").save(file, format)
    return file.getvalue()


def word(
    parts: Sequence[tuple[str, str]], title: str | None = "A Document", xml: str = "", author: str = "python-docx"
) -> bytes:
    """parts: (style, text) of each paragraph. title: None for a document without properties.

    xml: further elements of the body, in the namespace `w`.
    """
    document = docx.Document()
    if title is None:
        rels = document.part.package.rels
        del rels[next(key for key, each in rels.items() if each.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES)]
    else:
        document.core_properties.title, document.core_properties.author = title, author
    for style, text in parts:
        document.add_paragraph(text, style)
    for element in parse_xml(f"<w:body {nsdecls('w')}>{xml}</w:body>"):
        document.element.body.append(element)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def pdf(
    pages: Sequence[Sequence[str]],
    outline: Mapping[str, int] | None = None,
    password: str = "",
    above: str = "",
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """pages: lines of each page, in Latin-1. outline: page numbers by title. above: the entry that holds those."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects += [f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    objects += ["<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"]
    for at, lines in enumerate(pages):
        font = "/Resources << /Font << /F 3 0 R >> >>"
        page = f"/Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * at} 0 R {font}"
        objects.append(f"<< /Type /Page {page} >>")
        text = "BT /F 12 Tf 50 750 Td 15 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        objects += [f"<< /Length {len(text)} >>\nstream\n{text}\nendstream"]
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF"
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode("latin-1")
    if not outline and not password and not metadata:
        return data
    writer, file = PdfWriter(clone_from=PdfReader(io.BytesIO(data))), io.BytesIO()
    top = writer.add_outline_item(above, 0) if above else None
    for entry, number in (outline or {}).items():
        writer.add_outline_item(entry, number, parent=top)
    writer.add_metadata(dict(metadata or {}))
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(file)
    return file.getvalue()
