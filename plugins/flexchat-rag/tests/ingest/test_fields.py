"""The fields of records."""

import json

import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping, number_or_text
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


def test_an_exported_document_is_taken_as_it_is(write):
    """The five keys of rag export, and no mapping."""
    exported = {"id": "i", "title": "T", "text": "x" * 5000, "source": "a.md", "metadata": {"deep": [1]}}
    (record,) = read(write("a.jsonl", json.dumps(exported)))
    assert record == Record(id="i", title="T", text="x" * 5000, source="a.md", metadata={"deep": [1]}, whole=True)


def test_numbers_are_those_written_the_usual_way():
    """What would change when written again stays text."""
    read_as = {"5": 5, "-3": -3, "0": 0, "1.5": 1.5, "007": "007", "1.50": "1.50", "1e5": "1e5", "nan": "nan", "": ""}
    assert {text: number_or_text(text) for text in read_as} == read_as
