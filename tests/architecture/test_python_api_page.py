"""docs/python-api.md: its tables are the program's, its Python runs. Run this file to write the tables anew."""

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import attrs
import flexchat
import pytest
from flexchat.errors import FlexChatError
from flexchat.request import RequestOptions

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "python-api.md"
TEXT = PAGE.read_text()


def events() -> str:
    """Return the table of what a stream yields."""
    lines = ["| event | fields | |", "|---|---|---|"]
    for event in typing.get_args(flexchat.StreamEvent):
        kinds = [kind for kind in (event, *event.__subclasses__()) if kind.__name__ != "TurnEvent"]
        # attrs makes a new class of one with slots; the first stays a subclass until it is collected
        kinds = [kind for kind in kinds if vars(sys.modules[kind.__module__])[kind.__name__] is kind]
        for kind in kinds:
            fields = ", ".join(f"`{field.name}`" for field in attrs.fields(kind))
            lines.append(f"| `{kind.__name__}` | {fields} | {first_sentence(kind.__doc__)} |")
    return "\n".join(lines)


def first_sentence(doc: str) -> str:
    paragraph = " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())
    paragraph = re.sub(r" \(TC-\d+\)", "", paragraph)  # a number of the specification's
    return re.sub(r"(?<=[a-z)`\"0-9])\. .*", ".", paragraph).replace("``", "`")


def with_tables(text: str) -> str:
    head, _, rest = text.partition("<!-- events -->\n")
    return f"{head}<!-- events -->\n{events()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"


def test_the_tables_are_the_programs():
    """Every event with its fields."""
    assert with_tables(TEXT) == TEXT, "run: python tests/architecture/test_python_api_page.py"


@pytest.mark.slow
def test_the_python_runs(tmp_path):
    """One example after the other, as a reader would paste them."""
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    for said in re.findall(r"# prints: (.*)", "".join(blocks)):
        assert said in done.stdout


@pytest.mark.parametrize("kind", ["error", "keyword", "method", "field"])
def test_what_it_describes_exists_and_nothing_is_missing(kind):
    """The errors of the app's door, the keywords of a message, the methods of FlexChat, the fields of a turn."""
    named = set(re.findall(r"^\| (`.+?) \|", TEXT, re.MULTILINE))
    words = {word for cell in named for word in re.findall(r"\w+", cell)}
    public = {name for name in vars(flexchat.FlexChat) if not name.startswith("_")}
    wanted = {
        "error": {
            name
            for name in flexchat.__all__
            if inspect.isclass(thing := getattr(flexchat, name)) and issubclass(thing, FlexChatError)
        },
        "keyword": {*RequestOptions.__annotations__},
        "method": public,
        "field": {field.name for kind in (flexchat.Turn, flexchat.ChatResponse) for field in attrs.fields(kind)},
    }[kind]

    assert wanted - words == set()


if __name__ == "__main__":
    PAGE.write_text(with_tables(TEXT))
