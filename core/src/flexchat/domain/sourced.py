"""Tools that come from a tool source: as plain JSON, so that they can be kept, compared and accepted."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from ..errors import ToolDefinitionError
from .tools import EFFECTS, Implementation, ToolDefinition, is_timeout


@attrs.frozen(kw_only=True, slots=False)
class SourcedTool:
    """A tool as its source describes it.

    Everything in it is JSON data, because it is kept in flexchat.tools.lock, a file that people review and commit: no
    secrets.

    Attributes:
        name: The source's name for it. The tool is called this, after the prefix the config gives the source.
        description, parameters, effect, honours_key, timeout_ms, pinned: As in ToolDefinition.
        implementation: Name of the ImplementationType that runs it.
        settings: The rest of that type's implementation table: all that a call needs besides the arguments and the
            source's own settings, which a call finds in ``ToolContext.source``.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    implementation: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    effect: Literal["read", "idempotent", "write"] = "write"
    honours_key: bool = False
    timeout_ms: int | None = None
    pinned: bool = False

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of all of it, in hexadecimal digits; raises ToolDefinitionError if a part of it is not JSON data."""
        try:
            text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolDefinitionError(f"it is not JSON data: {error}") from None
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data, without fields that are not set."""
        data = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "effect": self.effect,
            "honours_key": self.honours_key or None,
            "timeout_ms": self.timeout_ms,
            "pinned": self.pinned or None,
            "implementation": {"type": self.implementation, **self.settings},
        }
        return {key: value for key, value in data.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SourcedTool:
        """Read the data that to_dict returns; raise ToolDefinitionError for anything else."""
        try:
            settings = dict(data["implementation"])
            kind = settings.pop("type")
            rest = {key: value for key, value in data.items() if key != "implementation"}
            tool = cls(**rest, implementation=kind, settings=settings)
            texts = (tool.name, tool.description, tool.implementation, tool.effect)
            is_typed = all(isinstance(text, str) for text in texts) and isinstance(tool.parameters, Mapping)
            is_timed = tool.timeout_ms is None or is_timeout(tool.timeout_ms)
            if not (is_typed and is_timed and tool.effect in EFFECTS and isinstance(tool.honours_key, bool)):
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ToolDefinitionError("this is not a tool") from None
        return tool

    def definition(self, source: str, prefix: str = "") -> ToolDefinition:
        """Return the tool that rules name and models call. Raises as ToolDefinition: a prefix may make a name long."""
        return ToolDefinition(
            name=prefix + self.name,
            description=self.description,
            parameters=self.parameters,
            implementation=Implementation(type=self.implementation, settings=self.settings),
            effect=self.effect,
            honours_key=self.honours_key and self.effect == "write",
            timeout_ms=self.timeout_ms,
            pinned=self.pinned is True,
            source=source,
        )


@attrs.frozen(kw_only=True)
class ToolChange:
    """The difference of one tool of a source from the accepted one.

    Attributes:
        name: As in SourcedTool.
        kind: "new": not accepted yet. "changed": no longer the accepted one. "gone": the source no longer has it.
        accepted: The accepted definition; None if new.
        now: The source's definition; None if gone.
        offered: Whether the accepted definition is still offered.
        warnings: Its source's warnings for the person who accepts it, once they were requested.
    """

    name: str
    kind: Literal["new", "changed", "gone"]
    accepted: SourcedTool | None = None
    now: SourcedTool | None = None
    offered: bool = False
    warnings: tuple[str, ...] = ()
