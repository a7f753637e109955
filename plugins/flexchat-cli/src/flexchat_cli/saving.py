"""ask --save NAME: what was typed becomes a named prompt of the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flexchat.config.document import parse_document
from flexchat.domain.copies import copied
from flexchat.errors import ConfigError
from flexchat.replacing import replacing

from .context import CommandContext
from .usage import UsageError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def save_prompt(context: CommandContext, name: str, table: Mapping[str, Any]) -> Path:
    """Add a named prompt to the configuration, or to a new flexchat.toml; return the file.

    Raises:
        UsageError: There is one of that name, or the file cannot be changed in place.
        ConfigError: The file cannot be read.
    """
    if not _BARE.fullmatch(name):
        raise UsageError(f"--save {name}: a name has letters, digits, _ and -")
    file = context.config_file()
    if file is None:
        file = Path("flexchat.toml")
        text = ""
    else:
        text = file.read_text(encoding="utf-8-sig")
    data = copied(parse_document(text or ("{}" if file.suffix == ".json" else ""), file).data)
    prompts = data.setdefault("prompts", {})
    if not isinstance(prompts, dict) or name in prompts:
        raise UsageError(f"--save {name}: {file} has a prompt of that name; change it there, or choose another name")
    prompts[name] = copied(dict(table))
    try:
        changed = _changed(text, file.suffix.lower(), name, table, data)
        usable = parse_document(changed, file).data == data
    except (ConfigError, ImportError, AttributeError, TypeError, ValueError):
        usable, changed = False, ""
    if not usable:
        raise UsageError(f"--save {name}: {file} cannot be changed in place; add [prompts.{name}] by hand")
    with replacing(file) as output:
        output.write(changed)
    return file


def _changed(text: str, suffix: str, name: str, table: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    if suffix == ".json":
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if suffix in (".yaml", ".yml"):
        from flexchat_sdk import changed_yaml

        return changed_yaml(text, lambda data: data.setdefault("prompts", {}).update({name: copied(dict(table))}))
    lines = [f"[prompts.{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    before = f"{text.rstrip()}\n\n" if text.strip() else text
    return before + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Write a value as TOML; its texts are JSON's but for U+007F."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
