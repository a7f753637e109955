"""The configuration's file: its text, its version, its differences from another text, and how it is replaced."""

from __future__ import annotations

import datetime
import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import tomlkit
from flexchat import ConfigError
from flexchat.host import MAX_BYTES, ConfigDocument, parse_document, read_file
from flexchat.store import replacing
from flexchat_sdk import dumped_yaml

from ..problems import ApiError
from ..serving import Serving

Format = Literal["toml", "yaml", "json"]
MAX_COMPARED = 400
"""Changed lines, first to last, that are compared one by one; more are shown as one change."""

CONTEXT = 3

_FORMATS: dict[str, Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


@attrs.frozen(kw_only=True)
class ConfigFile:
    """A configuration as text.

    Attributes:
        path: Its file; None for tables without one: the demo's, or those from a request.
        text: As written, including secrets.
        version: Identifies this text.
    """

    path: Path | None
    format: Format
    text: str
    version: str

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.path.name if self.path is not None else f"flexchat.{self.format}"

    def parse(self, text: str) -> ConfigDocument:
        """Parse a text in this file's format.

        Raises:
            ConfigError: The text does not have the format of the file's suffix.
        """
        return parse_document(text, self.path if self.path is not None else self.name)


def current_file(serving: Serving) -> ConfigFile:
    """Read the configuration file from disk, or the current tables if there is no file.

    Raises:
        ApiError: 409: the file cannot be read.
    """
    path = serving.source if isinstance(serving.source, Path) else None
    if path is None or serving.in_memory:
        text = written_as(serving.written, "toml")
        return ConfigFile(path=None, format="toml", text=text, version=_version(text.encode()))
    try:
        raw = read_file(path, most=MAX_BYTES)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "") if isinstance(error, OSError) else "it is not UTF-8"
        raise ApiError(409, f"the file {path.name} cannot be read: {reason}", kind="config-file") from None
    return ConfigFile(path=path, format=format_of(path), text=text, version=_version(raw))


def written_as(data: Mapping[str, Any], format: Format) -> str:
    """Return tables as the text of a file.

    Raises:
        ApiError: 409: YAML cannot be written here.
    """
    if format == "json":
        return json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n"  # TOML also has dates
    if format == "yaml":
        try:
            return dumped_yaml(data)
        except ImportError:
            raise ApiError(409, "YAML needs a writer: pip install 'flexchat-core[yaml]'", kind="config-file") from None
    return tomlkit.dumps(_without_null(data))


def save(path: Path, text: str, *, version: str) -> None:
    """Replace a file's text: all of it or nothing, whatever happens meanwhile. Permissions stay.

    Raises:
        ApiError: 409: it is no longer the version that was changed, or it cannot be written.
    """
    if len(text.encode("utf-8")) > MAX_BYTES:
        raise ApiError(409, f"a configuration has at most {MAX_BYTES // 1024 // 1024} MiB", kind="config-file")
    try:
        with replacing(path) as file:
            file.write(text)
            if _version(read_file(path, most=MAX_BYTES)) != version:
                raise changed_meanwhile(path.name)
    except OSError as error:
        raise ApiError(
            409, f"the file {path.name} cannot be written: {error.strerror or error}", kind="config-file"
        ) from None


def changed_meanwhile(name: str) -> ApiError:
    """Return the error for a file that is not what the client saw."""
    return ApiError(
        409, f"{name} has changed in the meantime: load it again and repeat your change", kind="config-version"
    )


def format_of(path: Path | str) -> Format:
    """Return the format of a file by its suffix; default: TOML."""
    return _FORMATS.get(Path(path).suffix.lower(), "toml")


def _version(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:32]


def _without_null(value: Any) -> Any:
    """Return data as TOML can express it: keys without a value are left out."""
    if isinstance(value, Mapping):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value if item is not None] if isinstance(value, (list, tuple)) else value


def tables_of(text: str, format: str) -> Any:
    """Return a text as JSON data, with references to the environment unexpanded; None if it cannot be read."""
    try:
        return _json_data(parse_document(text, f"flexchat.{format}").data)
    except ConfigError:
        return None


def _json_data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_data(item) for item in value]
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else value


def unified_diff(before: Sequence[str], after: Sequence[str], name: str) -> list[str]:
    """Return a unified diff of two texts, as patch reads it, in linear time.

    The common start and end are found first. difflib, which may take cubic time, only handles the rest, and only if
    that is short.
    """
    shortest = min(len(before), len(after))
    head = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    tail = next((i for i in range(shortest - head) if before[-1 - i] != after[-1 - i]), shortest - head)
    start, ends = max(0, head - CONTEXT), (len(before) - tail, len(after) - tail)
    if max(ends) - head <= MAX_COMPARED:
        lines = difflib.unified_diff(
            before[start : ends[0] + CONTEXT], after[start : ends[1] + CONTEXT], name, name, lineterm="", n=CONTEXT
        )
        return [_moved(line, start) if line.startswith("@@ -") else line for line in lines]
    lead, trail = before[start:head], before[ends[0] : ends[0] + CONTEXT]
    removed, come = before[head : ends[0]], after[head : ends[1]]
    around = len(lead) + len(trail)
    return [
        f"--- {name}",
        f"+++ {name}",
        f"@@ -{_range(start, len(removed) + around)} +{_range(start, len(come) + around)} @@",
        *(f" {line}" for line in lead),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in come),
        *(f" {line}" for line in trail),
    ]


def _range(start: int, length: int) -> str:
    """Return a range as a unified diff writes it: from 1; of nothing, the line before it."""
    return f"{start + 1 if length else start},{length}"


def _moved(line: str, by: int) -> str:
    """Return the head of a hunk of a part as that of the whole."""
    words = line.split()
    for at in (1, 2):
        first, comma, length = words[at][1:].partition(",")
        words[at] = f"{words[at][0]}{int(first) + by}{comma}{length}"
    return " ".join(words)
