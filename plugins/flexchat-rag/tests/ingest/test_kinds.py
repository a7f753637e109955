"""What a file holds decides how it is read, not its name."""

import gzip
import io
import zipfile

import docx
import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.sections import Reading, UnreadableFileError

PDF = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n"


def word():
    out = io.BytesIO()
    document = docx.Document()
    document.add_paragraph("Hello")
    document.save(out)
    return out.getvalue()


def archive(**parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in parts.items():
            file.writestr(name.replace("__", "/").replace("_", "."), content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", archive(xl__workbook_xml="x"), "workbook"),
        ("a.docx", archive(ppt__presentation_xml="x"), "PowerPoint"),
        ("a.doc", archive(mimetype="application/vnd.oasis.opendocument.text"), "OpenDocument"),
        ("a.txt", archive(mimetype="application/vnd.oasis.opendocument.spreadsheet"), "workbook"),
    ],
)
def test_office_files_are_read_whatever_they_are_named(write, name, content, kind):
    assert kind_of(write(name, content)).name == kind


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", PDF, "PDF"),
        ("a.html", PDF, "PDF"),
        ("a.md", PDF, "PDF"),
        ("a.docx", PDF, "PDF"),
        ("a.doc", word(), "DOCX"),
        ("a.txt", word(), "DOCX"),
        ("a.pdf", word(), "DOCX"),
        ("a.txt", b"<!DOCTYPE html><p>x", "HTML"),
        ("a.doc", b"\xef\xbb\xbf<html><p>x", "HTML"),
        ("a.csv", b"<!-- export --><html><table>", "HTML"),
        ("a.txt", b"<?xml version='1.0'?><!DOCTYPE html><p>x", "HTML"),
    ],
)
def test_a_file_that_is_named_otherwise_is_read_as_what_it_is_and_says_so(write, name, content, kind):
    """As downloads and mail programs leave them."""
    reading = Reading()
    assert kind_of(write(name, content), reading).name == kind
    assert reading.notes() == [f"is named .{name[2:]}, but holds {kind}, and was read as that"]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.pdf", PDF, "PDF"),
        ("a.docx", word(), "DOCX"),
        ("a.md", b"<html>in Markdown", "Markdown"),
        ("a.html", b"<!doctype html>", "HTML"),
        ("a.rst", b"the text begins: %PDF-1.4", "text"),
        ("a", b"<html>", "HTML"),
        ("a.json", b"[]", "JSON"),
        ("a.txt", b"", "text"),
        ("a.txt", b"BM is short", "text"),
        ("a.txt", b"MZ too", "text"),
    ],
)
def test_a_file_that_is_what_it_is_named_says_nothing(write, name, content, kind):
    """Text that looks a bit like something else stays text."""
    reading = Reading()
    assert kind_of(write(name, content), reading).name == kind
    assert reading.notes() == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"text", mtime=0), "a gzip archive: unpack it first"),
        (b"\x89PNG\r\n\x1a\n....", "a PNG picture: recognise its text (OCR) first"),
        (b"\xff\xd8\xff\xe0 JFIF", "a JPEG picture"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "a WebP picture"),
        (b"\x7fELF\x02\x01", "an ELF program"),
        (b"MZ\x90\0\x03\0", "a Windows program"),
        (b"{\\rtf1 text}", "a Rich Text document (RTF): save it as .docx"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "an Office file of the old kind"),
        (b"SQLite format 3\0" + bytes(84), "an SQLite database"),
        (archive(a_txt="x"), "a ZIP archive: unpack it first"),
        (b"PK\x03\x04 cut off", "a ZIP archive, and a damaged one"),
        (b"\0\0\0\x18ftypmp42", "a video or picture (MP4, HEIC)"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.html", "a"])
def test_what_nobody_reads_is_named(write, content, said, name):
    """Whatever its own name says; with what to do, where something can be done."""
    with pytest.raises(UnreadableFileError) as caught:
        kind_of(write(name, content))
    assert str(caught.value).startswith(f"is not text but {said}")
