"""The examples of docs/testing.md run as they are copied."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"


def test_the_examples_run():
    """In order, in one module: later ones use what earlier ones define."""
    module = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)

    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), module)

    assert len(blocks) == 3
