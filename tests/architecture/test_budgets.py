"""Budgets of size and language: budgets.toml. Raising one needs its reason in the same commit."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
BUDGETS = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text())


def modules(distribution: str) -> list[Path]:
    folder = next(path for path in (ROOT / distribution, ROOT / "plugins" / distribution) if path.is_dir())
    return [path for path in sorted((folder / "src").rglob("*.py")) if "templates" not in path.parts]


def measured(path: Path) -> tuple[int, str]:
    """Return how many lines hold code (no blank ones, comments or docstrings), and the text of docstrings and comments.

    Comments are found without tokenize, which takes five times as long: a # outside of all strings begins one.
    """
    text = path.read_text("utf-8")
    lines = text.split("\n")
    code = {number for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")}
    prose, docstrings, strings = [], set(), {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, OWNERS) and node.body and isinstance(first := node.body[0], ast.Expr):
            if isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                prose.append(first.value.value)
                docstrings.update(range(first.lineno, first.end_lineno + 1))
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        ):
            for number in range(node.lineno, node.end_lineno + 1):
                strings.setdefault(number, []).append(node)
            code.update(range(node.lineno, node.end_lineno + 1))
    for number, line in enumerate(lines, 1):
        place = line.find("#")
        while place >= 0 and any(covers(node, number, len(line[:place].encode())) for node in strings.get(number, ())):
            place = line.find("#", place + 1)
        if place >= 0:
            prose.append(line[place:])
    return len(code - docstrings), "\n".join(prose)


def covers(node: ast.expr, line: int, column: int) -> bool:
    return (node.lineno, node.col_offset) <= (line, column) < (node.end_lineno, node.end_col_offset)


def phrases(text: str) -> list[str]:
    return [match[0] for pattern in BUDGETS["language"]["phrases"] for match in re.finditer(pattern, text)]


def test_every_distribution_has_a_budget():
    found = [path.parents[1].name for path in [*ROOT.glob("*/src/flexchat*"), *ROOT.glob("plugins/*/src/flexchat*")]]
    assert {*found} == {*BUDGETS["code_lines"]}


@pytest.mark.parametrize("distribution", BUDGETS["code_lines"])
def test_a_distribution_keeps_its_budget(distribution):
    """Lines of code, and phrases of docstrings and comments per 10,000 words."""
    counts, texts = zip(*map(measured, modules(distribution)), strict=True)
    lines, most, text = sum(counts), BUDGETS["code_lines"][distribution], "\n".join(texts)
    found, words = phrases(text), len(text.split())
    per_10_000 = len(found) * 10_000 / max(words, 1)

    assert lines <= most, f"{distribution}: {lines:,} lines of code, {lines - most:,} over its budget"
    assert per_10_000 <= BUDGETS["language"]["max_per_10_000_words"], f"{distribution}: {found}"


def test_the_documentation_keeps_its_budget():
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
    text = "\n".join(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL) for page in pages)
    per_10_000 = len(phrases(text)) * 10_000 / len(text.split())

    assert per_10_000 <= BUDGETS["language"]["max_per_10_000_words"], phrases(text)
