"""Workbooks, slides and OpenDocument files, as other programs write them."""

import contextlib
import io
import zipfile

import docx
import pytest
from flexchat_rag.ingest.sections import Record, UnreadableFileError

A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
ODF = "urn:oasis:names:tc:opendocument:xmlns"


def archive(parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


def relations(*targets):
    rows = [f'<Relationship Id="r{n}" Type="{R}/{kind}" Target="{name}"/>' for n, (kind, name) in enumerate(targets)]
    return f'<Relationships xmlns="{RELATIONS}">{"".join(rows)}</Relationships>'


def xlsx(rows, strict=False):
    def cell(value):
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    parts = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{S}" xmlns:r="{R}"><sheets><sheet name="Stock" sheetId="1" r:id="r0"/></sheets></workbook>',  # noqa: E501
        "xl/_rels/workbook.xml.rels": relations(("worksheet", "worksheets/sheet1.xml")),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{S}"><sheetData>{body}</sheetData></worksheet>',
    }
    return archive({name: as_strict(part) if strict else part for name, part in parts.items()})


def as_strict(part):
    for kind in ("officeDocument", "spreadsheetml", "wordprocessingml", "drawingml", "presentationml"):
        part = part.replace(f"http://schemas.openxmlformats.org/{kind}/2006/", f"http://purl.oclc.org/ooxml/{kind}/")
    return part


@pytest.mark.parametrize("strict", [False, True])
def test_a_sheet_with_named_columns_gives_a_record_for_each_row(write, read, strict):
    rows = [["name", "price", "text"], ["Marmalade", 4.5, "bitter"], ["Honey", 7, "sweet"]]

    pieces, notes = read(write("a.xlsx", xlsx(rows, strict)))

    assert [(piece.text, piece.metadata) for piece in pieces] == [
        ("bitter", {"name": "Marmalade", "price": 4.5, "sheet": "Stock", "row": 2}),
        ("sweet", {"name": "Honey", "price": 7, "sheet": "Stock", "row": 3}),
    ]
    assert all(isinstance(piece, Record) for piece in pieces)
    assert notes == []


def test_any_other_sheet_is_text(write, read):
    (piece,), _ = read(write("a.xlsx", xlsx([["Report"], ["Sales", 42], ["", "", "note"]])))

    assert piece.text == "Report\nSales | 42\nnote"
    assert piece.headings == ("Stock",)


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods", "a.pptx", "a.odt", "a.xls"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"plain"])
def test_what_is_damaged_is_refused(write, read, name, content):
    with pytest.raises(UnreadableFileError):
        read(write(name, content))


def test_any_changed_byte_is_read_or_refused(write, read):
    """One damaged archive must not end the reading of the others."""
    content = open_document("text", "<office:text><text:p>hello</text:p></office:text>")
    for place in range(0, len(content), 4):
        for value in (255,):
            damaged = content[:place] + bytes([value]) + content[place + 1 :]
            with contextlib.suppress(UnreadableFileError):
                read(write("a.odt", damaged))


def shape(text, kind=""):
    place = f'<p:nvSpPr><p:cNvPr id="1" name="x"/><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>' if kind else ""
    return f"<p:sp>{place}<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"


def slide(inner):
    return f'<p:sld xmlns:p="{P}" xmlns:a="{A}" xmlns:r="{R}"><p:cSld><p:spTree>{inner}</p:spTree></p:cSld></p:sld>'


