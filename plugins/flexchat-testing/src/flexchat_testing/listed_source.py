"""The tool source "listed": tools from a JSON file, for trying out what sources do without a service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from flexchat.host import read_file
from flexchat.plugin import SourcedTool, ToolSourceContext, ToolSourceError, ToolSourceType, key

_MAX_BYTES = 64 * 2**20


@attrs.frozen(kw_only=True)
class ListedSettings:
    """Keys of a ``[[tools.listed]]`` table."""

    file: str = key("JSON file with a list of tools: name, description, parameters, effect, implementation.")


class ListedSource:
    """The tools listed in a file, which is read when the source is opened and again by every ``tools``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fingerprint = hashlib.sha256(_content(path)).hexdigest()

    async def tools(self) -> Sequence[SourcedTool]:
        """Return the tools in the file now."""
        content = _content(self._path)
        self.fingerprint = hashlib.sha256(content).hexdigest()
        try:
            data = json.loads(content)
            return [_tool(entry) for entry in data]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ToolSourceError(f"{self._path} is not a JSON list of tools: {error}") from None

    async def aclose(self) -> None:
        """Nothing is open."""


def _tool(entry: Mapping[str, Any]) -> SourcedTool:
    rest = dict(entry)
    settings = dict(rest.pop("implementation", {"type": "mock", "mock_response": {}}))
    rest.setdefault("parameters", {"type": "object", "properties": {}})
    return SourcedTool(**rest, implementation=settings.pop("type"), settings=settings)


def _content(path: Path) -> bytes:
    try:
        return read_file(path, most=_MAX_BYTES)
    except OSError as error:
        raise ToolSourceError(f"{path} cannot be read: {error.strerror}") from None


async def _open(settings: ListedSettings, context: ToolSourceContext) -> ListedSource:
    return ListedSource((context.folder or Path()) / settings.file)


LISTED = ToolSourceType(
    name="listed", config_class=ListedSettings, open=_open, summary="tools listed in a JSON file, for tests"
)
