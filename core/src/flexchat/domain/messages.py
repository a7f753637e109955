"""Messages and their parts, the same for every provider.

Source: the neutral message model (docs/contributing/architecture.md, "The neutral model").
"""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from ..errors import json_error_message
from .text import STRICT_JSON, scrub, scrub_json

STORED = "stored"
"""Key in a field's metadata: the type it has in stored data, where that is not its annotation's; see codec.py."""


def new_call_id() -> str:
    """Return an id for a tool call: unique, and legal at every provider (at most 40 of A-Z a-z 0-9 _ -)."""
    return "call_" + secrets.token_urlsafe(16)


@attrs.frozen(kw_only=True)
class ProviderData:
    """Opaque data that one provider wants back with the next request. Never shown, logged or edited.

    Attributes:
        scope: The dialect that made it: "openai", "gemini".
        origin: scheme://host[:port] of the endpoint that made it. It goes back only if both match.
        data: JSON only.
    """

    scope: str
    origin: str
    data: Mapping[str, Any]


@attrs.frozen
class TextPart:
    """A stretch of text."""

    text: str = attrs.field(converter=scrub)
    citations: tuple[Mapping[str, Any], ...] = attrs.field(default=(), kw_only=True, metadata={STORED: tuple[Any, ...]})
    provider_data: ProviderData | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(kw_only=True)
class ReasoningPart:
    """The model's thinking. Replayed to the endpoint it came from, and shown to no other."""

    text: str = attrs.field(default="", converter=scrub)
    redacted: bool = False
    provider_data: ProviderData | None = None


@attrs.frozen
class RefusalPart:
    """The model's words for "no"."""

    text: str = attrs.field(converter=scrub)
    provider_data: ProviderData | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(kw_only=True)
class MediaPart:
    """An image, a sound, a film or a document; exactly one of data and url is set."""

    kind: Literal["image", "audio", "video", "document"]
    mime_type: str
    data: bytes | None = None
    url: str | None = None
    name: str | None = None
    provider_data: ProviderData | None = None

    @functools.cached_property
    def sha256(self) -> str:
        """The digest of the data, as a MediaStore names them: 64 hexadecimal digits."""
        return hashlib.sha256(self.data or b"").hexdigest()


@attrs.frozen(kw_only=True)
class OpaquePart:
    """A block we do not interpret, kept in its place and replayed to its origin."""

    kind: str
    provider_data: ProviderData


@attrs.frozen(kw_only=True)
class ToolCall:
    """A model's request to run a tool. Made with ``from_text`` or ``from_object``.

    Attributes:
        id: Ours, see new_call_id.
        arguments: The parsed object; None if the model did not write one.
        raw_arguments: The text as the model wrote it, if the provider sends text.
        error: Why arguments is None, phrased for the model to act on.
        wire_id: The provider's own id; None if it gave none.
        notes: Ambiguities in the arguments: a name given twice, whose last value counts.
    """

    name: str = attrs.field(converter=scrub)
    arguments: Mapping[str, Any] | None
    raw_arguments: str | None = None
    error: str | None = None
    wire_id: str | None = None
    provider_data: ProviderData | None = None
    notes: tuple[str, ...] = ()
    id: str = attrs.field(factory=new_call_id)

    @classmethod
    def from_text(cls, name: str, text: str | None, *, truncated: bool = False, **rest: Any) -> ToolCall:
        """Read arguments given as JSON text. Anything but a JSON object is kept and explained; nothing is raised.

        Args:
            text: As the model wrote it; empty or None means no arguments.
            truncated: The output limit was reached while the model wrote this call, so even
                arguments that parse may not be what it meant.
        """
        raw = scrub(text or "")
        if truncated:
            return cls(name=name, arguments=None, raw_arguments=raw, error=CUT_OFF, **rest)
        try:
            value = _read_json(raw) if raw.strip() else {}
            # Every name has a colon: only if there are more colons than names may one have been given twice.
            twice = _duplicate_keys(raw) if raw.count(":") != _count_names(value) else []
            if "\\u" in raw:  # half a surrogate pair may be written as an escape
                value = scrub_json(value)
        except RecursionError:
            return cls(name=name, arguments=None, raw_arguments=raw, error=_TOO_DEEP, **rest)
        except ValueError as error:
            return cls(name=name, arguments=None, raw_arguments=raw, error=_not_json(error), **rest)
        if not isinstance(value, dict):
            problem = f"arguments must be a JSON object, got {_json_type(value)}"
            return cls(name=name, arguments=None, raw_arguments=raw, error=problem, **rest)
        notes = tuple(scrub(f"'{each[:80]}' was given more than once; the last value counts") for each in twice[:20])
        return cls(name=name, arguments=value, raw_arguments=raw, notes=notes, **rest)

    @classmethod
    def from_object(cls, name: str, value: Mapping[str, Any] | None, **rest: Any) -> ToolCall:
        """Copy arguments given as an object into the call; None means none. Anything else is explained, not raised."""
        if value is not None and not isinstance(value, Mapping):
            return cls(
                name=name, arguments=None, error=f"arguments must be a JSON object, got {_json_type(value)}", **rest
            )
        try:
            return cls(name=name, arguments=scrub_json(dict(value or {})), **rest)
        except RecursionError:
            return cls(name=name, arguments=None, error=_TOO_DEEP, **rest)

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON text: as the model wrote them, if it wrote text."""
        if self.raw_arguments is not None:
            return self.raw_arguments
        return json.dumps(dict(self.arguments or {}), ensure_ascii=False, default=str)

    def if_whole(self) -> ToolCall:
        """Return the last call of an answer with no finish reason; refused if it may have been cut off.

        A call cut off at its start has no arguments, just like a call of a tool that takes none: it must not run on a
        guess.
        """
        if self.arguments or (self.arguments is not None and (self.raw_arguments or "").strip()):
            return self
        return attrs.evolve(self, arguments=None, raw_arguments=self.raw_arguments or "", error=PERHAPS_CUT_OFF)


_TOO_DEEP = "the JSON is nested too deeply"
CUT_OFF = "the output limit was reached while the call was being written, so it was not executed"
PERHAPS_CUT_OFF = (
    "the call may have been cut off (its arguments are missing or incomplete, and why the answer ends cannot be read), "
    "so it was not executed"
)


def _not_json(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        detail = f"{json_error_message(error)} at character {error.pos}"
    else:  # Python's own text for an integer too long to read names a Python function
        detail = "an integer has more digits than can be read" if "digits" in str(error) else str(error)
    return f"not valid JSON ({detail}); write the arguments again as one JSON object"


_read_json = STRICT_JSON.decode


def _count_names(value: Any) -> int:
    count, waiting = 0, [value]
    for each in waiting:
        if type(each) is dict:
            count += len(each)
            each = each.values()
        elif type(each) is not list:
            continue
        waiting.extend([inner for inner in each if type(inner) is dict or type(inner) is list])
    return count


def _duplicate_keys(raw: str) -> list[str]:
    twice: list[str] = []

    def read(pairs: list[tuple[str, Any]]) -> None:
        if len({name for name, _ in pairs}) < len(pairs):
            times = Counter(name for name, _ in pairs)
            twice.extend(name for name, count in times.items() if count > 1)

    json.loads(raw, object_pairs_hook=read)
    return twice


def _json_type(value: object) -> str:
    names = {str: "a string", list: "an array", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


AssistantPart = TextPart | ReasoningPart | RefusalPart | MediaPart | ToolCall | OpaquePart
"""A part of a model's answer."""


