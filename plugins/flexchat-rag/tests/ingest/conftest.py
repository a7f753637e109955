"""Reading one file, with what is said of it."""

import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.records import FieldMapping
from flexchat_rag.ingest.sections import Reading


@pytest.fixture
def write(tmp_path):
    """Write a file, and return its path."""

    def call(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return call


@pytest.fixture
def read():
    """Return the pieces of a file, and what there is to say of it."""

    def call(path, encoding=None, **mapping):
        reading = Reading(encoding=encoding)
        pieces = list(kind_of(path, reading).read(path, FieldMapping(**mapping), reading))
        return pieces, reading.notes()

    return call


@pytest.fixture
def text_of(read):
    """Return all text of a file as one, and what there is to say of it."""

    def call(path, **options):
        pieces, notes = read(path, **options)
        return "\n".join("\n".join((*getattr(piece, "headings", ())[-1:], piece.text)) for piece in pieces), notes

    return call
