"""The pieces that every reader gives."""

import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping


def read(path, **mapping):
    return list(kind_of(path).read(path, FieldMapping(**mapping)))


@pytest.fixture
def write(tmp_path):
    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


def test_a_large_text_comes_in_parts(write):
    """No part is much larger than the buffer, and none is lost."""
    text = "".join(f"Paragraph {n} with some words.\n\n" for n in range(10_000))
    sections = read(write("a.txt", text))
    assert len(sections) > 3
    assert max(len(section.text) for section in sections) < 100_000
    assert "\n\n".join(section.text for section in sections) == text.strip()