def _parts_of(said: str | tuple[AssistantPart, ...]) -> tuple[AssistantPart, ...]:
    return (TextPart(said),) if isinstance(said, str) else said


# Messages carry a memo of their form in a dialect, so that a long history is encoded once, not once per request.
# It is not part of a message's value (not compared, not shown), and dies with it.


@attrs.frozen
class SystemMessage:
    """Instructions: the rule's prompt with its variables filled in."""

    content: str
    memo: dict[Any, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    role: Literal["system"] = attrs.field(default="system", init=False)


@attrs.frozen
class UserMessage:
    """A user's message: its text and its media.

    ``pinned`` keeps it in every request, however much of the history is left out.
    """

    content: str
    media: tuple[MediaPart, ...] = attrs.field(default=(), kw_only=True)
    pinned: bool = attrs.field(default=False, kw_only=True)
    memo: dict[Any, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    role: Literal["user"] = attrs.field(default="user", init=False)


@attrs.frozen
class AssistantMessage:
    """An answer of the model, its parts in the order it wrote them. A text alone is one part."""

    parts: tuple[AssistantPart, ...] = attrs.field(default=(), converter=_parts_of)
    provider_data: ProviderData | None = attrs.field(default=None, kw_only=True)
    memo: dict[Any, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    role: Literal["assistant"] = attrs.field(default="assistant", init=False)

    @property
    def content(self) -> str | None:
        """All text, joined; None if there is none."""
        return "".join([part.text for part in self.parts if type(part) is TextPart]) or None

    @property
    def refusal(self) -> str | None:
        """The model's words for "no", joined; None if it did not refuse."""
        return "".join([part.text for part in self.parts if type(part) is RefusalPart]) or None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in the order the model wrote them."""
        parts = self.parts
        if len(parts) == 1:  # asked for several times in a turn, and most answers have one part
            return (parts[0],) if type(parts[0]) is ToolCall else ()
        return tuple([part for part in parts if type(part) is ToolCall])


@attrs.frozen(kw_only=True)
class ToolMessage:
    """The answer to one tool call. Every ToolCall is followed by exactly one.

    Attributes:
        tool_call_id: The ToolCall's id (ours; a dialect looks up the call's wire_id).
        content: The text for the model: a ToolResult as JSON, shortened if it was too long.
        is_error: For dialects that can mark an error in addition to the text.
        media: Media shown to the model with it, if it accepts them: see MediaInResultsProvider.
        loads: Names of deferred tools that later requests have.
    """

    tool_call_id: str
    name: str
    content: str
    is_error: bool = False
    media: tuple[MediaPart, ...] = ()
    loads: tuple[str, ...] = ()
    memo: dict[Any, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    role: Literal["tool"] = attrs.field(default="tool", init=False)


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message of a conversation."""
