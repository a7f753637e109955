"""Budgets of size and language: budgets.toml. Raising one needs its reason in the same commit."""

import ast
import io
import re
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text())
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def modules(distribution: str) -> list[Path]:
    folder = next(path for path in (ROOT / distribution, ROOT / "plugins" / distribution) if path.is_dir())
    return [path for path in sorted((folder / "src").rglob("*.py")) if "templates" not in path.parts]


def docstrings(tree: ast.Module) -> list[ast.Expr]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    firsts = [node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    return [
        first
        for first in firsts
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    ]


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank ones, comments or docstrings."""
    text = path.read_text("utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for docstring in docstrings(ast.parse(text)):
        lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def prose(path: Path) -> str:
    text = path.read_text("utf-8")
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
    return "\n".join([ast.literal_eval(each.value) for each in docstrings(ast.parse(text))] + comments)


def phrases(text: str) -> list[str]:
    return [match[0] for pattern in BUDGETS["language"]["phrases"] for match in re.finditer(pattern, text)]


def test_every_distribution_has_a_budget():
    found = [path.parents[1].name for path in [*ROOT.glob("*/src/flexchat*"), *ROOT.glob("plugins/*/src/flexchat*")]]
    assert {*found} == {*BUDGETS["code_lines"]}


@pytest.mark.parametrize("distribution", BUDGETS["code_lines"])
def test_a_distribution_keeps_its_budget(distribution):
    """Lines of code, and phrases of docstrings and comments per 10,000 words."""
    lines, most = sum(map(code_lines, modules(distribution))), BUDGETS["code_lines"][distribution]
    text = "\n".join(map(prose, modules(distribution)))
    found, words = phrases(text), len(text.split())
    per_10_000 = len(found) * 10_000 / max(words, 1)

    assert lines <= most, f"{distribution}: {lines:,} lines of code, {lines - most:,} over its budget"
    assert per_10_000 <= BUDGETS["language"]["max_per_10_000_words"], f"{distribution}: {found}"


def test_the_documentation_keeps_its_budget():
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
    text = "\n".join(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL) for page in pages)
    per_10_000 = len(phrases(text)) * 10_000 / len(text.split())

    assert per_10_000 <= BUDGETS["language"]["max_per_10_000_words"], phrases(text)
