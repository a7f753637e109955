"""What all commands of flexchat rag have in common: the store that is meant, and what is wrong with it."""

from pathlib import Path

import pytest
from flexchat_rag.commands.opening import format_seconds

MODEL = """
[llms.r]
provider = "rehearsal"

[[responses]]
llm = "r"
model = "rehearsal"
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rag", "delete", "--all", "--yes"), "--collection NAME is required"),
        (("rag", "delete", "--collection", "documents", "--yes"), "nothing to delete"),
        (("rag", "delete", "--collection", "documents", "--all", "--id", "x", "--yes"), "nothing to delete"),
        (("rag", "query", "x", "--where", "{"), "--where is not JSON"),
        (("rag", "query", "x", "--where", "[]"), "--where takes a JSON object"),
        (("rag", "query", " "), "the question is empty"),
        (("rag", "query", "x", "--top-k", "0"), "--top-k is at least 1"),
        (("rag", "add", "docs", "--max-file-size", "large"), "write a size like 100MB"),
        (("rag", "add", "docs", "--chunk-size", "5"), "--chunk-size is at least 100"),
        (("rag", "add", "docs", "--overlap", "500"), "--overlap is 0 to 225"),
        (("rag", "add", "docs", "--metadata", "lang"), "write NAME=VALUE"),
        (("rag", "add", "docs", "--match-threshold", "7"), "0 to 2"),
        (("rag", "add"), "PATH"),
    ],
)
def test_what_cannot_be_meant_is_said(run, words, said):
    """The status is 2, and nothing is done."""
    ran = run(*words)
    assert ran.status == 2
    assert said in ran.err


def test_without_a_store_the_next_step_is_said(run):
    """A config of its own may have none."""
    Path("flexchat.toml").write_text(MODEL)
    for words in (("add", "docs"), ("list",), ("query", "x"), ("stats",)):
        ran = run("rag", *words)
        assert (ran.status, "[stores.documents]" in ran.err) == (2, True)


@pytest.mark.parametrize("words", [["export"], ["stats"], ["query", "tea"]])
def test_an_empty_store_is_told_with_what_fills_it(run, words):
    assert "the store 'documents' is empty: flexchat rag add PATH fills it" in run("rag", *words).err


@pytest.mark.parametrize(
    "words",
    [
        ("query", "tea", "--collection", ""),
        ("query", "tea", "--store", " "),
        ("add", "docs", "--collection", ""),
        ("list", "--collection", ""),
        ("list", "--store", ""),
        ("stats", "--collection", ""),
        ("show", "docs/notes.txt", "--collection", ""),
        ("export", "--collection", ""),
        ("delete", "--collection", "", "--all", "--yes"),
        ("add", "docs", "--text-field", ""),
        ("add", "docs", "--title-field", ""),
        ("add", "docs", "--include", ""),
    ],
    ids=" ".join,
)
def test_an_empty_name_is_an_error_and_not_all_there_is(run, words):
    """Most often a variable of the shell that is not set."""
    run("rag", "add", "docs")
    ran = run("rag", *words)
    assert ran.status == 2, ran
    assert "is empty" in ran.err or "no document store is called" in ran.err


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "1 ms"), (0.04, "40 ms"), (0.94, "940 ms"), (0.96, "1.0 s"), (6.04, "6.0 s"), (200, "3 min 20 s")],
)
def test_a_duration_is_never_nothing(seconds, said):
    """ "0.0 s" says that nothing was done."""
    assert format_seconds(seconds) == said
