"""Which files of a folder are read."""

import os

import pytest
from flexchat_rag.ingest.files import Walk, source_name
from flexchat_rag.ingest.sections import Trouble


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files):
    for name, text in files.items():
        path = name.replace("__", "/") + ".md"
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def found(*paths, **options):
    return [item.source for item in Walk(paths or ("d",), **options).files() if not isinstance(item, Trouble)]


def test_hidden_files_and_unknown_kinds_are_left_out():
    """In folders; a file that is named itself is taken."""
    write(d__a="", d__b__c="", **{"d__.git__x": "", "d__CVS__y": ""})
    for name in ("d/.hidden.md", "d/picture.png", "d/code.py"):
        open(name, "w").close()
    assert found() == ["d/a.md", "d/b/c.md"]
    assert found("d/code.py", "d/.hidden.md") == ["d/code.py", "d/.hidden.md"]
    assert found(include=("*.py",)) == ["d/code.py"]
    assert found(exclude=("b",)) == ["d/a.md"]
    assert found(exclude=("b/*.md", "a.*")) == []


def test_links_are_followed_only_if_asked_and_never_in_circles():
    """A link may lead out of the folder, or back into it."""
    write(d__a="", e__secret="")
    os.symlink("../e", "d/out")
    os.symlink("..", "d/loop")
    assert found() == ["d/a.md"]
    assert found(follow_links=True) == ["d/a.md", "d/loop/e/secret.md"]  # each folder once


def test_what_is_neither_file_nor_folder_is_told():
    """A pipe would never end."""
    os.mkfifo("pipe")
    (item,) = Walk(["pipe"]).files()
    assert item == Trouble("pipe is neither a file nor a folder")


def test_names_can_be_stored_and_shown(tmp_path):
    """A line break and bytes that are no UTF-8 are written as they are in Python."""
    assert source_name(tmp_path.__class__(os.fsdecode(b"d/a\n\xff.md"))) == "d/a\\x0a\\xff.md"
