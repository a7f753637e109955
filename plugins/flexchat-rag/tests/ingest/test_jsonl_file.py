"""Lines of JSON."""

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
