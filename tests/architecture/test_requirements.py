"""docs/requirements.md: which requirement is covered by which test. Run this file to write it anew."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "requirements.md"
ID = re.compile(r"\b(RG|TC|DS|TE|LC)-(\d+)\b|\b(C)(\d+)\b")
RANGE = re.compile(r"\b(RG|TC|DS|TE|LC)-(\d+) to (?:\1-)?(\d+)\b")

# What this version covers; the rest is later work.
COVERED = {
    "RG": set(range(1, 33)),
    "TE": set(range(1, 20)),
    "TC": {1, 2, 3, 4, 7, *range(13, 22), 23, 24, 25, 26, *range(27, 50), *range(63, 102)}
    | {103, 104, 105, *range(106, 115), 116, 117, 120, 126, 127},
    "DS": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
    "LC": set(range(1, 17)),
    "C": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27},
}


def ids_in(text: str) -> set[tuple[str, int]]:
    found = {(m[1] or m[3], int(m[2] or m[4])) for m in ID.finditer(text)}
    for m in RANGE.finditer(text):
        found |= {(m[1], n) for n in range(int(m[2]), int(m[3]) + 1)}
    return found


def found_by_id() -> dict[tuple[str, int], list[str]]:
    tests = defaultdict(list)
    files = [p for p in ROOT.glob("**/test_*.py") if not any(x.startswith(".") for x in p.relative_to(ROOT).parts)]
    for path in sorted(files):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for key in ids_in(ast.get_docstring(node) or ""):
                    tests[key].append(f"{path.relative_to(ROOT)}::{node.name}")
    return tests


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
    order = ["RG", "TC", "DS", "TE", "LC", "C"]
    for kind, number in sorted(tests, key=lambda k: (order.index(k[0]), k[1])):
        name = f"{kind}{number}" if kind == "C" else f"{kind}-{number}"
        lines.append(f"| {name} | {'<br>'.join(f'`{t}`' for t in tests[kind, number])} |")
    return "\n".join(lines) + "\n"


def test_every_requirement_of_this_version_has_a_test():
    """No requirement in scope is without a test that names it."""
    tests = found_by_id()
    missing = [f"{kind}-{n}" for kind, numbers in COVERED.items() for n in sorted(numbers) if (kind, n) not in tests]
    assert missing == []


def test_the_page_is_up_to_date():
    """docs/requirements.md says what the tests say."""
    assert PAGE.read_text() == page(), "run: python tests/architecture/test_requirements.py"


if __name__ == "__main__":
    PAGE.write_text(page())
