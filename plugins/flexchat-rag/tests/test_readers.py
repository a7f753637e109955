"""What each kind of file is read as. The hostile ones are in test_hostile_files."""

import json

import docx
import pytest
from flexchat_rag.ingest.fields import FieldMapping, number_or_text
from flexchat_rag.ingest.kinds import kind_of, known_kind
from flexchat_rag.ingest.sections import Record, Section, Trouble, UnreadableFileError


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


@pytest.fixture
def write(tmp_path):
    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


def outline(pieces):
    return [(piece.headings, piece.text) for piece in pieces]


def minimal_pdf(*pages, title=""):
    """A PDF with a line of text on each page, written byte by byte."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, text in enumerate(pages):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        stream = f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET" if text else ""
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects.append(f"<< /Title ({title}) >>")
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>"
    )
    return out + f"{tail}\nstartxref\n{len(out)}\n%%EOF\n".encode()


def test_text_is_read_with_its_line(write):
    """Empty lines at the beginning do not count as its place."""
    assert read(write("a.txt", "\n\nHello\nthere\n")) == [Section(text="Hello\nthere", metadata={"line": 3})]
    assert read(write("empty.txt", "")) == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_in_other_encodings_is_read(write, encoding):
    """A mark at the beginning says the encoding; without one it is guessed."""
    text = "Die Änderung der Größe ist möglich, schöne Grüße aus München über die Brücke.\n" * 5
    (section,) = read(write("a.txt", text.encode(encoding)))
    assert section.text == text.strip()


def test_a_large_text_comes_in_parts(write):
    """No part is much larger than the buffer, and none is lost."""
    text = "".join(f"Paragraph {n} with some words.\n\n" for n in range(10_000))
    sections = read(write("a.txt", text))
    assert len(sections) > 3
    assert max(len(section.text) for section in sections) < 100_000
    assert "\n\n".join(section.text for section in sections) == text.strip()


def test_markdown_has_the_path_of_its_headings(write):
    """ATX and setext headings; a heading without text is not lost, one with headings below it is only their path."""
    path = write(
        "a.md",
        "Before.\n\n# Guide\n\nIntro.\n\n## Install #\n\n### Linux\n\nRun `pip`.\n\n## [Use](x.md) {#use}\nGo.\n\n"
        "Other\n=====\nMore.\n\n## Bare\n",
    )
    assert outline(read(path)) == [
        ((), "Before."),
        (("Guide",), "Intro."),
        (("Guide", "Install", "Linux"), "Run `pip`."),
        (("Guide", "Use"), "Go."),
        (("Other",), "More."),
        (("Other", "Bare"), "Bare"),
    ]


def test_markdown_in_fences_has_no_headings(write):
    """A comment of a shell script is no heading, nor is a rule below a list or a table one."""
    path = write(
        "a.md", "# A\n```sh\n# not a heading\n```\n~~~~\n~~~\n# nor this\n~~~~\n- item\n---\n|a|b|\n|---|---|\n"
    )
    (section,) = read(path)
    assert section.headings == ("A",)
    assert "# not a heading" in section.text
    assert "# nor this" in section.text


def test_front_matter_is_metadata(write):
    """Its title stands above all headings; a rule that is never closed is text."""
    (section,) = read(write("a.md", '---\ntitle: "Manual"\nyear: 2024\ntags: [a]\n---\n# Use\nText\n'))
    assert section.headings == ("Manual", "Use")
    assert section.metadata == {"year": 2024, "line": 7}
    assert read(write("b.md", "---\nNo front matter\n"))[0].text == "---\nNo front matter"


def test_html_is_read_without_scripts_styles_and_navigation(write):
    """Headings, blocks, lists, tables and code are kept; a page's title stands above them."""
    path = write(
        "a.html",
        "<html><head><title>Site</title><style>p{}</style></head><body><nav>Menu</nav><script>x()</script>"
        "<h1>Guide</h1><p>Some <b>bold</b>\n text.</p><ul><li>one</li><li><p>two</p></li></ul>"
        "<h2>Table</h2><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
        "<pre><code>x = 1\n  y = 2</code></pre></body></html>",
    )
    assert outline(read(path)) == [
        (("Site", "Guide"), "Some bold text.\n\n- one\n- two"),
        (("Site", "Guide", "Table"), "a | b\n1 | 2\n\n```\nx = 1\n  y = 2\n```"),
    ]


def test_html_says_its_encoding(write):
    """A page that is no UTF-8 is read as its meta element says."""
    page = '<meta charset="iso-8859-1"><p>Größe</p>'.encode("iso-8859-1")
    assert read(write("a.htm", page))[0].text == "Größe"


def test_pdf_pages_have_their_numbers(write):
    """A page without text is left out; the document's title is the heading."""
    sections = read(write("a.pdf", minimal_pdf("Hello page one", "", "Third", title="Manual")))
    assert [(s.text, dict(s.metadata)) for s in sections] == [("Hello page one", {"page": 1}), ("Third", {"page": 3})]
    assert sections[0].headings == ("Manual",)


def test_a_pdf_of_pictures_says_so(write):
    """Nothing to read is not the same as an empty file."""
    with pytest.raises(UnreadableFileError, match="OCR"):
        read(write("a.pdf", minimal_pdf("", "")))


