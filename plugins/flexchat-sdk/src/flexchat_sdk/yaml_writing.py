"""YAML texts, changed in place and written anew."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Any

_TABLE = re.compile(r"^( *)[^\s#:-][^\n:#]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*(\1 +)[^\s#-]", re.MULTILINE)
"""A key, and the first key of its table on a line of its own."""


def dumped_yaml(data: Mapping[str, Any]) -> str:
    """Return tables as YAML.

    Raises:
        ImportError: ruamel.yaml is not installed.
    """
    return _dump(_yaml(), data)


def changed_yaml(text: str, write: Callable[[Any], None]) -> str:
    """Return a YAML text after ``write`` has changed its data; comments, order and indentation stay.

    Raises:
        ImportError: ruamel.yaml is not installed.
        Exception: ruamel.yaml cannot do it; its output must also be read again and compared.
    """
    from ruamel.yaml.util import load_yaml_guess_indent

    yaml = _yaml()
    _, of_lists, offset = load_yaml_guess_indent(text)
    of_tables = min(_TABLE.finditer(text), key=lambda match: len(match[1]), default=None)  # not one within a text
    wide = len(of_tables[2]) - len(of_tables[1]) if of_tables is not None else 2
    yaml.indent(mapping=wide, sequence=of_lists or 2, offset=offset or 0)
    document, head = yaml.load(text), ""
    if document is None:  # nothing but comments
        document, head = {}, text if text.endswith("\n") or not text else f"{text}\n"
    write(document)
    return head + _dump(yaml, document)


def _yaml() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter
    from ruamel.yaml.scalarfloat import ScalarFloat

    class Exact(RoundTripRepresenter):
        """Keeps what ruamel.yaml would change: the last digits of a number, and line breaks that are not \\n."""

        def number(self, value: Any) -> Any:
            node = self.represent_scalar_float(value)
            if float(node.value) != float(value):
                node.value = repr(float(value))
            return node

        def text(self, value: str) -> Any:
            style = '"' if any(c in value for c in "\x85\u2028\u2029") else None
            return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Exact.add_representer(ScalarFloat, Exact.number)
    Exact.add_representer(str, Exact.text)
    yaml = YAML()
    yaml.Representer = Exact
    yaml.preserve_quotes = True
    yaml.width = 1_000
    yaml.allow_unicode = True
    return yaml


def _dump(yaml: Any, data: Any) -> str:
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue()
