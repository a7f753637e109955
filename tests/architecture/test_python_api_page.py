"""docs/python-api.md: its tables are the program's, its Python runs. Run this file to write the tables anew."""

import ast
import functools
import gc
import importlib
import importlib.util
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
from flexchat.request import Asked

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "python-api.md"
TEXT = PAGE.read_text()
DOORS = ("flexchat", "flexchat.plugin", "flexchat.provider", "flexchat.store", "flexchat.host")


def events() -> str:
    """Return the table of what a stream yields."""
    lines = ["| event | fields | |", "|---|---|---|"]
    gc.collect()  # attrs makes a new class of one with slots; until then the first is a subclass, too
    for event in typing.get_args(flexchat.StreamEvent):
        kinds = [kind for kind in (event, *event.__subclasses__()) if kind.__name__ != "Happening"]
        for kind in kinds:
            fields = ", ".join(f"`{field.name}`" for field in attrs.fields(kind))
            lines.append(f"| `{kind.__name__}` | {fields} | {first_sentence(kind.__doc__)} |")
    return "\n".join(lines)


def doors() -> str:
    """Return a section for each door: every name, and what it is in a sentence."""
    sections = []
    for door in DOORS:
        module = importlib.import_module(door)
        lines = [f"### {door}", "", first_sentence(module.__doc__), "", "| | |", "|---|---|"]
        for name in module.__all__:
            lines.append(f"| `{name}` | {first_sentence(doc_of(door, name)).replace('|', chr(92) + '|')} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def doc_of(door: str, name: str) -> str:
    thing = getattr(importlib.import_module(door), name)
    has_own = inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)
    own = inspect.getdoc(thing) if has_own else None
    return own or defined_doc(door, name)


def defined_doc(module: str, name: str) -> str:
    """Return the text behind a name's assignment, in the module that assigns it."""
    body = tree(module).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(following, ast.Expr), f"{module}.{name} has no text behind it"
            return ast.literal_eval(following.value)
    for statement in ast.walk(tree(module)):
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == name:
                    return defined_doc(home_of(statement, module), alias.name)
    raise AssertionError(f"{module} neither defines nor imports {name}")


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(Path(importlib.util.find_spec(module).origin).read_text())


def home_of(statement: ast.ImportFrom, module: str) -> str:
    package = importlib.util.find_spec(module)
    inside = module if package.submodule_search_locations else module.rpartition(".")[0]
    return importlib.util.resolve_name("." * statement.level + (statement.module or ""), inside)


def first_sentence(doc: str) -> str:
    paragraph = " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())
    paragraph = re.sub(r" \(TC-\d+\)", "", paragraph)  # a number of the specification's
    return re.sub(r"(?<=[a-z)`\"0-9])\. .*", ".", paragraph).replace("``", "`")


def with_tables(text: str) -> str:
    for name, table in (("events", events), ("doors", doors)):
        head, _, rest = text.partition(f"<!-- {name} -->\n")
        text = f"{head}<!-- {name} -->\n{table()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


def test_the_tables_are_the_programs():
    """Every event with its fields, and every name of every door: this page pins them."""
    assert with_tables(TEXT) == TEXT, "run: python tests/architecture/test_python_api_page.py"


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
    named = set(re.findall(r"^\| (`.+?) \|", TEXT.partition("<!-- doors -->")[0], re.MULTILINE))
    words = {word for cell in named for word in re.findall(r"\w+", cell)}
    public = {name for name in vars(flexchat.FlexChat) if not name.startswith("_")}
    wanted = {
        "error": {
            name
            for name in flexchat.__all__
            if inspect.isclass(thing := getattr(flexchat, name)) and issubclass(thing, FlexChatError)
        },
        "keyword": {*Asked.__annotations__},
        "method": public,
        "field": {field.name for kind in (flexchat.Turn, flexchat.ChatResponse) for field in attrs.fields(kind)},
    }[kind]

    assert wanted - words == set()


if __name__ == "__main__":
    PAGE.write_text(with_tables(TEXT))
