"""docs/tool-calls.md says what is so: its examples run, and its table has the places in their order."""

import re
from pathlib import Path

from flexchat.plugin.call import STAGES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tool-calls.md").read_text()


def test_its_examples_run():
    """One after the other, as a reader would type them; their assertions hold."""
    names = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example, names)


def test_its_places_are_those_of_the_code():
    """In order."""
    assert tuple(re.findall(r"^\| `([a-z ]+)` \|", PAGE, re.MULTILINE)) == STAGES
