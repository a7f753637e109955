"""An answer, put together from its pieces: what all services' answers have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..domain.chat import ChatResult, Usage
from ..domain.events import (
    AnswerEnd,
    ChatEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..domain.messages import (
    AssistantMessage,
    AssistantPart,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from ..http.answer_shape import WireIds, known_count
from ..http.wire_json import finite, to_text

# These say more than "there are calls".
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
    """One answer on its way. Parts stand in the order in which they began.

    Args:
        scope, origin: What of the answer goes back to its service alone carries these: see ProviderData.
        joined: One text and one thought, also where something else came between their pieces.
    """

    def __init__(self, scope: str, origin: str, *, joined: bool = False) -> None:
        self._scope, self._origin, self._joined = scope, origin, joined
        self._at: dict[str, int] = {}
        self._parts: list[_Piecewise | AssistantPart] = []
        self._is_closed = False
        self._open_calls: dict[Hashable, int] = {}
        self._ids = WireIds()
        self._warnings: list[str] = []

    def text(self, piece: str, data: Mapping[str, Any] | None = None) -> TextDelta:
        """Take more text; data goes back with it."""
        return TextDelta(self._grow("text", piece, data), piece)

    def reasoning(self, piece: str, data: Mapping[str, Any] | None = None) -> ReasoningDelta:
        """Take more of a thought; data goes back with it, also where it is empty. None: the thought stays here."""
        return ReasoningDelta(self._grow("reasoning", piece, data), piece)

    def refusal(self, piece: str) -> None:
        """Take more of the model's words for "no"."""
        self._grow("refusal", piece, None)

    def close(self) -> None:
        """End the text, the thought or the refusal that grows: more of its kind is a part of its own."""
        self._is_closed = True

    def cite(self, citations: Sequence[Mapping[str, Any]]) -> None:
        """Take what the text rests on; it stands with the last text that says something."""
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
        """Take a call that comes whole.

        Args:
            wire_id: The service's id for it, whatever came; one that another call has is left out.
            data: What goes back with it.
        """
        known: dict[str, Any] = {"wire_id": self._ids.take(wire_id), "provider_data": self.ours(data or {})}
        if isinstance(arguments, str):
            call = ToolCall.from_text(name, arguments, **known)
        else:
            call = ToolCall.from_object(name, arguments or {}, **known)
        at = self.add(call)
        yield ToolCallStart(at, name)
        raw = call.raw_arguments
        yield ToolCallDelta(at, to_text(finite(call.arguments)) if raw is None else raw)
        yield ToolCallEnd(at, call)

    def begin_call(
        self, key: Hashable, name: str, *, wire_id: object = None, data: Mapping[str, Any] | None = None
    ) -> ToolCallStart:
        """Take a call whose arguments come in pieces. key: What the pieces are told by."""
        self._open_calls[key] = len(self._parts)
        self._parts.append(_Piecewise("call", name, self._ids.take(wire_id), data or {}))
        return ToolCallStart(len(self._parts) - 1, name)

    def has_call(self, key: Hashable) -> bool:
        """Say whether a call with this key has begun."""
        return key in self._open_calls

    def arguments(self, key: Hashable, piece: str) -> ToolCallDelta:
        """Take more of a call's arguments, which are JSON text."""
        at = self._open_calls[key]
        self._parts[at].pieces.append(piece)  # type: ignore[union-attr]  # what grows
        return ToolCallDelta(at, piece)

    def opaque(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take what only the service understands, and wants back."""
        self.add(OpaquePart(kind=kind, provider_data=self.ours(data)))

    def add(self, part: AssistantPart) -> int:
        """Take a part that comes whole, as a picture, and return its place."""
        self._parts.append(part)
        return len(self._parts) - 1

    def replace(self, at: int, part: AssistantPart) -> None:
        """Put another part in place of one that was added: what it holds is only known now."""
        self._parts[at] = part

    @property
    def content(self) -> str:
        """The text that has come."""
        return "".join([part.text for part in self._parts if type(part) is _Piecewise and part.kind == "text"])

    def ours(self, data: Mapping[str, Any]) -> ProviderData:
        """Return data as what goes back to this service alone."""
        return ProviderData(scope=self._scope, origin=self._origin, data=data)

    def warn(self, text: str) -> None:
        """Note what could not be honoured; once."""
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
        """Yield the calls that are complete now and, last, AnswerEnd.

        That there are calls decides: services say "stop" beside them. An answer that was cut stays a cut answer.

        Args:
            raw_finish: The service's word for why the answer ends; None if it said none.
            finish: Our word, where the service's does not decide.
            words: What its words mean in ours; one that is not there stays as it is.
            data: What goes back with the whole message.
        """
        is_unclear = raw_finish is None and finish is None
        if is_unclear:
            self.warn("the answer ended without a finish reason; it may be incomplete")
        finish = finish or (words or {}).get(raw_finish or "", raw_finish)
        calls = [at for at, part in enumerate(self._parts) if type(part) is ToolCall or self._grows(at, "call")]
        if finish not in _STRONGER and calls:
            finish = "tool_calls"
        elif finish not in _STRONGER and self._has("refusal") and not self._has("text"):
            finish = "refusal"
        is_cut = finish == "length" or is_unclear
        parts = [self._made(part, is_cut and [at] == calls[-1:]) for at, part in enumerate(self._parts)]
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
                model=model,
                response_id=response_id,
                warnings=tuple(self._warnings),
            )
        )

    def _grow(self, kind: str, piece: str, data: Mapping[str, Any] | None) -> int:
        """Add to the last part, if it is of that kind and grows, else to a new one; return its index."""
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

    def _made(self, part: _Piecewise | AssistantPart, is_cut: bool) -> AssistantPart:
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
        known: dict[str, Any] = {"wire_id": part.wire_id, "provider_data": self.ours(part.data or {})}
        call = ToolCall.from_text(part.name, part.text, **known)
        # A call at the end of an answer that was cut off may have lost all its arguments without a trace.
        if is_cut and (call.arguments is None or not part.text.strip()):
            return ToolCall.from_text(part.name, part.text, truncated=True, id=call.id, **known)
        return call


def usage_of(table: object, **keys: str) -> Usage | None:
    """Return a usage table as Usage; what is not a count is left out. None for no table.

    Args:
        keys: Where it stands, by our name without "_tokens": ``input="prompt_tokens"``. A dot leads into a table.
    """
    if not table or not isinstance(table, Mapping):
        return None
    return Usage(raw=table, **{f"{ours}_tokens": _count(table, theirs) for ours, theirs in keys.items()})


def _count(table: object, path: str) -> int | None:
    *outer, last = path.split(".")
    for key in outer:
        table = table.get(key) if isinstance(table, Mapping) else None
    return known_count(table, last)
