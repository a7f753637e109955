"""An answer of the Responses API as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    AssistantPart,
    ChatEvent,
    OpaquePart,
    ProviderData,
    ReasoningDelta,
    ReasoningPart,
    RefusalPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    WrongShape,
    known_count,
    known_text,
    list_in,
    objects_of,
    text_in,
    type_name,
)

from .prices import charged
from .responses_items import (
    SCOPE,
    ItemDraft,
    annotations_of,
    arguments_of,
    id_of,
    kind_of,
    name_of,
    refusal_of,
    text_of,
    thought_of,
)

_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length", "length": "length"}


class ResponseDraft:
    """An answer being read: its items in the order in which they began."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._items: list[ItemDraft] = []
        self._parts = 0
        self._after: str | None = None
        self._warnings: list[str] = []
        self.model: str | None = None
        self.response_id: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no item has begun."""
        return not self._items

    def take_frame(self, response: Mapping[str, Any]) -> None:
        """Take the fields around the items."""
        self.model = known_text(response.get("model")) or self.model
        self.response_id = known_text(response.get("id")) or self.response_id

    def begin(self, item: dict[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take an item that begins; it may be incomplete."""
        self._open(item, index)
        yield from self._announce(self._items[-1])

    def complete(self, item: dict[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take an item in its final form and yield what has not been passed on yet."""
        draft = self._find(kind_of(item), index, item.get("id"))
        if draft is None or draft.is_done:
            draft = self._open(item, index)
        yield from self._finish(draft, item)

    def add_rest(self, kind: str, key: str, event: Mapping[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take a value whole if add has taken no pieces of it."""
        draft = self._find(_OWNERS[kind], index, event.get("item_id"))
        if draft is not None and not (draft.refusal if kind == "refusal" else draft.pieces):
            yield from self.add(kind, key, event, index)

    def add(self, kind: str, key: str, event: Mapping[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take a piece.

        Args:
            kind: "text", "refusal", "arguments", "summary" or "thought".
            key: The event's key for the piece.

        Raises:
            WrongShape: It is not text, or it is unclear which item it belongs to.
        """
        piece = event.get(key)
        if not isinstance(piece, str) and _OWNERS[kind] == "reasoning":
            self._warn(f"reasoning is left out ({key}: expected text, got {type_name(piece)})")
            return
        piece = text_in(event, key, needed=True)
        if not piece:
            return
        owner = _OWNERS[kind]
        draft = self._find(owner, index, event.get("item_id"))
        if draft is None:
            draft = self._open({"type": owner}, index)
        if draft.is_done:
            return
        if kind == "refusal":
            self._place_refusal(draft)
            draft.refusal += piece
        elif owner == "reasoning":
            yield from self._think(draft, kind, event, piece)
        else:
            draft.pieces.append(piece)
            if kind == "text":
                yield TextDelta(draft.position, piece)
            elif draft.announced:
                yield ToolCallDelta(draft.position, piece)

    def end(self, response: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Take the finished response; yield the rest and, last, AnswerEnd with the result.

        Raises:
            WrongShape: A value has the wrong type where text or calls are expected.
        """
        self.take_frame(response)
        streamed = [*self._items]
        for place, (_, item) in enumerate(objects_of(list_in(response, "output"), "output")):
            known = streamed[place] if place < len(streamed) else None
            if known is None or known.kind != kind_of(item):
                known = next((d for d in streamed if d.is_done and id_of(d.item) == id_of(item) is not None), None)
            if known is None:
                yield from self._finish(self._open(item, None), item)
            elif not known.is_done:
                yield from self._finish(known, item)
        for draft in self._items:
            if not draft.is_done:  # a server that neither marks an item as done nor sends its full text
                yield from self._finish(draft, draft.item)
        finish, raw = self._finish_reason(response)
        last = next((draft for draft in reversed(self._items) if draft.kind == "function_call"), None)
        # "incomplete" without a reason, or no status at all: see ToolCall.if_whole.
        is_unclear = raw == "incomplete" or not isinstance(response.get("status"), str | None)
        parts: list[tuple[int, AssistantPart]] = []
        used: set[object] = set()
        for draft in self._items:
            made = self._build_parts(draft, used, is_cut=finish == "length" and draft is last)
            for position, part in made:
                if isinstance(part, ToolCall):
                    part = part.if_whole() if is_unclear and draft is last else part
                    yield ToolCallEnd(position, part)
                parts.append((position, part))
        parts.sort(key=lambda made: made[0])
        yield AnswerEnd(
            ChatResult(
                message=AssistantMessage(parts=tuple([part for _, part in parts])),
                finish_reason=finish,
                raw_finish=raw,
                usage=usage_of(response.get("usage")),
                model=self.model,
                response_id=self.response_id,
                warnings=tuple(self._warnings),
            )
        )

    def _open(self, item: dict[str, Any], index: int | None) -> ItemDraft:
        draft = ItemDraft(item, index, self._parts, self._after)
        self._items.append(draft)
        self._parts += 1
        if draft.kind == "reasoning":
            self._after = id_of(item)
        return draft

    def _find(self, kind: str, index: int | None, item_id: object) -> ItemDraft | None:
        """Return the item an event is about.

        Found by number, by id (llama.cpp has no numbers) or, failing that, as the open item of its kind: some servers
        change an item's id with each event.
        """
        mine = [draft for draft in self._items if draft.kind == kind]
        if index is not None and (placed := [draft for draft in mine if draft.index == index]):
            return placed[-1]
        loose = [draft for draft in mine if index is None or draft.index is None]
        if item_id and (named := next((d for d in loose if d.item.get("id") == item_id), None)):
            return named
        loose = [draft for draft in loose if not draft.is_done]
        if len(loose) > 1:
            raise WrongShape("output_index", "the number of an item", index)
        if not loose:
            return None
        loose[0].index = index
        return loose[0]

    def _finish(self, draft: ItemDraft, item: dict[str, Any]) -> Iterator[ChatEvent]:
        item = draft.item = draft.with_pieces(item)
        draft.is_done = True
        if draft.kind == "reasoning":
            self._after = id_of(item)
            rest = _rest(draft.text, thought_of(item))
            if rest:
                yield ReasoningDelta(draft.position, rest)
        elif draft.kind == "message":
            if refusal_of(item):
                self._place_refusal(draft)
            rest = _rest(draft.text, text_of(item))
            if rest:
                yield TextDelta(draft.position, rest)
        elif draft.kind == "function_call":
            name_of(item)
            said, draft.pieces = draft.text, [arguments_of(item)]
            if not draft.announced:
                yield from self._announce(draft, at_last=True)
            elif rest := _rest(said, draft.text):
                yield ToolCallDelta(draft.position, rest)

    def _announce(self, draft: ItemDraft, *, at_last: bool = False) -> Iterator[ChatEvent]:
        name = draft.item.get("name")
        if draft.kind == "function_call" and (name or at_last):
            draft.announced = True
            yield ToolCallStart(draft.position, name if isinstance(name, str) else "")
            if text := draft.text:
                yield ToolCallDelta(draft.position, text)

    def _think(self, draft: ItemDraft, kind: str, event: Mapping[str, Any], piece: str) -> Iterator[ChatEvent]:
        """Pass on a thought or its summary, whichever comes first: the other repeats it."""
        part = kind, event.get("summary_index" if kind == "summary" else "content_index")
        if isinstance(draft.thought_part, tuple) and draft.thought_part[0] != kind:
            return
        if draft.thought_part not in (None, part) and draft.pieces:
            piece = "\n\n" + piece
        draft.thought_part = part
        draft.pieces.append(piece)
        yield ReasoningDelta(draft.position, piece)

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def _place_refusal(self, draft: ItemDraft) -> None:
        """Give a refusal its own part if its item also has text."""
        if draft.refusal_position < 0:
            has_text = bool(draft.pieces or (draft.is_done and text_of(draft.item)))
            draft.refusal_position = self._parts if has_text else draft.position
            self._parts += has_text

    def _build_parts(self, draft: ItemDraft, used: set[object], *, is_cut: bool) -> list[tuple[int, AssistantPart]]:
        """Return an item's parts with their positions."""
        item = draft.item
        data: dict[str, Any] = {"item": item, "after": draft.after} if draft.after else {"item": item}
        ours = ProviderData(scope=SCOPE, origin=self._origin, data=data)
        if draft.kind == "reasoning":
            text = thought_of(item) or draft.text
            return [(draft.position, ReasoningPart(text=text, redacted=not text, provider_data=ours))]
        if draft.kind == "function_call":
            return [(draft.position, _call(draft, ours, used, is_cut))]
        if draft.kind == "message":
            text, refusal = text_of(item), refusal_of(item)
            made: list[tuple[int, AssistantPart]] = []
            if text:
                made.append((draft.position, TextPart(text=text, citations=annotations_of(item), provider_data=ours)))
            if refusal:
                if text:  # the item goes back with the first of its parts
                    ours = ProviderData(scope=SCOPE, origin=self._origin, data={"continues": True})
                made.append((draft.refusal_position, RefusalPart(text=refusal, provider_data=ours)))
            if made:
                return made
        return [(draft.position, OpaquePart(kind=draft.kind or "item", provider_data=ours))]

    def _finish_reason(self, response: Mapping[str, Any]) -> tuple[str, str]:
        """Return our finish reason and the server's word: this API has no finish reasons."""
        status, details = response.get("status"), response.get("incomplete_details")
        raw = status if isinstance(status, str) and status else "completed"
        reason = None
        if isinstance(details, dict) and isinstance(details.get("reason"), str):
            raw = details["reason"]
            reason = _INCOMPLETE.get(raw, raw)
        elif raw == "incomplete":
            reason = raw
        if reason in ("length", "content_filter"):
            return reason, raw
        if any(draft.kind == "function_call" for draft in self._items):
            return "tool_calls", raw
        if any(draft.refusal_position >= 0 for draft in self._items):
            return "refusal", raw
        return reason or "stop", raw


_OWNERS = {
    "text": "message",
    "refusal": "message",
    "arguments": "function_call",
    "summary": "reasoning",
    "thought": "reasoning",
}


def _call(draft: ItemDraft, ours: ProviderData, used: set[object], is_cut: bool) -> ToolCall:
    name, call_id = name_of(draft.item), known_text(draft.item.get("call_id")) or id_of(draft.item)
    # An id used for two calls of one answer would make the results ambiguous: the second call gets our own.
    wire_id = call_id if call_id not in used else None
    used.add(wire_id)
    rest: dict[str, Any] = {"wire_id": wire_id, "provider_data": ours}
    call = ToolCall.from_text(name, draft.text, **rest)
    # The last call of an answer that was cut off may have lost all its arguments without a trace.
    if draft.item.get("status") == "incomplete" or (is_cut and (call.arguments is None or not draft.text.strip())):
        return ToolCall.from_text(name, draft.text, truncated=True, id=call.id, **rest)
    return call


def _rest(said: str, whole: str) -> str:
    return whole[len(said) :] if whole.startswith(said) else ""


def usage_of(raw: object) -> Usage | None:
    """Return a usage table as Usage, without anything that is not a count; None if there is no table."""
    if not raw or not isinstance(raw, dict):
        return None
    return Usage(
        input_tokens=known_count(raw, "input_tokens"),
        output_tokens=known_count(raw, "output_tokens"),
        reasoning_tokens=known_count(raw.get("output_tokens_details"), "reasoning_tokens"),
        cache_read_tokens=known_count(raw.get("input_tokens_details"), "cached_tokens"),
        cache_write_tokens=known_count(raw.get("input_tokens_details"), "cache_write_tokens"),
        cost=charged(raw),
        raw=raw,
    )
