"""Masks the secrets of a configuration, and restores them when it is posted back.

A posted mask is replaced with the file's secret only if the file has one in the same place, and only if the entry still
has the same address: otherwise a changed base_url would send the key to another server.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import attrs
from flexchat import ConfigError, Problem, host
from flexchat.host import ConfigDocument, KeyPath, PluginHost, is_secret_path, secrets_of_environment, walk

from .editing import set_values

MASKED = "********"

SERVICES = {"llms": host.LLMEntry, "stores": host.StoreEntry}
_OWN_KEYS = host.own_keys(host.LLMEntry) | host.own_keys(host.StoreEntry) | host.own_keys(host.ConversationsTable)
_SENT_TO_ANY = ("topic", "intent", "validation")
"""Tables whose texts are sent to models that other tables choose."""
_PROSE = {"prompt", "description", "comment", "message", "text", "answer", "content", "detection"}
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
# A name is tried once, from its start, without backtracking: otherwise a line of one long word takes for ever.
_ASSIGNED = re.compile(r"""(["']?)(?<![\w.-])([\w.-]++)\1\s*[=:]\s*("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,{}\[\]#"']+)""")
_SCHEME = re.compile(r"(?i)^\s*(bearer|basic|token)\s+")
_TOKEN = re.compile(r"\b(?:sk|pk|rk|ghp|gho|xox[abps])[-_][\w-]{8,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}")
_MIN_SECRET = 6


def secret_places(data: Mapping[str, Any], plugins: PluginHost, mask: Callable[[str], str]) -> dict[KeyPath, Any]:
    """Return the places whose values are not shown, with the values.

    These are settings that a plugin marks as secret, keys named like one, headers sent to services, and whatever
    contains a secret from the environment or from elsewhere in the configuration, or looks like a key or password.
    """
    places: dict[KeyPath, Any] = {}
    for place, value in walk(data):
        if _is_literal(value) and _named_secret(place, data, plugins):
            places[place] = value
    secrets = {value for value in map(str, (*places.values(), *secrets_of_environment())) if len(value) >= _MIN_SECRET}
    for place, value in walk(data):
        if not isinstance(value, str) or place in places or value == MASKED:
            continue
        prose = any(isinstance(key, str) and key in _PROSE for key in place)
        literal = _REFERENCE.sub("", value)
        repeats = any(secret in value for secret in secrets)
        header = _is_header(place) and _is_literal(value)
        if repeats or header or _TOKEN.search(value) or (not prose and mask(literal) != literal):
            places[place] = value
    return places


def mask_secrets(text: str, document: ConfigDocument, plugins: PluginHost, mask: Callable[[str], str]) -> str:
    """Replace each secret of a configuration's text with MASKED, including those in comments."""
    return "\n".join(after for _, after in _lines(text, document, plugins, mask))


def with_comments(
    posted: str, text: str, document: ConfigDocument, plugins: PluginHost, mask: Callable[[str], str]
) -> str:
    """Return a posted text, with masked comments restored from the file."""
    masked = {after: before for before, after in _lines(text, document, plugins, mask) if before != after}
    return _lines_changed(posted, document, lambda line: masked.get(line, line)) if masked else posted


def _lines(
    text: str, document: ConfigDocument, plugins: PluginHost, mask: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield each line of a text without secrets in its values, and the same without those in its comments."""
    places = secret_places(document.data, plugins, mask)
    masked = set_values(text, document.source, dict.fromkeys(places, MASKED)) if places else text
    secrets = {value for value in map(str, (*places.values(), *secrets_of_environment())) if len(value) >= _MIN_SECRET}

    def hide(line: str) -> str:
        for secret in sorted(secrets, key=len, reverse=True):
            line = line.replace(secret, MASKED)
        return _TOKEN.sub(MASKED, line)

    def hide_comment(line: str) -> str:
        begin = line.find("#")
        return line if begin < 0 else line[:begin] + mask(line[begin:])

    hidden = _lines_changed(_lines_changed(masked, document, hide), document, hide_comment)
    return zip(masked.split("\n"), hidden.split("\n"), strict=True)


def shown_unread(text: str, mask: Callable[[str], str]) -> str:
    """Return a text that is not TOML or JSON, with everything masked that may be a secret."""
    shown_lines = []
    for line in text.split("\n"):
        pieces, at = [], 0
        for match in _ASSIGNED.finditer(line):
            _, name, value = match.groups()
            if any(host.is_secret_name(part) for part in name.split(".")):
                is_reference = "${" in value and ":-" not in value
                pieces += [mask(line[at : match.start(3)]), value if is_reference else f'"{MASKED}"']
                at = match.end()
        shown_lines.append(_TOKEN.sub(MASKED, "".join([*pieces, mask(line[at:])])))
    return "\n".join(shown_lines)


def behind_masks(
    posted: ConfigDocument, file: Mapping[str, Any], plugins: PluginHost, mask: Callable[[str], str]
) -> tuple[dict[KeyPath, Any], list[Problem]]:
    """Return the file's secrets for the masks in a posted configuration; a problem for each that may not be used."""
    secrets = secret_places(file, plugins, mask)
    values: dict[KeyPath, Any] = {}
    problems = []
    for place, value in walk(posted.data):
        if value != MASKED:
            continue
        if place not in secrets and at(file, place) != MASKED:
            problems.append(posted.problem(place, f"{MASKED} does not match a secret in the file: write the value"))
        elif not same_target(posted.data, file, place, secrets):
            text = "the file's secret cannot be combined with other settings than the file has: write it again"
            problems.append(posted.problem(place, text))
        else:
            values[place] = secrets.get(place, MASKED)
    return values, problems


def same_target(
    data: Mapping[str, Any], file: Mapping[str, Any], place: KeyPath, secrets: Mapping[KeyPath, Any] | None = None
) -> bool:
    """Return whether the entry around a place has the same recipient as in the file: its provider, and all settings.

    Keys that are core's own (a default model, retries, a description) may differ, and so may numbers other than ports.

    Args:
        secrets: The file's, for the masks in data.
    """
    depth = 2 if place[0] in SERVICES else 1 if place[0] == "conversations" else 3
    around = [place[:depth]] if depth < 3 else [place[:-1], place[:3]]
    if place[0] == "responses":  # what a rule holds goes to its services
        around += [("llms", service) for service in services_of(file, place[:2])]
    if place[0] in _SENT_TO_ANY:
        around += [("llms", service) for service in at(data, ("llms",)) or ()]
    return all(_facts(data, entry, secrets or {}) == _facts(file, entry, {}) for entry in around)


def services_of(data: Mapping[str, Any], rule: KeyPath) -> tuple[str, ...]:
    """Return who answers for a rule: its llm, and its fallbacks."""
    llm, fallback = at(data, (*rule, "llm")), at(data, (*rule, "fallback"))
    return tuple(name for name in (llm, *(fallback if isinstance(fallback, list) else ())) if isinstance(name, str))


def at(data: Any, place: KeyPath) -> Any:
    """Return the value at a place; None if there is no such place."""
    for key in place:
        try:
            data = data[key]
        except (LookupError, TypeError):
            return None
    return data


def _facts(data: Mapping[str, Any], entry: KeyPath, secrets: Mapping[KeyPath, Any]) -> dict[KeyPath, Any]:
    """Return the settings that determine an entry's recipient."""
    table = at(data, entry)
    if not isinstance(table, dict):
        return {}
    unmasked = (
        (place, secrets.get((*entry, *place), value) if value == MASKED else value) for place, value in walk(table)
    )
    return {place: value for place, value in unmasked if _decides(place, value)}


def _decides(place: KeyPath, value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return False
    if place[0] in _OWN_KEYS and place[0] != "provider":
        return False
    if isinstance(value, (bool, int, float)):
        return "port" in str(place[-1]).lower()
    # A token_url is named like a secret, but is the address to which one is sent.
    return not is_secret_path(place) or "://" in str(value)


def _named_secret(place: KeyPath, data: Mapping[str, Any], plugins: PluginHost) -> bool:
    depth = {**dict.fromkeys(SERVICES, 2), "conversations": 1}.get(str(place[0]))
    if depth is None:
        if place[0] == "tools" and place[1:2] != ("registry",) and place[3:4] == ("auth",):
            return True  # of a tool source: credentials, by any names
        return place[0] != "validation" and isinstance(place[-1], str) and host.is_secret_name(place[-1])
    inside = place[depth:]
    return is_secret_path(inside) or any(inside[: len(m)] == m for m in _marked(data, place[:depth], plugins))


def _is_header(place: KeyPath) -> bool:
    """Return whether a value is sent as a header: credentials may have any header name."""
    if place[0] == "tools":  # of the tool itself, not of its parameters or of a mock's answers
        return place[-2:-1] == ("headers",) and (place[-3] == "implementation" or isinstance(place[-3], int))
    return place[0] in SERVICES and any("headers" in str(key).lower() for key in place[2:-1])


def _marked(data: Mapping[str, Any], place: KeyPath, plugins: PluginHost) -> Collection[KeyPath]:
    """Return an entry's settings that its plugin marks as secret."""
    entry = at(data, place)
    records = {
        "llms": plugins.providers,
        "stores": plugins.document_stores,
        "conversations": plugins.conversation_stores,
    }[str(place[0])]
    name = entry.get("provider") if isinstance(entry, dict) else None
    kind = records.by_name.get(name.lower()) if isinstance(name, str) else None
    return _marked_of(kind.config_class) if kind is not None else ()


@functools.cache
def _marked_of(cls: type[Any]) -> tuple[KeyPath, ...]:
    """Return the fields that are marked as secret, also those of classes within the class."""
    hints, places = typing.get_type_hints(cls), []
    for field in attrs.fields(cls):
        if field.metadata.get("secret"):
            places.append((field.name,))
        for inner in (hints[field.name], *typing.get_args(hints[field.name])):
            if isinstance(inner, type) and attrs.has(inner):
                places += [(field.name, *below) for below in _marked_of(inner)]
    return tuple(places)


def _is_literal(value: Any) -> bool:
    """Return whether a value is written out, not a reference to the environment like "Bearer ${KEY}".

    A number may be an unquoted password; a short one is just a number.
    """
    if not isinstance(value, str):
        return isinstance(value, (int, float)) and len(str(value)) >= _MIN_SECRET
    rest = _SCHEME.sub("", value)
    literal = _REFERENCE.sub("", rest)
    return bool(literal) if literal == rest else len(literal.strip()) >= _MIN_SECRET


def _lines_changed(text: str, document: ConfigDocument, change: Callable[[str], str]) -> str:
    """Change lines of a text, but only where its data stays the same: in comments."""
    lines = text.split("\n")
    changes = {number: changed for number, line in enumerate(lines) if (changed := change(line)) != line}
    before = _data(text, document) if changes else None
    for number, changed in changes.items():
        line, lines[number] = lines[number], changed
        if _data("\n".join(lines), document) != before:
            lines[number] = line
    return "\n".join(lines)


def _data(text: str, document: ConfigDocument) -> Any:

    try:
        return host.parse_document(text, document.source or "flexchat.toml").data
    except ConfigError:
        return None


def changed_secrets(data: Mapping[str, Any], file: Mapping[str, Any]) -> Iterator[KeyPath]:
    """Yield the places of new secrets in a posted configuration."""
    for place, value in walk(data):
        if isinstance(value, str) and is_secret_path(place) and value != MASKED and at(file, place) != value:
            yield place
