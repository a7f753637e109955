"""flexchat rag add."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from flexchat_rag.commands import add

CONFIG = """
[stores.{name}]
provider = "{provider}"
"""


MODEL = """
[llms.r]
provider = "rehearsal"

[[responses]]
llm = "r"
model = "rehearsal"
"""


SQLITE = 'path = "{name}.db"\nsearch = "keyword"\n'


def configure(*names, provider="sqlite"):
    extra = SQLITE if provider == "sqlite" else ""
    stores = "".join((CONFIG + extra).format(name=name, provider=provider) for name in names)
    Path("flexchat.toml").write_text(stores + MODEL)


def data(ran):
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def test_files_are_added_and_found(run):
    """Scenario of every first user: add a folder, ask, see where it stands."""
    ran = run("rag", "add", "docs")
    assert ran.status == 0, ran.err
    assert ran.out.startswith("documents: 2 added; 3 passages in ")
    ran = run("rag", "query", "installer", "--top-k", "1")
    assert "1. Guide › Install" in ran.out
    assert "docs/guide.md, line 5" in ran.out
    assert "Run the installer on Linux." in ran.out
    (hit,) = data(run("rag", "query", "tea", "--json"))
    assert (hit["title"], hit["source"], hit["collection"]) == ("notes.txt", "docs/notes.txt", "documents")
    assert 0 <= hit["distance"] <= 2


def test_a_second_run_changes_nothing(run):
    """And says so; what changed is replaced, what is gone goes with --prune."""
    run("rag", "add", "docs")
    assert "2 unchanged; 0 passages" in run("rag", "add", "docs").out
    Path("docs/notes.txt").write_text("Tea is served at six.")
    os.remove("docs/guide.md")
    report = data(run("rag", "add", "docs", "--prune", "--json"))
    assert (report["changed"], report["removed"], report["passages"], report["stored"]) == (1, 1, 1, 1)
    assert [hit["text"] for hit in data(run("rag", "query", "tea", "--json"))] == ["Tea is served at six."]
    assert data(run("rag", "query", "installer", "--json")) == []


def test_a_failed_file_makes_the_status_1(run):
    """The others are stored, the reason is told."""
    Path("docs/a.txt").write_bytes(b"\0\1\2")
    ran = run("rag", "add", "docs", "nowhere")
    assert ran.status == 1
    assert "failed: docs/a.txt is not text: it holds binary data" in ran.err
    assert "failed: nowhere does not exist" in ran.err
    assert "2 added, 2 failed" in ran.out


def test_the_store_is_the_one_that_is_meant(run):
    """--store, else the only one, else the one with the collection, else an error that lists them."""
    configure("first", "second")
    ran = run("rag", "add", "docs")
    assert (ran.status, "--store NAME says it (there are: first, second)" in ran.err) == (2, True)
    assert run("rag", "add", "docs", "--store", "second", "--collection", "help").status == 0
    assert len(data(run("rag", "query", "tea", "--collection", "help", "--json"))) == 1
    assert "(there are: first, second)" in run("rag", "add", "docs", "--store", "third").err
    assert set(data(run("rag", "list", "--json"))) == {"first", "second"}


def test_a_store_that_cannot_be_filled_says_so(run):
    """The documents of "memory" stand in the config."""
    configure("documents", provider="memory")
    ran = run("rag", "add", "docs")
    assert ran.status == 2
    assert "'documents' (provider memory) can be searched, but not filled" in ran.err


@pytest.mark.slow
def test_stopping_is_no_failure(run, tmp_path):
    """Ctrl-C: what is stored is kept, and the same command goes on."""
    for n in range(3000):
        Path(f"docs/f{n}.md").write_text(f"# Title {n}\n\n" + f"Words of file {n}. " * 40)
    program = "import sys; from flexchat_cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["rag", "add", "docs", "--exclude", "guide.md"]
    started = subprocess.Popen([sys.executable, "-c", program, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    database = tmp_path / "documents.db-wal"
    while started.poll() is None and not (database.exists() and database.stat().st_size > 100_000):
        pass
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=30)
    assert started.returncode == 130, err
    assert b"run the same command to continue" in err
    assert b"Traceback" not in err
    listed = data(run("rag", "list", "--collection", "documents", "--json"))
    assert 0 < len(listed) < 3000
    Path("docs/f2999.md").write_text("Other.")
    report = data(run("rag", "add", "docs/f0.md", "--json"))
    assert report["unchanged"] == 1


def test_kinds_that_are_left_out_are_counted(run):
    """A folder of other programs' files must not look as if all of it had been read."""
    for name in ("a.xyz", "b.XYZ", "c.png", "LICENSE", ".hidden"):
        Path("docs", name).write_bytes(b"\0")
    os.symlink("guide.md", "docs/link.md")
    ran = run("rag", "add", "docs")
    assert ran.status == 0
    assert ran.err == (
        "left out: 2 .xyz, 1 .png, 1 without ending, 1 hidden, 1 link (--follow-links) "
        "(--include '*.xyz' takes other endings, as text)\n"
    )
    report = data(run("rag", "add", "docs", "--json"))
    assert report["left_out"] == {".xyz": 2, ".png": 1, "without ending": 1, "hidden": 1, "links": 1}


