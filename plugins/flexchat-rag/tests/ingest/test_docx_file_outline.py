"""The outline of a Word document."""

import docx
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


def outline(pieces):
    return [(piece.headings, piece.text) for piece in pieces]


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
