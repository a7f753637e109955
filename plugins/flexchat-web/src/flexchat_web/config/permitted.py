"""What may be changed in a configuration through the server, and what only by editing the file.

Source of the cases: CVE-2026-40933 and its like, where a configuration posted to a server ran commands, and servers
that sent a posted ``${KEY}`` to a posted address.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs
from flexchat import Problem, host
from flexchat.host import ConfigDocument, KeyPath, normalise, shortened, walk

from .secrets import MASKED, SERVICES, at, same_target, services_of

SAFE_IMPLEMENTATIONS = ("builtin", "internal", "mock")
"""Ways to run a tool without any code, command or address from the config."""

_REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)")
_FILE_WORDS = {"path", "paths", "file", "files", "folder", "directory", "command", "args", "env", "cwd"}
_SENT_BY_LIBPQ = ("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE", "PGSSLKEY")
_FILES_OF_LIBPQ = re.compile(r"(?i)\b(?:passfile|service|servicefile|sslkey|sslcert|sslrootcert|sslcrl|sslcrldir)\s*=")
_WITHOUT_ADDRESS = {"responses", "tools", "variables", "limits", "topic", "intent", "embedding", "prompts"}
"""Tables that send nothing anywhere by themselves; of these, an included file's part cannot be changed anyway."""
_BY_HAND = "edit the file by hand"
_NO_PATH = f"file paths cannot be added or changed here: {_BY_HAND}"
_FIXED = {
    "plugins": "which plugins are loaded",
    "network": "which addresses tools may reach",
    "include": "which files are included",
    "serve": "how users are identified",
}


def refused(
    posted: ConfigDocument, file: Mapping[str, Any], *, allow_env: Collection[str], expanded: Mapping[str, Any] | None
) -> list[Problem]:
    """Return a problem for everything in a posted configuration that may not come through the server.

    Args:
        file: The current configuration: what is already there may stay.
        allow_env: Environment variables that may be used anywhere.
        expanded: The configuration whose references to the environment are replaced already, and may stay; None if
            none will be replaced in the posted one.
    """
    problems = [
        posted.problem((name,), f"{what} cannot be changed here: {_BY_HAND}")
        for name, what in _FIXED.items()
        if not _same(posted.data.get(name), file.get(name))
    ]
    for refuse in (_code, _sources, _classes, _paths):
        problems += refuse(posted, file)
    problems += _databases(posted, file, allow_env)
    if problems or expanded is None:
        return problems if expanded is None else [*problems, *_references(posted, expanded, allow_env)]
    # Only now are other files read: those that the configuration names already.
    whole = host.with_included(posted)
    before = host.with_included(attrs.evolve(posted, data=dict(expanded), lines={}, problems=())).data
    return [*_beside(whole, posted, file), *_references(whole, before, allow_env)]


def _beside(whole: ConfigDocument, posted: ConfigDocument, file: Mapping[str, Any]) -> Iterator[Problem]:
    """Refuse changes of entries that an included file also writes: a new address would receive the key from there."""
    entries = {
        place[: 2 if place[0] in SERVICES else 1]: source
        for place, source in whole.files.items()
        if place[0] not in _WITHOUT_ADDRESS
    }
    for entry, source in entries.items():
        if at(posted.data, entry) != at(file, entry):
            there = os.path.relpath(source, posted.folder)
            text = f"{host.format_path(entry)} is in {there}, too, so it cannot be changed here: {_BY_HAND}"
            yield posted.problem(entry, text)


def _references(posted: ConfigDocument, file: Mapping[str, Any], allow_env: Collection[str]) -> Iterator[Problem]:
    for place, value in walk(posted.data):
        names = set(_REFERENCE.findall(value)) if isinstance(value, str) else set()
        denied = sorted(names - set(allow_env))
        if denied and not _stands_there(value, place, posted.data, file):
            yield posted.problem(
                place,
                f"{', '.join(denied)} from the environment may not be used here: {_BY_HAND}, or start the server with "
                f"--allow-env {denied[0]}",
            )


def _stands_there(value: str, place: KeyPath, data: Mapping[str, Any], file: Mapping[str, Any]) -> bool:
    """Return whether the file has the same reference at the same place, for the same address."""
    if at(file, place) == value and same_target(data, file, place):
        return True
    if place[0] != "responses" or len(place) < 3:
        return False
    # Rules may change places; what a rule holds goes to its services.
    services, rules = services_of(data, place[:2]), file.get("responses")
    return all(same_target(data, file, ("llms", service)) for service in services) and any(
        at(file, ("responses", number, *place[2:])) == value and services_of(file, ("responses", number)) == services
        for number in range(len(rules) if isinstance(rules, list) else 0)
    )


