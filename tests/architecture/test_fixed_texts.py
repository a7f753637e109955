"""Texts that are part of the program pass the mask unchanged: it is for what users and services supply."""

import ast
from collections.abc import Iterator
from pathlib import Path

from flexchat.host import Mask

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in (ROOT / "core", *ROOT.glob("flexchat-*"), *ROOT.glob("plugins/*"))
    for path in (folder / "src").rglob("*.py")
)
VALUE = "\ue000"
NEVER_SHOWN = (
    'Bearer error="invalid_token"',  # a header
    "fence = fence + 1, token = ",  # SQL
)


def fixed_texts(source: str) -> Iterator[str]:
    """Yield the strings of a module, VALUE in place of what is formatted into them, but no docstrings."""
    seen = set()
    for node in ast.walk(ast.parse(source)):  # what holds a string comes before it
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.body and isinstance(node.body[0], ast.Expr):
                seen.add(id(node.body[0].value))
        elif isinstance(node, ast.JoinedStr):
            seen.update(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield node.value


def test_no_word_of_a_fixed_text_is_masked():
    """Only values that are formatted into it may be."""
    mask = Mask()

    wrong = [
        f"{path.relative_to(ROOT)}: {masked}"
        for path in SOURCES
        for text in fixed_texts(path.read_text("utf-8"))
        if text not in (masked := mask(text), masked.replace("***", VALUE))
        and not any(one in text for one in NEVER_SHOWN)
    ]

    assert not wrong, "\n".join(wrong)
