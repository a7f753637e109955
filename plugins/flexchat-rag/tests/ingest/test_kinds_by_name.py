"""The kind of a file by its name."""

import pytest
from flexchat_rag.ingest.files import kind_of, known_kind
from flexchat_rag.ingest.sections import UnreadableFileError


def test_the_name_says_the_kind(tmp_path):
    """Unknown ones are read as text if they are named; those of other programs are refused with advice."""
    assert known_kind(tmp_path / "A.MD").name == "Markdown"
    assert known_kind(tmp_path / "a.py") is None
    for name in ("a.py", "a.doc"):
        (tmp_path / name).touch()
    assert kind_of(tmp_path / "a.py").name == "text"
    with pytest.raises(UnreadableFileError, match=r"save it as \.docx"):
        kind_of(tmp_path / "a.doc")