def _code(posted: ConfigDocument, file: Mapping[str, Any]) -> Iterator[Problem]:
    now, then = normalise(posted)[0], normalise(ConfigDocument(data=dict(file)))[0]  # tools may be written flat
    runs_by_name = {str(tool.get("name")): _runs(tool) for _, tool in _tools(then.data)}
    for place, tool in _tools(now.data):
        implementation = tool.get("implementation")
        if not isinstance(implementation, dict):
            continue  # a tool that a plugin offers, or one that cannot be read
        kind = implementation.get("type")
        if kind not in SAFE_IMPLEMENTATIONS and runs_by_name.get(str(tool.get("name"))) != _runs(tool):
            yield now.problem(
                (*place, "implementation"),
                f"tools of type '{shortened(str(kind))}' run code or send requests, so they cannot be added or changed "
                f"here: {_BY_HAND}",
            )


def _runs(tool: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the settings that determine the code or command that a tool runs."""
    return tool.get("implementation"), tool.get("handler")


def _sources(posted: ConfigDocument, file: Mapping[str, Any]) -> Iterator[Problem]:
    """Refuse tool sources: they name documents and servers, receive keys, and define the tools."""
    tables = posted.data.get("tools"), file.get("tools")
    now, then = (table if isinstance(table, dict) else {} for table in tables)
    ours = host.own_keys(host.ToolsTable) - {"lock"}
    for key in sorted({*now, *then} - ours, key=str):
        if not key.startswith("_") and key != "comment" and not _same(now.get(key), then.get(key)):
            what = "the file of accepted tools" if key == "lock" else "tool sources"
            yield posted.problem(("tools", key), f"{what} cannot be added or changed here: {_BY_HAND}")


def _classes(posted: ConfigDocument, file: Mapping[str, Any]) -> Iterator[Problem]:
    """Refuse classes that would be imported, and their settings: many read keys from the environment."""
    entries = posted.data.get("llms")
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        current = at(file, ("llms", name))
        if not isinstance(entry, dict) or "class_path" not in entry:
            continue
        for key in ("class_path", "settings"):
            if not _same(entry.get(key), at(current, (key,))):
                text = f"{key} runs code of its class, so it cannot be added or changed here: {_BY_HAND}"
                yield posted.problem(("llms", name, key), text)


def _same(posted: Any, current: Any) -> bool:
    """Return whether a value is the file's; a mask stands for what it hides."""
    if isinstance(posted, dict) and isinstance(current, dict):
        return posted.keys() == current.keys() and all(_same(item, current[key]) for key, item in posted.items())
    if isinstance(posted, list) and isinstance(current, list):
        return len(posted) == len(current) and all(map(_same, posted, current))
    return bool(posted == current) or (posted == MASKED and isinstance(current, str))


def _paths(posted: ConfigDocument, file: Mapping[str, Any]) -> Iterator[Problem]:
    """Refuse other files to be read or written; rules may change places with their prompts' files."""
    prompts = {value for place, value in walk(dict(file)) if place[-1] == "prompt_file" and isinstance(value, str)}
    for place, value in walk(posted.data):
        is_prompt = place[-1] == "prompt_file" and isinstance(value, str) and value not in prompts
        is_value = place[0] == "validation" or not isinstance(value, (dict, list))
        if is_prompt or (is_value and _names_file(place) and value not in (None, at(file, place))):
            yield posted.problem(place, _NO_PATH)


def _databases(posted: ConfigDocument, file: Mapping[str, Any], allow_env: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each new PostgreSQL address that would get what its client finds in the environment.

    Source: libpq's documentation, "Environment Variables" and "Parameter Key Words".
    """
    for place, value in walk(posted.data):
        if not isinstance(value, str) or value in (MASKED, at(file, place)):
            continue
        if place[-1] != "dsn" and not value.startswith(("postgres://", "postgresql://")):
            continue
        if _FILES_OF_LIBPQ.search(value):
            yield posted.problem(place, _NO_PATH)
        for name in _SENT_BY_LIBPQ:
            if name in os.environ and name not in allow_env:
                yield posted.problem(
                    place,
                    f"{name} of the environment would be sent there: {_BY_HAND}, or start the server with "
                    f"--allow-env {name}",
                )


def _names_file(place: KeyPath) -> bool:
    if place[0] == "validation":
        return place[1:] in (("files",), ("store",))
    if place[0] not in ("stores", "conversations", "llms"):
        return False
    names = place[1:] if place[0] == "conversations" else place[2:]
    words = _FILE_WORDS - {"path"} if place[0] == "llms" else _FILE_WORDS  # there it is part of an address
    return any(isinstance(key, str) and not words.isdisjoint(key.lower().split("_")) for key in names)


def _tools(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    items = at(data, ("tools", "registry"))
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield ("tools", "registry", number), item
