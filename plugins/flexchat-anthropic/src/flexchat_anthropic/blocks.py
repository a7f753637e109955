"""A block of an answer, from its beginning to the part that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AnswerParts,
    AssistantPart,
    OpaquePart,
    ReasoningPart,
    TextPart,
    WrongShape,
    finite,
    from_bytes,
    known_text,
    to_text,
    utf8,
    with_own_names,
)


@attrs.define(eq=False)
class Block:
    """A content block that is being streamed.

    Attributes:
        number: Its index, if readable.
        rest: Its fields that are not collected here.
        at: Its position among the parts; -1 while it is empty.
        pieces: Pieces of its text, or of its input as JSON.
        wire_id: The id of a call.
    """

    kind: str
    number: int | None
    rest: dict[str, Any]
    at: int = -1
    pieces: list[str] = attrs.field(factory=list)
    citations: list[Mapping[str, Any]] = attrs.field(factory=list)
    wire_id: str | None = None

    def call(self, parts: AnswerParts, *, is_cut: bool) -> tuple[ToolCall, str]:
        """Return the call that it is, and its input as text if it came whole.

        Args:
            is_cut: There was no more room: even an input that parses may be half of one.

        Raises:
            WrongShape: The input is not an object.
        """
        name, input = self.rest["name"], self.rest.get("input", {})
        rest = {key: value for key, value in self.rest.items() if key not in ("name", "input", "id")}
        fields: dict[str, Any] = {"wire_id": self.wire_id, "provider_data": parts.ours(_data_to_return(rest))}
        text = "".join(self.pieces)
        if text or input == {}:
            return with_own_names(ToolCall.from_text(name, text, truncated=is_cut, **fields)), ""
        if not isinstance(input, Mapping):
            raise WrongShape(f"the input of the call of {name[:100]}", "an object", input)
        try:
            text = to_text(finite(input))
        except RecursionError:
            text = "[]"  # not an object, and so not run
        if is_cut or text == "[]":
            return ToolCall.from_text(name, text, truncated=is_cut, **fields), text
        return with_own_names(ToolCall.from_object(name, input, **fields)), text

    def part(self, parts: AnswerParts) -> AssistantPart:
        """Return the part that it is, if it is not a call."""
        text = "".join(self.pieces)
        if self.kind == "text":
            own = _data_to_return(self.rest)
            data = parts.ours(own) if own or self.citations else None
            return TextPart(text=text, citations=tuple(self.citations), provider_data=data)
        if self.kind == "thinking":
            return ReasoningPart(text=text, redacted=not text, provider_data=parts.ours(_data_to_return(self.rest)))
        if text:
            # The input of a server's tool; what cannot be read goes back as it began.
            try:
                self.rest["input"] = from_bytes(utf8(text))
            except ValueError:
                parts.warn(f"the input of {str(self.rest.get('name'))[:100]} cannot be read")
        data = parts.ours({"block": self.rest} if self.rest else {})
        if self.kind == "redacted_thinking":
            return ReasoningPart(redacted=True, provider_data=data)
        return OpaquePart(kind=self.kind, provider_data=data)


def kind_of(block: Mapping[str, Any], where: str) -> str:
    """Return a block's type, also if it only shows in what the block holds; an empty one for one of unknown type.

    Raises:
        WrongShape: The block may be a call of a tool of ours: a server's own has another kind of id.
    """
    kind = block.get("type")
    if isinstance(kind, str):
        return kind
    if "text" in block or "thinking" in block:
        return "text" if "text" in block else "thinking"
    if "name" in block and (known_text(block.get("id")) or "toolu_").startswith("toolu_"):
        raise WrongShape(f"{where}.type", "text", kind)
    return ""


def _data_to_return(rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are sent back with a part, without those that the part already contains."""
    rest = {name: value for name, value in rest.items() if name != "type"}
    return {"block": rest} if rest else {}