def test_an_encrypted_pdf_says_so(write, tmp_path):
    """A password is not asked for."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(write("plain.pdf", minimal_pdf("secret"))))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(tmp_path / "a.pdf")
    with pytest.raises(UnreadableFileError, match="encrypted"):
        read(tmp_path / "a.pdf")


def test_docx_headings_lists_and_tables(tmp_path):
    """Styles say what a heading is; a table's row is a line."""
    document = docx.Document()
    document.add_heading("Manual", 0)
    document.add_heading("Install", 1)
    document.add_paragraph("First.")
    document.add_paragraph("item", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip((c for row in table.rows for c in row.cells), "abcd", strict=True):
        cell.text = text
    document.add_heading("Linux", 2)
    document.add_paragraph("Second.")
    document.save(tmp_path / "a.docx")
    assert outline(read(tmp_path / "a.docx")) == [
        (("Manual", "Install"), "First.\n\n- item\na | b\nc | d"),
        (("Manual", "Install", "Linux"), "Second."),
    ]


def test_csv_rows_are_documents(write):
    """Named by the first row; a number is a number in the metadata, and "007" a text."""
    path = write("a.csv", 'name,year,code\n"Anna, B.",2024,007\n\nBert,1.5,x\n')
    first, second = read(path)
    assert first.text == "name: Anna, B.\nyear: 2024\ncode: 007"
    assert first.metadata == {"name": "Anna, B.", "year": 2024, "code": "007"}
    assert second.metadata["year"] == 1.5
    assert read(write("b.csv", "a;b\n1,5;2\n"))[0].metadata == {"a": "1,5", "b": 2}


def test_a_csv_row_with_too_many_fields_is_trouble(write):
    """The other rows are read."""
    good, bad, other = read(write("a.csv", "a,b\n1,2\n1,2,3\n4,5\n"))
    assert isinstance(good, Record)
    assert isinstance(other, Record)
    assert bad == Trouble("line 3: 3 fields, but the first line names 2")


def test_fields_are_mapped(write):
    """Text fields are joined by an empty line, lists by commas; all other fields are metadata."""
    item = {"h": "T", "a": "one", "b": ["x", {"y": 1}], "k": 0, "u": "http://x", "n": None, "lang": "en", "deep": {}}
    path = write("a.json", json.dumps([item]))
    (record,) = read(path, text_fields=("a", "b"), title_field="h", source_field="u", id_field="k")
    assert record == Record(text='one\n\nx, {"y":1}', id="0", title="T", source="http://x", metadata={"lang": "en"})
    (record,) = read(path, text_fields=("a",), metadata_fields=("deep", "n", "lang"))
    assert record.metadata == {"deep": "{}", "lang": "en"}


def test_a_record_without_its_text_fields_is_trouble(write):
    """It names the fields that are there."""
    path = write("a.jsonl", '{"body": "x"}\n{"text": "  "}\n')
    missing, empty = read(path, text_fields=("text",))
    assert missing == Trouble("line 1: there is no field 'text' (there are: body)")
    assert empty == Trouble("line 2: no text in 'text'")


def test_json_is_a_list_or_an_object(write):
    """Texts in a list are documents; an object is one."""
    assert [r.text for r in read(write("a.json", '[{"text": "a"}, "b", 3]'))[:2]] == ["a", "b"]
    assert read(write("b.json", '{"text": "a", "year": 3}')) == [Record(text="a", metadata={"year": 3})]
    assert read(write("c.json", "[]")) == []


def test_a_json_list_is_read_across_blocks(write):
    """Wherever a block of the file ends, each record is read as a whole."""
    items = [{"text": "x" * n, "n": n} for n in range(1, 900)]
    assert [r.metadata["n"] for r in read(write("a.json", json.dumps(items, indent=1)))] == [*range(1, 900)]


@pytest.mark.parametrize("content", ["", "{", "[1", '[{"text": "a"} {}]', '{"a": 1} {"a": 2}', "[NaN]", "nonsense"])
def test_broken_json_says_where(write, content):
    """The error names a line, and never shows a traceback."""
    with pytest.raises(UnreadableFileError, match="line 1"):
        read(write("a.json", content))


def test_a_broken_line_leaves_the_others(write):
    """Each line that cannot be read is told with its number."""
    path = write("a.jsonl", '{"text": "a"}\n{"text": \n\n[1]\n{"text": "b"} x\n{"text": "c"}\n')
    pieces = read(path)
    assert [piece.text for piece in pieces if isinstance(piece, Record)] == ["a", "c"]
    assert [piece.text.split(":")[0] for piece in pieces if isinstance(piece, Trouble)] == [
        "line 2",
        "line 4",
        "line 5",
    ]


def test_an_exported_document_is_taken_as_it_is(write):
    """The five keys of rag export, and no mapping."""
    exported = {"id": "i", "title": "T", "text": "x" * 5000, "source": "a.md", "metadata": {"deep": [1]}}
    (record,) = read(write("a.jsonl", json.dumps(exported)))
    assert record == Record(id="i", title="T", text="x" * 5000, source="a.md", metadata={"deep": [1]}, whole=True)


def test_numbers_are_those_written_the_usual_way():
    """What would change when written again stays text."""
    read_as = {"5": 5, "-3": -3, "0": 0, "1.5": 1.5, "007": "007", "1.50": "1.50", "1e5": "1e5", "nan": "nan", "": ""}
    assert {text: number_or_text(text) for text in read_as} == read_as


def test_the_name_says_the_kind(tmp_path):
    """Unknown ones are read as text if they are named; those of other programs are refused with advice."""
    assert known_kind(tmp_path / "A.MD").name == "Markdown"
    assert known_kind(tmp_path / "a.py") is None
    for name in ("a.py", "a.doc"):
        (tmp_path / name).touch()
    assert kind_of(tmp_path / "a.py").name == "text"
    with pytest.raises(UnreadableFileError, match=r"save it as \.docx"):
        kind_of(tmp_path / "a.doc")
