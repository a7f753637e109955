"""flexchat rag delete."""

import json
from pathlib import Path


def data(ran):
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def test_what_is_deleted_is_asked_for(run):
    """On a terminal the number is shown first; elsewhere --yes is needed."""
    run("rag", "add", "docs")
    delete = ("rag", "delete", "--collection", "documents")
    assert "--yes" in run(*delete, "--all").err
    ran = run(*delete, "--source", "docs/guide.md", stdin="n\n", terminal=True)
    assert "delete 2 passages of 'documents'?" in ran.out
    assert "nothing was deleted" in ran.err
    assert "2 passages deleted" in run(*delete, "--source", "docs/guide.md", stdin="y\n", terminal=True).out
    assert data(run("rag", "stats", "--json"))["documents"]["passages"] == 1
    assert data(run(*delete, "--all", "--yes", "--json")) == {"collection": "documents", "deleted": 1}
    assert data(run("rag", "list", "--json")) == {"documents": []}


def test_documents_are_deleted_by_filter_and_id(run):
    """All that is said must fit."""
    Path("a.jsonl").write_text("".join(f'{{"text": "row {n}", "year": {2000 + n}, "k": "id{n}"}}\n' for n in range(5)))
    run("rag", "add", "a.jsonl", "--id-field", "k")
    delete = ("rag", "delete", "--collection", "documents", "--yes")
    assert "2 passages deleted" in run(*delete, "--where", '{"year": {"$lt": 2002}}').out
    assert "1 passage deleted" in run(*delete, "--id", "id4", "--id", "id0").out
    left = [json.loads(line)["id"] for line in run("rag", "export").out.splitlines()]
    assert left == ["id2", "id3"]