@pytest.mark.parametrize("strict", [False, True])
def test_slides_are_read_in_the_order_they_are_shown_in(write, read, strict):
    table = "<a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>x</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>1</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl>"  # noqa: E501
    picture = '<p:pic><p:nvPicPr><p:cNvPr id="2" name="y" descr="An orange"/></p:nvPicPr></p:pic>'
    order = '<p:sldIdLst><p:sldId id="256" r:id="r1"/><p:sldId id="257" r:id="r0"/></p:sldIdLst>'
    parts = {
        "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'<p:presentation xmlns:p="{P}" xmlns:r="{R}">{order}</p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(("slide", "slides/slide1.xml"), ("slide", "slides/slide2.xml")),
        "ppt/slides/slide1.xml": slide(shape("second slide") + table + picture + "<p:pic/>"),
        "ppt/slides/slide2.xml": slide(shape("Oranges", "title") + shape("Boil them")),
        "ppt/slides/_rels/slide2.xml.rels": relations(("notesSlide", "../notesSlides/notesSlide1.xml")),
        "ppt/notesSlides/notesSlide1.xml": slide(shape("say it slowly", "body") + shape("1", "sldNum")),
    }

    pieces, notes = read(write("a.pptx", archive({k: as_strict(v) if strict else v for k, v in parts.items()})))

    assert [(piece.headings, piece.text, piece.metadata) for piece in pieces] == [
        (("Oranges",), "Boil them\n\n[Notes: say it slowly]", {"slide": 1}),
        ((), "second slide\n\nx | 1\n\n[Picture: An orange]", {"slide": 2}),
    ]
    assert notes == ["holds what is not read: 1 picture without a text"]


def open_document(kind, body):
    spaces = " ".join(f'xmlns:{name}="{ODF}:{name}:1.0"' for name in ("office", "text", "table", "presentation"))
    spaces += f' xmlns:draw="{ODF}:drawing:1.0" xmlns:svg="{ODF}:svg-compatible:1.0"'
    spaces += ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
    content = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
    return archive({"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content})


def test_an_open_document_text_is_read_in_its_order(write, text_of):
    body = """<office:text><text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>
    <text:h text:outline-level="1">Marmalade</text:h><text:p>Boil<text:s text:c="2"/>it<text:note><text:note-citation>1
    </text:note-citation><text:note-body><text:p>slowly</text:p></text:note-body></text:note>.</text:p>
    <text:list><text:list-item><text:p>sugar</text:p></text:list-item></text:list>
    <table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell><text:p>b</text:p>
    </table:table-cell></table:table-row></table:table><text:p><office:annotation><dc:creator>Ada</dc:creator><text:p>why?</text:p>
    </office:annotation><draw:frame><draw:image/><svg:desc>A jar</svg:desc></draw:frame>end</text:p></office:text>"""

    text, notes = text_of(write("a.odt", open_document("text", body)))

    assert [line for line in text.splitlines() if line.strip()] == [
        "Marmalade", "Boil  it [note 1].", "[note 1] slowly", "- sugar", "a | b", "end", "[Comment by Ada: why?]",
        "[Picture: A jar]",
    ]  # fmt: skip
    assert notes == []


def test_open_document_slides_have_their_numbers(write, read):
    page = "<draw:page><draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame></draw:page>"
    body = f"<office:presentation>{page.format('one')}{page.format('two')}</office:presentation>"

    pieces, _ = read(write("a.odp", open_document("presentation", body)))

    assert [(piece.text, piece.metadata) for piece in pieces] == [("one", {"slide": 1}), ("two", {"slide": 2})]


def test_an_encrypted_open_document_is_refused(write, read):
    parts = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": "x"}
    parts["META-INF/manifest.xml"] = "<manifest><encryption-data/></manifest>"

    with pytest.raises(UnreadableFileError, match="needs a password"):
        read(write("a.odt", archive(parts)))


def test_entities_are_not_expanded(write, read):
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x><p>&b;</p></x>'
    parts = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": bomb}

    pieces, _ = read(write("a.odt", archive(parts)))

    assert not any("aaa" in piece.text for piece in pieces)


def test_a_strict_word_document_is_read(write, text_of):
    plain = io.BytesIO()
    document = docx.Document()
    document.add_heading("Marmalade", 1)
    document.add_paragraph("is boiled")
    document.save(plain)
    with zipfile.ZipFile(plain) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    for name, part in parts.items():
        parts[name] = as_strict(part.decode()) if name.endswith((".xml", ".rels")) else part

    text, _ = text_of(write("a.docx", archive(parts)))

    assert text == "Marmalade\nis boiled"
