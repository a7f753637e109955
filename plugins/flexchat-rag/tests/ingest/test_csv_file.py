"""CSV."""

import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping
from flexchat_rag.ingest.sections import Record, Trouble


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


@pytest.fixture
def write(tmp_path):
    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


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
