"""flexchat.tools.lock: the tools that were accepted from each source, in a file that people review and commit.

Below: the differences between two versions of a tool, place by place.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from flexchat.domain.sourced import SourcedTool
from flexchat.errors import ToolDefinitionError, ToolsLockError, json_error_message
from flexchat.files import path_exists, read_file, replacing

LOCK_NAME = "flexchat.tools.lock"

VERSION = 1
MAX_BYTES = 256 * 2**20  # a larger file is refused: it is not ours

_ABOUT = "Tools accepted from sources. FlexChat writes this file (flexchat tools accept); review and commit it."
_RESTORE = "restore it (git checkout), or delete it, and with it what was accepted"


@attrs.frozen(kw_only=True)
class KeptSource:
    """The stored record of one source.

    Attributes:
        type: Name of its ToolSourceType.
        fingerprint: That of the source when all its tools were the accepted ones; empty if unknown.
        tools: The accepted ones, by the source's names.
        edited: As written, those that differ from the accepted ones: their hash does not fit. They stay in the file.
    """

    type: str
    fingerprint: str = ""
    tools: Mapping[str, SourcedTool] = attrs.field(factory=dict)
    edited: Mapping[str, Any] = attrs.field(factory=dict)


class ToolsLock:
    """The file. It is read when it is needed, and again when it has changed.

    A file that is not in FlexChat's form is never overwritten: every method raises ToolsLockError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_signature: tuple[int, ...] | None = None
        self._records: Mapping[str, KeptSource] = {}
        self._trouble: str | None = None

    @property
    def has_changed(self) -> bool:
        """Whether the file was read, and is another one now: one look at its date."""
        return self._last_signature is not None and self._signature() != self._last_signature

    def read(self) -> Mapping[str, KeptSource]:
        """Return the stored sources by name.

        Raises:
            ToolsLockError: The file is damaged or cannot be read.
        """
        # Taken before the file is read: a change made meanwhile is then noticed by the next call.
        signature = self._signature()
        if signature != self._last_signature:
            try:
                self._records, self._trouble = self._load(), None
            except ToolsLockError as error:
                self._records, self._trouble = {}, str(error)
            self._last_signature = signature
        if self._trouble is not None:
            raise ToolsLockError(self._trouble)
        return self._records

    def update(self, change: Callable[[dict[str, KeptSource]], None]) -> None:
        """Change the records; the file is replaced as a whole, and no other process changes it meanwhile. Blocks.

        Raises:
            ToolsLockError: As read; or it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with lock_folder(self.path.parent):
                # Read inside the lock, not from memory: the file may hold what another process has just accepted.
                sources = dict(self._load())
                change(sources)
                with replacing(self.path) as file:
                    file.write(_text(sources))
        except OSError as error:
            raise ToolsLockError(f"{self.path} cannot be written: {error.strerror or error}") from None

    def _signature(self) -> tuple[int, ...]:
        try:
            status = os.stat(self.path)
        except (OSError, ValueError):
            return ()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _load(self) -> Mapping[str, KeptSource]:
        if not path_exists(self.path):
            return {}
        try:
            data = json.loads(read_file(self.path, most=MAX_BYTES).decode("utf-8"))
        except OSError as error:
            raise ToolsLockError(f"{self.path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self._damage_error("it is not UTF-8") from None
        except json.JSONDecodeError as error:
            merging = "; it has the marks of a merge conflict" if "<<<<<<<" in error.doc else ""
            raise self._damage_error(f"line {error.lineno} is not JSON: {json_error_message(error)}{merging}") from None
        except (RecursionError, ValueError):
            raise self._damage_error("it is nested too deeply, or has too long a number") from None
        version = data.get("version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise ToolsLockError(f"{self.path} was written by a later FlexChat (version {version}): update this one")
        sources = data.get("sources") if isinstance(data, dict) else None
        if version != VERSION or not isinstance(sources, dict):
            raise self._damage_error("it is not what FlexChat writes there")
        return {name: self._source(name, entry) for name, entry in sources.items()}

    def _source(self, name: str, entry: Any) -> KeptSource:
        tools = entry.get("tools") if isinstance(entry, dict) else None
        if not isinstance(tools, dict) or not all(isinstance(entry.get(key), str) for key in ("type", "fingerprint")):
            raise self._damage_error(f"its source '{name}' is not what FlexChat writes there")
        accepted: dict[str, SourcedTool] = {}
        edited: dict[str, Any] = {}
        for tool, data in tools.items():
            try:
                fields = {key: value for key, value in data.items() if key != "hash"}
                candidate = SourcedTool.from_dict({"name": tool, **fields})
                if data.get("hash") != f"sha256:{candidate.digest}":
                    edited[tool] = data
                else:
                    accepted[tool] = candidate
            except (ToolDefinitionError, AttributeError, TypeError):
                edited[tool] = data
        return KeptSource(type=entry["type"], fingerprint=entry["fingerprint"], tools=accepted, edited=edited)

    def _damage_error(self, why: str) -> ToolsLockError:
        return ToolsLockError(f"{self.path} is damaged, so no tool of a source is offered: {why}; {_RESTORE}")


def _text(records: Mapping[str, KeptSource]) -> str:
    """Return the file's content. Sources and tools are in order of their names; a tool's own keys stay in theirs."""
    sources = {}
    for name, source in sorted(records.items()):
        tools = dict(source.edited)
        for tool, definition in source.tools.items():
            tools[tool] = {"hash": f"sha256:{definition.digest}", **definition.to_dict()}
            del tools[tool]["name"]
        in_order = {tool: tools[tool] for tool in sorted(tools)}
        sources[name] = {"type": source.type, "fingerprint": source.fingerprint, "tools": in_order}
    data = {"about": _ABOUT, "version": VERSION, "sources": sources}
    text = json.dumps(data, indent=1, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        text = json.dumps(data, indent=1)
    return text + "\n"


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time into the block, for a file in the folder; on Windows, all of them."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    # The folder is locked, because the file itself is replaced: a lock on it would stay with the old one. Closing the
    # descriptor releases the lock, as does the end of a killed process.
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


MISSING: Final = object()  # stands for a value that is not there


@attrs.frozen(kw_only=True)
class Difference:
    """One place in which two versions of a tool differ.

    Attributes:
        place: The keys that lead there: "parameters.properties.city.type".
        before, now: The values; MISSING where there is none.
    """

    place: str
    before: Any = MISSING
    now: Any = MISSING

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data; a value that is not there is left out."""
        values = {"before": self.before, "now": self.now}
        return {"place": self.place, **{key: value for key, value in values.items() if value is not MISSING}}


def differences(before: SourcedTool, now: SourcedTool) -> list[Difference]:
    """Return every place in which a tool is another one now, the smallest there are."""
    return [*_of(before.to_dict(), now.to_dict(), "")]


def _of(before: Any, now: Any, place: str) -> Iterator[Difference]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in {**before, **now}:
            yield from _of(before.get(key, MISSING), now.get(key, MISSING), f"{place}.{key}" if place else str(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _of(old, new, f"{place}[{index}]")
    elif type(before) is not type(now) or before != now:
        yield Difference(place=place, before=before, now=now)
