"""Configurations as text: tables in TOML and YAML, and changes in place."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flexchat.host import copied, parse_document, scrub

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_LINE_CHARS = 100
_TABLE = re.compile(r"^( *)[^\s#:-][^\n:#]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*(\1 +)[^\s#-]", re.MULTILINE)
"""A key, and the first key of its table on a line of its own."""


def changed_config(text: str, path: Path, change: Callable[[Any], None], added: str) -> str:
    """Return a configuration's text with its data changed; in TOML and YAML, comments and order stay.

    Args:
        path: The file, whose suffix names the format.
        change: Changes the data in place; called with plain tables, and with those of ruamel.yaml.
        added: What expresses the same change at the end of a TOML text.

    Raises:
        ConfigError: The text cannot be read, or could not be read any more.
        ImportError: ruamel.yaml is not installed.
        ValueError: It cannot be changed in place.
    """
    target = copied(parse_document(text, path).data)
    try:
        change(target)
        match path.suffix.lower():
            case ".json":
                line = next((line for line in text.splitlines()[1:] if line.strip()), "")
                indent = len(line) - len(line.lstrip(" ")) or 2
                changed = json.dumps(target, indent=indent, ensure_ascii=False) + "\n"
            case ".yaml" | ".yml":
                changed = changed_yaml(text, change)
            case _:
                changed = f"{text.rstrip()}\n\n{added}" if text.strip() else added
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if parse_document(changed, path).data != target:
        raise ValueError("the changed text has other data")
    return changed


def toml_table(header: str, table: Mapping[str, Any]) -> str:
    """Return a table as TOML, in one line per key; tables within it are inline.

    Args:
        header: ``[prompts.short]``, or ``[[cases]]`` for an item of a list.

    Raises:
        TypeError: A value is None, or nothing that TOML can express.
    """
    return "\n".join([header, *(_toml_line(key, value) for key, value in table.items())]) + "\n"


def _toml_line(key: str, value: Any) -> str:
    line = f"{_toml_key(key)} = {_toml(value)}"
    if isinstance(value, list | tuple) and len(line) > _MAX_LINE_CHARS:
        return f"{_toml_key(key)} = [\n" + "".join(f"    {_toml(item)},\n" for item in value) + "]"
    return line


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _toml(key)


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():  # as in JSON, apart from U+007F
            return json.dumps(scrub(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case Mapping():
            pairs = ", ".join(f"{_toml_key(key)} = {_toml(item)}" for key, item in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    raise TypeError(f"TOML has no {type(value).__name__}")


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
