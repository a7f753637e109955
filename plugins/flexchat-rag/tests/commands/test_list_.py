"""flexchat rag list."""

import json


def data(ran):
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def test_collections_and_sources_are_listed(run):
    """With counts; a description and thresholds stay when more is added."""
    about = ("--description", "How to use it", "--match-threshold", "0.3", "--partial-threshold", "0.6")
    run("rag", "add", "docs", "--collection", "help", *about)
    run("rag", "add", "docs", "--collection", "help")
    assert run("rag", "list").out == "documents\n  help  (3 passages)  How to use it\n"
    (collection,) = data(run("rag", "list", "--json"))["documents"]
    assert (collection["match_threshold"], collection["partial_threshold"]) == (0.3, 0.6)
    assert (
        run("rag", "list", "--collection", "help").out == "docs/guide.md  (2 passages)\ndocs/notes.txt  (1 passage)\n"
    )
    sources = data(run("rag", "list", "--collection", "help", "--json"))
    assert [(source["name"], source["complete"]) for source in sources] == [
        ("docs/guide.md", True),
        ("docs/notes.txt", True),
    ]


def test_passages_that_came_from_no_file_are_listed_by_the_sources_they_name(run):
    """What an export gives back, and what a program adds."""
    run("rag", "add", "docs")
    run("rag", "export", "--output", "all.jsonl")
    run("rag", "add", "all.jsonl", "--collection", "copy")

    assert run("rag", "list", "--collection", "copy").out.splitlines() == [
        "all.jsonl  (0 passages)",
        "docs/guide.md  (2 passages, not added as a file)",
        "docs/notes.txt  (1 passage, not added as a file)",
    ]
    assert "not added" not in run("rag", "list", "--collection", "documents").out