def test_what_is_to_be_said_of_a_file_is_said_and_counted(run):
    """On standard error, in the summary and in the JSON; it is no failure. An encoding of one's own settles it."""
    Path("docs/old.txt").write_bytes("naïve".encode("latin-1"))
    Path("docs/empty.md").touch()
    ran = run("rag", "add", "docs")
    assert ran.status == 0
    assert "note: docs/empty.md holds no text\n" in ran.err
    assert "note: docs/old.txt was read as cp1252, a guess (" in ran.err
    assert "4 added, 2 with notes;" in ran.out
    report = data(run("rag", "add", "docs/old.txt", "--encoding", "LATIN1", "--json"))
    assert (report["noted"], report["notes"]) == (0, [])
    assert run("rag", "add", "docs", "--encoding", "utf9").status == 2


def test_notes_on_many_files_are_not_all_shown(run):
    """The JSON has them."""
    for number in range(30):
        Path(f"docs/{number}.md").touch()
    ran = run("rag", "add", "docs")
    assert ran.err.count("holds no text") == add.MAX_NOTES
    assert "there are messages about more files: --json lists them" in ran.err
    Path("docs/0.md").write_text(" ")
    assert len(data(run("rag", "add", "docs", "--json", "--chunk-size", "500"))["notes"]) == 30


def test_a_file_with_a_part_that_cannot_be_read_is_one_file(run, monkeypatch):
    """Counted as added and as failed, it was two: "38 of 36 files"."""
    monkeypatch.setattr(add, "SECONDS_BETWEEN_LINES", 0)
    Path("rows.csv").write_text("a\n1\n1,2\n")
    ran = run("rag", "add", "rows.csv", "docs")
    assert ran.status == 1
    assert "3 of 3 files" in ran.err
    assert "4 of 3" not in ran.err
    assert data(run("rag", "add", "docs", "--json"))["files"] == 2


def test_a_damaged_store_is_put_aside_and_filled_anew(run):
    """Whoever types the command is told where the old one is."""
    run("rag", "add", "docs")
    content = Path("documents.db").read_bytes()
    Path("documents.db").write_bytes(b"\xee" * 100 + content[100:])
    ran = run("rag", "add", "docs")
    assert ran.status == 0
    (aside,) = Path().glob("documents.damaged-*.db")
    assert aside.read_bytes()[100:] == content[100:]
    assert f"'documents.db' is damaged: it was put aside as '{aside}', and a new one was started" in ran.err
    assert len(data(run("rag", "query", "tea", "--json"))) == 1
