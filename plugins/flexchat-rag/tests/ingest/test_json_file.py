"""JSON."""

import json

import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping
from flexchat_rag.ingest.sections import Record, UnreadableFileError


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


@pytest.fixture
def write(tmp_path):
    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


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
