"""The pages of a PDF."""

import pytest
from flexchat_rag.ingest import pdf_file
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping
from flexchat_rag.ingest.sections import UnreadableFileError


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


@pytest.fixture
def write(tmp_path):
    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


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


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("the o\ufb03ce \ufb01le \ufb02ow", "the office file flow"),
        ("an exam-\nple of it", "an example\nof it"),
        ("an exam\u2010 \n ple, and", "an example,\nand"),
        ("well-\nknown and well-known", "well-known\nand well-known"),
        ("soft\u00ad\nware has soft\u00adware", "software\nhas software"),
        ("page 3-\n4 and North-\nSouth", "page 3-\n4 and North-\nSouth"),
        ("Straßen-\nbahn", "Straßenbahn\n"),
        ("- item\n- other", "- item\n- other"),
    ],
)
def test_ligatures_and_divided_words_are_read_as_words(text, readable):
    assert pdf_file.readable(text) == readable
