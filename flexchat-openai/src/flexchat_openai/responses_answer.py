"""An answer of the Responses API as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AnswerParts,
    AssistantPart,
    ChatEvent,
    MediaPart,
    OpaquePart,
    ProviderData,
    ProviderError,
    ReasoningDelta,
    ReasoningPart,
    RefusalPart,
    Reported,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Unreadable,
    Usage,
    WireIds,
    WrongShape,
    known_number,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
    type_name,
)
from flexchat_sdk import usage_of as read_usage

from .chat_answer import MALFORMED_CALL, TOOL_USE_FAILED, is_malformed_call, unwrapped
from .models import charged
from .responses_items import (
    IMAGE_CALL,
    SCOPE,
    ItemDraft,
    annotations_of,
    arguments_of,
    id_of,
    image_of,
    kind_of,
    name_of,
    refusal_of,
    text_of,
    thought_of,
)

_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length", "length": "length"}
# Holds the place of a part until its item is complete.
_PENDING = OpaquePart(kind="item", provider_data=ProviderData(scope=SCOPE, origin="", data={}))
_OWNERS = {
    "text": "message",
    "refusal": "message",
    "arguments": "function_call",
    "summary": "reasoning",
    "thought": "reasoning",
}
_PIECES = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "thought",
}
# Some servers send these without any pieces before them.
_WHOLES = {event.removesuffix("delta") + "done": kind for event, kind in _PIECES.items()}
_FIELDS = {"refusal": "refusal", "arguments": "arguments"}
_ENDS = ("response.completed", "response.incomplete", "response.done")
_ITEMS = ("response.output_item.added", "response.output_item.done")
# The keys that may hold content in an event with an unreadable type.
_SAYS = frozenset(("delta", "text", "refusal", "arguments", "item", "response"))
_SPOKEN = frozenset(("message", "code", "type"))
_UNFINISHED = ("queued", "in_progress", "cancelled")


class ResponsesStream:
    """Reads one answer, streamed or whole; see the kit's Answer. Only an explicit event ends a stream.

    Its items are in the order in which they began.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._parts = AnswerParts(SCOPE, origin)
        self._items: list[ItemDraft] = []
        self._after: str | None = None
        self._has_begun = self._has_ended = self.is_over = False

    def take(self, chunk: dict[str, Any], name: str = "") -> Iterator[ChatEvent]:
        """Yield what an event adds."""
        kind = chunk.get("type")
        kind = kind if isinstance(kind, str) else name
        index = known_number(chunk.get("output_index"))
        if piece := _PIECES.get(kind):
            yield from self._add(piece, "delta", chunk, index)
            return
        if whole := _WHOLES.get(kind):
            yield from self._add_rest(whole, _FIELDS.get(whole, "text"), chunk, index)
            return
        response = chunk.get("response")
        if kind in ("error", "response.failed") or (chunk.get("error") and not isinstance(response, dict)):
            raise Reported(_report(response if isinstance(response, dict) else chunk))
        if kind.startswith("response."):
            self._has_begun = True
        if kind in _ENDS:
            yield from self._at_end(object_in(chunk, "response") or {}, is_last_event=True)
            self._has_ended = self.is_over = True
        elif kind in _ITEMS:
            if (item := object_in(chunk, "item", needed=True)) is not None:
                take = self._begin if kind == _ITEMS[0] else self._complete
                yield from take(item, index)
        elif isinstance(response, dict):
            self._take_frame(response)
        elif not kind and not _SAYS.isdisjoint(chunk):
            raise WrongShape("type", "text", chunk.get("type"))

    def end(self) -> Iterable[ChatEvent]:
        """Return nothing: the event that ends a stream has been taken."""
        if self._has_ended:
            return ()
        if not self._has_begun:
            raise Unreadable('sent no response: is base_url right? api = "chat" uses Chat Completions instead')
        raise Unreadable("ended its stream before the answer was complete", cut_off=True)

    def whole(self, answer: Any) -> Iterator[ChatEvent]:
        """Yield the events of a whole answer."""
        answer = unwrapped(answer)
        if _has_failed(answer):
            raise Reported(_report(answer))
        if answer.get("output") is None:
            raise Unreadable(
                'sent JSON that is not a response: is base_url right? api = "chat" uses Chat Completions instead'
            )
        yield from self._at_end(answer, is_last_event=False)

    def refused(self, body: object, error: ProviderError) -> Iterable[ChatEvent] | None:
        """Return the end of the answer if the error is really an answer; None for a real error."""
        if not is_malformed_call(body):
            return None
        parts = AnswerParts(SCOPE, self._origin)
        parts.warn(f"{MALFORMED_CALL}: {error}")
        return parts.end(TOOL_USE_FAILED, finish="malformed_tool_call")

    def _at_end(self, response: Mapping[str, Any], *, is_last_event: bool) -> Iterator[ChatEvent]:
        status = response.get("status")
        if _has_failed(response):
            raise Reported(_report(response))
        if not self._items and response.get("output") is None:
            raise Unreadable("ended its stream before sending anything")
        if status in _UNFINISHED and not is_last_event:
            raise Unreadable(f"sent a response that is not finished ({status}): background mode cannot be used")
        yield from self._ended(response)

    def _take_frame(self, response: Mapping[str, Any]) -> None:
        """Take the fields around the items."""
        self._parts.model = known_text(response.get("model")) or self._parts.model
        self._parts.response_id = known_text(response.get("id")) or self._parts.response_id

    def _begin(self, item: dict[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take an item that begins; it may be incomplete."""
        self._open(item, index)
        yield from self._announce(self._items[-1])

    def _complete(self, item: dict[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take an item in its final form and yield what has not been passed on yet."""
        draft = self._find(kind_of(item), index, item.get("id"))
        if draft is None or draft.is_done:
            draft = self._open(item, index)
        yield from self._finish(draft, item)

    def _add_rest(self, kind: str, key: str, event: Mapping[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take a value whole if _add has taken no pieces of it."""
        draft = self._find(_OWNERS[kind], index, event.get("item_id"))
        if draft is not None and not (draft.refusal if kind == "refusal" else draft.pieces):
            yield from self._add(kind, key, event, index)

    def _add(self, kind: str, key: str, event: Mapping[str, Any], index: int | None) -> Iterator[ChatEvent]:
        """Take a piece.

        Args:
            kind: "text", "refusal", "arguments", "summary" or "thought".
            key: The event's key for the piece.

        Raises:
            WrongShape: It is not text, or it is unclear which item it belongs to.
        """
        piece = event.get(key)
        if not isinstance(piece, str) and _OWNERS[kind] == "reasoning":
            self._parts.warn(f"reasoning is left out ({key}: expected text, got {type_name(piece)})")
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

    def _ended(self, response: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Take the finished response; yield the rest and, last, AnswerEnd with the result."""
        self._take_frame(response)
        streamed = [*self._items]
        for place, (_, item) in enumerate(objects_of(list_in(response, "output"), "output")):
            match = streamed[place] if place < len(streamed) else None
            if match is None or match.kind != kind_of(item):
                match = next((d for d in streamed if d.is_done and id_of(d.item) == id_of(item) is not None), None)
            if match is None:
                yield from self._finish(self._open(item, None), item)
            elif not match.is_done:
                yield from self._finish(match, item)
        for draft in self._items:
            if not draft.is_done:  # a server that neither marks an item as done nor sends its full text
                yield from self._finish(draft, draft.item)
        finish, raw = self._finish_reason(response)
        last = next((draft for draft in reversed(self._items) if draft.kind == "function_call"), None)
        # "incomplete" without a reason, or no status at all: see ToolCall.if_whole.
        is_unclear = raw == "incomplete" or not isinstance(response.get("status"), str | None)
        ids = WireIds()
        for draft in self._items:
            for position, part in self._build_parts(draft, ids, is_cut=finish == "length" and draft is last):
                if isinstance(part, ToolCall):
                    part = part.if_whole() if is_unclear and draft is last else part
                    yield ToolCallEnd(position, part)
                self._parts.replace(position, part)
        yield from self._parts.end(raw, finish=finish, usage=usage_of(response.get("usage")))

    def _open(self, item: dict[str, Any], index: int | None) -> ItemDraft:
        draft = ItemDraft(item, index, self._parts.add(_PENDING), self._after)
        self._items.append(draft)
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
        if item_id and (same_id := next((d for d in loose if d.item.get("id") == item_id), None)):
            return same_id
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
            before, draft.pieces = draft.text, [arguments_of(item)]
            if not draft.announced:
                yield from self._announce(draft, at_last=True)
            elif rest := _rest(before, draft.text):
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

    def _place_refusal(self, draft: ItemDraft) -> None:
        """Give a refusal its own part if its item also has text."""
        if draft.refusal_position < 0:
            has_text = bool(draft.pieces or (draft.is_done and text_of(draft.item)))
            draft.refusal_position = self._parts.add(_PENDING) if has_text else draft.position

    def _build_parts(self, draft: ItemDraft, ids: WireIds, *, is_cut: bool) -> list[tuple[int, AssistantPart]]:
        """Return an item's parts with their positions."""
        item = draft.item
        data: dict[str, Any] = {"item": item, "after": draft.after} if draft.after else {"item": item}
        ours = self._parts.ours(data)
        if draft.kind == "reasoning":
            text = thought_of(item) or draft.text
            return [(draft.position, ReasoningPart(text=text, redacted=not text, provider_data=ours))]
        if draft.kind == "function_call":
            return [(draft.position, _call(draft, ours, ids, is_cut))]
        if draft.kind == IMAGE_CALL and (image := image_of(item)) is not None:
            rest = {key: value for key, value in item.items() if key != "result"}
            parts = self._parts.ours({**data, "item": rest})
            mime_type = f"image/{known_text(item.get('output_format')) or 'png'}"
            return [(draft.position, MediaPart(kind="image", mime_type=mime_type, data=image, provider_data=parts))]
        if draft.kind == "message":
            text, refusal = text_of(item), refusal_of(item)
            placed: list[tuple[int, AssistantPart]] = []
            if text:
                placed.append((draft.position, TextPart(text=text, citations=annotations_of(item), provider_data=ours)))
            if refusal:
                if text:  # the item goes back with the first of its parts
                    ours = self._parts.ours({"continues": True})
                placed.append((draft.refusal_position, RefusalPart(text=refusal, provider_data=ours)))
            if placed:
                return placed
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


def _call(draft: ItemDraft, ours: ProviderData, ids: WireIds, is_cut: bool) -> ToolCall:
    name, call_id = name_of(draft.item), known_text(draft.item.get("call_id")) or id_of(draft.item)
    rest: dict[str, Any] = {"wire_id": ids.take(call_id), "provider_data": ours}
    call = ToolCall.from_text(name, draft.text, **rest)
    # The last call of an answer that was cut off may have lost all its arguments without a trace.
    if draft.item.get("status") == "incomplete" or (is_cut and (call.arguments is None or not draft.text.strip())):
        return ToolCall.from_text(name, draft.text, truncated=True, id=call.id, **rest)
    return call


def _rest(before: str, whole: str) -> str:
    return whole[len(before) :] if whole.startswith(before) else ""


def usage_of(raw: object) -> Usage | None:
    """Return a usage table as Usage, without anything that is not a count; None if there is no table."""
    usage = read_usage(
        raw,
        input="input_tokens",
        output="output_tokens",
        reasoning="output_tokens_details.reasoning_tokens",
        cache_read="input_tokens_details.cached_tokens",
        cache_write="input_tokens_details.cache_write_tokens",
    )
    return None if usage is None else attrs.evolve(usage, cost=charged(usage.raw or {}))


def _has_failed(response: Mapping[str, Any]) -> bool:
    """Return whether a response reports an error. One that ends well does not, whatever its error field holds."""
    status, error = response.get("status"), response.get("error")
    if status == "failed" or not error:
        return status == "failed"
    return status not in ("completed", "incomplete") or (isinstance(error, dict) and not _SPOKEN.isdisjoint(error))


def _report(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an error in the form of an HTTP error's body; the ``error`` event lacks the inner table."""
    if body.get("error"):
        return body
    return {"error": {key: body.get(key) for key in ("message", "code", "param")}}
