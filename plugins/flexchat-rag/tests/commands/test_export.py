"""flexchat rag export."""

import json
from pathlib import Path


def test_an_export_is_read_back_as_it_was(run):
    """Round trip: id, title, text, source and metadata."""
    Path("rows.csv").write_text("text,year\n" + "word " * 400 + ",2024\nshort,1.5\n")
    run("rag", "add", "docs", "rows.csv", "--collection", "one", "--metadata", "lang=en")
    ran = run("rag", "export", "--collection", "one", "--output", "out.jsonl")
    assert (ran.status, ran.out) == (0, "")
    assert run("rag", "add", "out.jsonl", "--collection", "two").status == 0
    first, second = (run("rag", "export", "--collection", name).out for name in ("one", "two"))
    assert first == second == Path("out.jsonl").read_text()
    assert {json.loads(line)["metadata"]["lang"] for line in first.splitlines()} == {"en"}
    assert [path.name for path in Path().glob("*out*")] == ["out.jsonl"]


def test_an_export_has_a_name_that_is_read_back(run):
    """Another ending would be read as something else."""
    run("rag", "add", "docs")
    ran = run("rag", "export", "--output", "out.txt")
    assert (ran.status, "jsonl" in ran.err) == (2, True)
    assert "cannot be written" in run("rag", "export", "--output", "docs/guide.md/where.jsonl").err


def test_an_export_that_cannot_be_written_is_one_sentence(run, monkeypatch):
    """A read-only file system refuses to delete, too, what is not there."""
    run("rag", "add", "docs")

    def refusing(work):
        def maybe(path, *args, **kwargs):
            if path.name.startswith(".all."):
                raise OSError(30, "Read-only file system")
            return work(path, *args, **kwargs)

        return maybe

    for name in ("open", "unlink"):
        monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))
    ran = run("rag", "export", "--output", "all.jsonl")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "flexchat: 'all.jsonl' cannot be written: Read-only file system\n"
