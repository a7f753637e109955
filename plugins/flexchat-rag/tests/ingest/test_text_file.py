"""Text files."""

import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping
from flexchat_rag.ingest.sections import Section


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


@pytest.fixture
def write(tmp_path):
    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


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
