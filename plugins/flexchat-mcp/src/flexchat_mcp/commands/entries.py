"""Servers as other programs write them down, and as a config of ours has them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENV = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT = re.compile(r"\$\{input:([^}]{1,64})\}")
_OF_AN_EDITOR = re.compile(
    r"\$\{(?:workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/|file\w*|cwd|(?:config|command):[^}]*)\}"
)
_MEANS_NOTHING = {"disabled", "type", "name", "description", "version"}


class EntriesError(ValueError):
    """A file has no readable servers; the text gives the reason."""


@attrs.frozen(kw_only=True)
class Entry:
    """A server to be added.

    Attributes:
        table: Keys of a [[tools.mcp]] table.
        notes: What a person should know about it.
    """

    name: str
    table: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> str:
        """What will be run or reached."""
        return self.table.get("url") or " ".join(self.table["command"])


def read_entries(text: str) -> tuple[list[Entry], list[str]]:
    """Read the servers of a file of Claude Desktop, Cursor (mcpServers) or VS Code (servers, mcp.servers).

    Returns:
        The servers, and a sentence for each that is left out.

    Raises:
        EntriesError: It is no such file.
    """
    try:
        data = json.loads(_without_comments(text))
    except (ValueError, RecursionError) as error:
        raise EntriesError(f"it is not JSON: {error}") from None
    if (servers := _servers(data)) is None:
        raise EntriesError("it has no table mcpServers or servers")
    entries, left_out = [], []
    for name, value in servers.items():
        try:
            entries.append(_entry(str(name), value))
        except EntriesError as error:
            left_out.append(f"{name} is left out: {error}")
    return entries, left_out


def _servers(data: Any) -> Mapping[str, Any] | None:
    if not isinstance(data, Mapping):
        return None
    places = [data, data["mcp"]] if isinstance(data.get("mcp"), Mapping) else [data]
    tables = (place.get(key) for place in places for key in ("mcpServers", "servers"))
    return next((each for each in tables if isinstance(each, Mapping)), None)


def _entry(name: str, value: Any) -> Entry:
    if not isinstance(value, Mapping):
        raise EntriesError("it is not a table")
    if value.get("disabled") is True:
        raise EntriesError("it is disabled")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64]
    if not _NAME.fullmatch(name):
        raise EntriesError("its name has no letter or digit")
    table: dict[str, Any] = {}
    command, url = value.get("command"), value.get("url") or value.get("serverUrl")
    if isinstance(command, str) and command:
        used = {"command", "args", "env", "cwd"}
        table["command"] = [command, *_texts(value.get("args", []), "args")]
        table |= {"env": env} if (env := _table(value.get("env"), "env")) else {}
        table |= {"cwd": value["cwd"]} if isinstance(value.get("cwd"), str) else {}
    elif isinstance(url, str) and url.startswith(("http://", "https://")):
        used = {"url", "serverUrl", "headers"}
        table["url"] = url
        table |= {"transport": "sse"} if value.get("type") == "sse" else {}
        table |= {"headers": headers} if (headers := _table(value.get("headers"), "headers")) else {}
    elif command:
        raise EntriesError("its command is not a text")
    elif url:
        raise EntriesError("its url does not begin with http:// or https://")
    else:
        raise EntriesError("it has neither a command nor a url")
    if match := _OF_AN_EDITOR.search(json.dumps(table)):
        raise EntriesError(f"only an editor knows what {match[0]} stands for; write it out in the file, and try again")
    variables: set[str] = set()
    table = _with_variables(table, variables)
    notes = [f"set {name} in the environment: the other program asks a person for it" for name in sorted(variables)]
    if others := sorted(str(key) for key in value.keys() - used - _MEANS_NOTHING):
        notes.append(f"not taken over: {', '.join(others)}")
    return Entry(name=name, table=table, notes=tuple(notes))


def _texts(value: Any, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise EntriesError(f"{key} is not a list of texts")
    return value


def _table(value: Any, key: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(item, (str, int, float)) for item in value.values()):
        raise EntriesError(f"{key} is not a table of texts")
    return {str(name): str(item) for name, item in value.items()}


def _with_variables(value: Any, variables: set[str]) -> Any:
    """Return a value with the references of other programs as references of ours."""
    if isinstance(value, Mapping):
        return {key: _with_variables(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_variables(item, variables) for item in value]

    def substitute(match: re.Match[str]) -> str:
        variable = re.sub(r"[^A-Z0-9]+", "_", match[1].upper()).strip("_") or "INPUT"
        variable = variable if variable[0].isalpha() else f"_{variable}"
        variables.add(variable)
        return f"${{{variable}}}"

    return _INPUT.sub(substitute, _ENV.sub(r"${\1}", value))


def _without_comments(text: str) -> str:
    """Return JSON as VS Code writes it, without comments (outside strings) and trailing commas."""
    pattern = r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/'
    plain = re.sub(pattern, lambda match: match[1] or " ", text.removeprefix("\ufeff"), flags=re.DOTALL)
    return re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda match: match[1] or "", plain, flags=re.DOTALL)
