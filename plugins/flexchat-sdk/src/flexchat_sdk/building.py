"""Assembles an answer from its pieces: what all services' answers have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.domain.chat import ChatResult
from flexchat.domain.events import (
    AnswerEnd,
    ChatEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from flexchat.domain.messages import (
    AssistantMessage,
    AssistantPart,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from flexchat.domain.prices import Usage

from .dialects.sending import with_own_names
from .http.answer_shape import WireIds, known_count
from .http.wire_json import finite, to_text
from .reading import Unreadable

# These carry more information than "there are calls".
_STRONGER = ("length", "content_filter", "refusal", "malformed_tool_call")


@attrs.define
class _Piecewise:
    """A part that grows: a text, a thought, a refusal, or a call's arguments."""

    kind: str
    name: str = ""
    wire_id: str | None = None
    data: Mapping[str, Any] | None = None
    pieces: list[str] = attrs.field(factory=list)
    citations: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class AnswerParts:
    """One answer in progress. Parts are in the order in which they began.

    Args:
        scope, origin: Marks on the parts of the answer that go back only to its service: see ProviderData.
        joined: Whether to build one text and one thought, even if something else came between their pieces.

    Attributes:
        model, response_id: The names that the service gave its model and this answer.
    """

    def __init__(self, scope: str, origin: str, *, joined: bool = False) -> None:
        self._scope, self._origin, self._joined = scope, origin, joined
        self._at: dict[str, int] = {}
        self._parts: list[_Piecewise | AssistantPart] = []
        self._is_closed = False
        self._open_calls: dict[Hashable, int] = {}
        self._ids = WireIds()
        self._warnings: list[str] = []
        self.model: str | None = None
        self.response_id: str | None = None

    def text(self, piece: str, data: Mapping[str, Any] | None = None) -> TextDelta:
        """Add text; data goes back with it."""
        return TextDelta(self._grow("text", piece, data), piece)

    def reasoning(self, piece: str, data: Mapping[str, Any] | None = None) -> ReasoningDelta:
        """Add to a thought; data, even if empty, goes back with it. None: the thought does not go back."""
        return ReasoningDelta(self._grow("reasoning", piece, data), piece)

    def refusal(self, piece: str) -> None:
        """Add to the model's words for "no"."""
        self._grow("refusal", piece, None)

    def close(self) -> None:
        """End the growing text, thought or refusal: more of its kind starts a new part."""
        self._is_closed = True

    def cite(self, citations: Sequence[Mapping[str, Any]]) -> None:
        """Add the text's sources; they go with the last non-empty text."""
        texts = [part for part in self._parts if type(part) is _Piecewise and part.kind == "text"]
        for part in ([part for part in texts if part.text] or texts)[-1:]:
            part.citations = (*part.citations, *citations)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        *,
        wire_id: object = None,
        data: Mapping[str, Any] | None = None,
    ) -> Iterator[ChatEvent]:
        """Add a complete call.

        Args:
            wire_id: The service's id for it, of any type; one that another call already has is dropped.
            data: What goes back with it.
        """
        fields: dict[str, Any] = {"wire_id": self._ids.take(wire_id), "provider_data": self.ours(data or {})}
        if isinstance(arguments, str):
            call = ToolCall.from_text(name, arguments, **fields)
        else:
            call = ToolCall.from_object(name, arguments or {}, **fields)
        call = with_own_names(call)
        at = self.add(call)
        yield ToolCallStart(at, name)
        raw = call.raw_arguments
        yield ToolCallDelta(at, to_text(finite(call.arguments)) if raw is None else raw)
        yield ToolCallEnd(at, call)

    def begin_call(
        self, key: Hashable, name: str, *, wire_id: object = None, data: Mapping[str, Any] | None = None
    ) -> ToolCallStart:
        """Start a call whose arguments come in pieces. key: Identifies the pieces."""
        self._open_calls[key] = len(self._parts)
        self._parts.append(_Piecewise("call", name, self._ids.take(wire_id), data or {}))
        return ToolCallStart(len(self._parts) - 1, name)

    def has_call(self, key: Hashable) -> bool:
        """Return whether a call with this key has begun."""
        return key in self._open_calls

    def arguments(self, key: Hashable, piece: str) -> ToolCallDelta:
        """Add to a call's arguments, which are JSON text. Raises Unreadable for a call that has not begun."""
        at = self._open_calls.get(key)
        if at is None:
            raise Unreadable("sent arguments of a call that has not begun")
        self._parts[at].pieces.append(piece)  # type: ignore[union-attr]  # what grows
        return ToolCallDelta(at, piece)

    def opaque(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add a block that only the service understands and wants back."""
        self.add(OpaquePart(kind=kind, provider_data=self.ours(data)))

    def add(self, part: AssistantPart) -> int:
        """Add a complete part, such as a picture, and return its place."""
        self._parts.append(part)
        return len(self._parts) - 1

    def replace(self, at: int, part: AssistantPart) -> None:
        """Replace a part added earlier, whose content is known only now."""
        self._parts[at] = part

    @property
    def content(self) -> str:
        """The text so far."""
        return "".join([part.text for part in self._parts if type(part) is _Piecewise and part.kind == "text"])

    def ours(self, data: Mapping[str, Any]) -> ProviderData:
        """Return data marked to go back only to this service."""
        return ProviderData(scope=self._scope, origin=self._origin, data=data)

    def warn(self, text: str) -> None:
        """Add a warning about something that could not be honoured; each only once."""
        if text not in self._warnings:
            self._warnings.append(text)

    def end(
        self,
        raw_finish: str | None,
        *,
        finish: str | None = None,
        words: Mapping[str, str] | None = None,
        usage: Usage | None = None,
        model: str | None = None,
        response_id: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Iterator[ChatEvent]:
        """Yield the calls now complete and, last, AnswerEnd.

        The presence of calls decides: services say "stop" alongside them. A cut-off answer stays a cut-off answer.

        Args:
            raw_finish: The service's finish reason; None if it gave none.
            finish: Our finish reason, if the service's does not decide it.
            words: Maps the service's finish reasons to ours; unlisted ones pass unchanged.
            model, response_id: Instead of the attributes.
            data: The service's data to send back with the whole message.
        """
        if is_unclear := raw_finish is None and finish is None:
            self.warn("the answer ended without a finish reason; it may be incomplete")
        finish = finish or (words or {}).get(raw_finish or "", raw_finish)
        calls = [at for at, part in enumerate(self._parts) if type(part) is ToolCall or self._grows(at, "call")]
        if finish not in _STRONGER and calls:
            finish = "tool_calls"
        elif finish not in _STRONGER and self._has("refusal") and not self._has("text"):
            finish = "refusal"
        is_cut = finish == "length" or is_unclear
        parts = [self._build_part(part, is_cut and [at] == calls[-1:]) for at, part in enumerate(self._parts)]
        for at in calls:
            if self._grows(at, "call"):
                yield ToolCallEnd(at, parts[at])  # type: ignore[arg-type]  # a call
        message = AssistantMessage(parts=tuple(parts), provider_data=self.ours(data) if data else None)
        yield AnswerEnd(
            ChatResult(
                message=message,
                finish_reason=finish,
                raw_finish=raw_finish,
                usage=usage,
                model=model or self.model,
                response_id=response_id or self.response_id,
                warnings=tuple(self._warnings),
            )
        )

    def _grow(self, kind: str, piece: str, data: Mapping[str, Any] | None) -> int:
        """Add to the last part if it is of that kind and growing, otherwise to a new one; return its index."""
        at = self._at.get(kind, -1) if self._joined else len(self._parts) - 1
        part = self._parts[at] if at >= 0 else None
        if type(part) is not _Piecewise or part.kind != kind or self._is_closed:
            part = _Piecewise(kind)
            at = self._at[kind] = len(self._parts)
            self._parts.append(part)
            self._is_closed = False
        part.pieces.append(piece)
        if data is not None and part.data != data:
            part.data = {**(part.data or {}), **data}
        return at

    def _grows(self, at: int, kind: str) -> bool:
        part = self._parts[at]
        return type(part) is _Piecewise and part.kind == kind

    def _has(self, kind: str) -> bool:
        return any(self._grows(at, kind) for at in range(len(self._parts)))

    def _build_part(self, part: _Piecewise | AssistantPart, is_cut: bool) -> AssistantPart:
        if type(part) is not _Piecewise:
            return part  # type: ignore[return-value]  # what does not grow
        match part.kind:
            case "text":
                ours = None if part.data is None else self.ours(part.data)
                return TextPart(text=part.text, citations=part.citations, provider_data=ours)
            case "refusal":
                return RefusalPart(text=part.text, provider_data=self.ours({}))
            case "reasoning":
                ours = None if part.data is None else self.ours(part.data)
                return ReasoningPart(text=part.text, redacted=not part.text, provider_data=ours)
        fields: dict[str, Any] = {"wire_id": part.wire_id, "provider_data": self.ours(part.data or {})}
        call = ToolCall.from_text(part.name, part.text, **fields)
        # A call at the end of a cut-off answer may have lost all its arguments without a trace.
        if is_cut and (call.arguments is None or not part.text.strip()):
            return ToolCall.from_text(part.name, part.text, truncated=True, id=call.id, **fields)
        return with_own_names(call)


def usage_of(table: object, **keys: str) -> Usage | None:
    """Return a usage table as Usage, ignoring what is not a count. None for no table.

    Args:
        keys: Where each count is, by our name without "_tokens": ``input="prompt_tokens"``. A dot leads into a table.
    """
    if not table or not isinstance(table, Mapping):
        return None
    counts: dict[str, Any] = {f"{ours}_tokens": _count(table, theirs) for ours, theirs in keys.items()}
    return Usage(raw=table, **counts)


def _count(table: object, path: str) -> int | None:
    *outer, last = path.split(".")
    for key in outer:
        table = table.get(key) if isinstance(table, Mapping) else None
    return known_count(table, last)
