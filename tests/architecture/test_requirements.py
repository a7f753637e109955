"""docs/contributing/requirements.md: which requirement is covered by which test. Run this file to write it anew."""

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "contributing" / "requirements.md"
ID = re.compile(r"\b(RG|TC|DS|TE|LC)-(\d+)\b|\b(C)(\d+)\b")
RANGE = re.compile(r"\b(RG|TC|DS|TE|LC)-(\d+) to (?:\1-)?(\d+)\b")

LAST = {"RG": 32, "TC": 141, "DS": 22, "TE": 19, "LC": 16, "C": 27}
"""How many requirements of each kind there are."""

OPEN = {
    ("TC", 10): "tools of other agents",
    ("TC", 11): "versions of tools",
    ("TC", 12): "tools made of tools, described in the config",
    ("TC", 59): "limits of our own on how often an HTTP tool is called; a service's own (429, Retry-After) are kept to",
    ("TC", 115): "tools in a process or container of their own",
    ("TC", 118): "file tools that stay in their folders",
    ("TC", 121): "rate limits for each user",
    ("TC", 122): "metrics of tools",
    ("TC", 123): "metrics of models",
    ("TC", 124): "metrics of time",
    ("TC", 125): "metrics of errors",
    ("TC", 129): "tools in several steps",
    ("TC", 130): "migration between versions of a tool",
    ("TC", 131): "a marketplace",
    ("TC", 132): "delegation to other agents",
    ("TC", 134): "a cache of results",
    ("TC", 135): "an audit log",
    ("TC", 136): "compliance",
    ("TC", 137): "roles",
    ("TC", 138): "cost",
    ("TC", 139): "service levels",
    ("TC", 140): "A/B tests of tools",
    ("TC", 141): "the authors' questions to their reviewers",
    ("DS", 21): "backups of validations made by themselves",
    ("DS", 22): "what the first version was not to have; HTTP tools and streaming are here by now",
}
"""What no test covers, because it is not built."""


def ids_in(text: str) -> set[tuple[str, int]]:
    found = {(m[1] or m[3], int(m[2] or m[4])) for m in ID.finditer(text)}
    for m in RANGE.finditer(text):
        found |= {(m[1], n) for n in range(int(m[2]), int(m[3]) + 1)}
    return found


@functools.cache
def found_by_id() -> dict[tuple[str, int], list[str]]:
    tests = defaultdict(list)
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for path in sorted(path for folder in folders for path in folder.glob("**/test_*.py")):
        text = path.read_text()
        if not ID.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if is_test and node.name.startswith(("test_", "Test")):
                for key in ids_in(ast.get_docstring(node) or ""):
                    tests[key].append(f"{path.relative_to(ROOT)}::{node.name}")
    return tests


def all_ids() -> list[tuple[str, int]]:
    return [(kind, number) for kind, last in LAST.items() for number in range(1, last + 1)]


def shown(kind: str, number: int) -> str:
    return f"{kind}{number}" if kind == "C" else f"{kind}-{number}"


def page() -> str:
    lines = [
        "# Requirements and their tests",
        "",
        "Written by `python tests/architecture/test_requirements.py` from the docstrings of the tests.",
        "RG: response generation, TC: tool calling, DS: design, TE: tool execution, LC: LangChain,",
        "C: how a contradiction between them is settled.",
        "",
        "| requirement | tests |",
        "|---|---|",
    ]
    tests = found_by_id()
    for kind, number in all_ids():
        where = "<br>".join(f"`{t}`" for t in tests[kind, number]) or f"*open:* {OPEN.get((kind, number))}"
        lines.append(f"| {shown(kind, number)} | {where} |")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_every_requirement_has_a_test_or_is_open():
    """And no test names one that does not exist, or that is said to be open."""
    tests, ids = found_by_id(), all_ids()
    assert [shown(*key) for key in ids if key not in tests and key not in OPEN] == []
    assert [shown(*key) for key in tests if key not in ids or key in OPEN] == []


def test_the_page_is_up_to_date():
    """docs/contributing/requirements.md matches the docstrings of the tests."""
    assert PAGE.read_text() == page(), "run: python tests/architecture/test_requirements.py"


if __name__ == "__main__":
    PAGE.write_text(page())
