"""What of a PDF is read beside the text of its pages, and what is only told."""

import io

import pytest
from flexchat_rag.ingest.sections import Section, Trouble, UnreadableFileError
from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    TextStringObject,
)


def name(text):
    return NameObject(f"/{text}")


def table(**entries):
    made = DictionaryObject()
    for key, value in entries.items():
        made[name(key)] = (
            TextStringObject(value) if isinstance(value, str) and not isinstance(value, NameObject) else value
        )
    return made


@pytest.fixture
def pdf(tmp_path):
    """Write a PDF: for each page its text, its annotations, and how many pictures it shows."""

    def call(*pages, finish=lambda writer: None):
        writer = PdfWriter()
        for text, annotations, pictures in pages:
            page = writer.add_blank_page(300, 300)
            font = table(Type=name("Font"), Subtype=name("Type1"), BaseFont=name("Helvetica"))
            drawn = DictionaryObject()
            for number in range(pictures):
                image = DecodedStreamObject()
                image.set_data(b"\0")
                size = NumberObject(1)
                image.update(table(Type=name("XObject"), Subtype=name("Image"), Width=size, Height=size))
                drawn[name(f"I{number}")] = writer._add_object(image)
            page[name("Resources")] = table(Font=table(F1=font), XObject=drawn)
            stream = DecodedStreamObject()
            stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode() if text else b"")
            page[name("Contents")] = writer._add_object(stream)
            page[name("Annots")] = ArrayObject([writer._add_object(each) for each in annotations])
        finish(writer)
        out = io.BytesIO()
        writer.write(out)
        (tmp_path / "a.pdf").write_bytes(out.getvalue())
        return tmp_path / "a.pdf"

    return call


def widget(**entries):
    return table(Type=name("Annot"), Subtype=name("Widget"), **entries)


def test_filled_in_fields_stand_behind_the_text_of_their_page(pdf, read):
    """By the name people see, else the field's own; what a widget lacks, its parent has."""
    parent = table(FT=name("Tx"), T="address", V="1 Main St")
    fields = [
        widget(FT=name("Tx"), T="name", TU="Your name", V="Anna"),
        widget(FT=name("Tx"), T="empty"),
        widget(Parent=parent),
        widget(FT=name("Btn"), T="agree", V=name("Yes")),
        widget(FT=name("Btn"), T="refuse", V=name("Off")),
        widget(FT=name("Ch"), T="colours", V=ArrayObject([TextStringObject("red"), TextStringObject("blue")])),
    ]
    (section,), notes = read(pdf(("Form", fields, 0)))
    assert section.text.split("\n\n") == [
        "Form",
        "Your name: Anna",
        "address: 1 Main St",
        "agree: Yes",
        "colours: red, blue",
    ]
    assert notes == []


def test_remarks_are_read_with_their_author_and_typed_text_as_it_is(pdf, read):
    """Links and the windows of remarks say nothing of their own."""
    remarks = [
        table(Type=name("Annot"), Subtype=name("Text"), T="Bert", Contents="Is this so?"),
        table(Type=name("Annot"), Subtype=name("FreeText"), Contents="PAID"),
        table(Type=name("Annot"), Subtype=name("Popup"), Contents="Is this so?"),
        table(Type=name("Annot"), Subtype=name("Link")),
        table(Type=name("Annot"), Subtype=name("FileAttachment")),
    ]
    (section,), notes = read(pdf(("Bill", remarks, 0)))
    assert section.text == "Bill\n\n[Remark by Bert: Is this so?]\n\nPAID"
    assert notes == ["holds what is not read: 1 attached file"]


def test_pages_that_are_only_pictures_are_told_by_their_numbers(pdf, read):
    """The others are read; pictures beside text are counted."""
    pages, notes = read(pdf(("One", [], 0), ("", [], 1), ("Three", [], 2), ("", [], 1)))
    assert [section.metadata["page"] for section in pages] == [1, 3]
    assert notes == [
        "holds only a picture on pages 2, 4: recognise the text (OCR) first",
        "holds what is not read: 2 pictures",
    ]


def test_a_picture_with_a_remark_is_read_as_the_remark_and_told(pdf, read):
    """A scan somebody has written on."""
    remark = table(Type=name("Annot"), Subtype=name("FreeText"), Contents="Seen")
    pages, notes = read(pdf(("", [remark], 1)))
    assert [section.text for section in pages] == ["Seen"]
    assert notes == ["holds only a picture on page 1: recognise the text (OCR) first"]


def test_attached_files_and_dynamic_forms_are_told(pdf, read):
    """They are other documents."""

    def finish(writer):
        writer.add_attachment("a.csv", b"x")
        writer._root_object[name("AcroForm")] = table(XFA="x")

    _, notes = read(pdf(("Text", [], 0), finish=finish))
    assert notes == [
        "holds a form of the kind XFA, of which only the text shown on its pages was read",
        "holds what is not read: 1 attached file",
    ]


def test_damaged_lists_of_remarks_cost_no_text(pdf, read):
    """Whatever stands where annotations should."""
    for odd in (
        NumberObject(3),
        ArrayObject([NumberObject(5)]),
        ArrayObject([table(Subtype=name("Widget"), Parent=NumberObject(1))]),
    ):

        def finish(writer, odd=odd):
            writer.pages[0][name("Annots")] = odd

        pieces, _ = read(pdf(("Text", [], 0), finish=finish))
        assert [piece.text for piece in pieces if isinstance(piece, Section)] == ["Text"]


def test_a_field_that_is_its_own_parent_ends(pdf, read):
    """A loop in a damaged file."""

    def finish(writer):
        made = widget(FT=name("Tx"), T="x", V="y")
        reference = writer._add_object(made)
        made[name("Parent")] = reference
        writer.pages[0][name("Annots")] = ArrayObject([reference])

    (section,), _ = read(pdf(("Text", [], 0), finish=finish))
    assert section.text == "Text\n\nx: y"


def test_letters_without_a_meaning_are_a_problem(pdf, read, monkeypatch):
    """A font that does not say which letters its signs are."""
    from pypdf import PageObject

    path = pdf(("Text", [], 0))
    monkeypatch.setattr(PageObject, "extract_text", lambda self: "a\ufffd\ufffdb")
    trouble, section = read(path)[0]
    assert trouble == Trouble("page 1: 2 of its characters have no meaning in its fonts")
    assert section.text == "a\ufffd\ufffdb"


def test_a_pdf_without_any_text_is_refused(pdf, read):
    """Also where its pages are blank."""
    with pytest.raises(UnreadableFileError, match="OCR"):
        read(pdf(("", [], 1)))
