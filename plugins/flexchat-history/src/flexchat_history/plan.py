"""The plan: a pure function from messages and limits to what is left out of a request.

A plan is a few frontiers, so that it is small in a journal and moves forward only: everything before ``dropped_to`` is
left out, results before ``stubs_to`` are stubs, and so on. Frontiers move in steps of a quarter of the budget, whose
places follow from the sizes of the messages alone; between two steps each request begins with the bytes of the last.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs
from flexchat import MediaPart, Message, SystemMessage, ToolMessage, UserMessage
from flexchat_sdk import AssistantMessage

from .sizes import size_of

STEP = 4
"""A step is this part of the budget: what one compaction frees."""
_WITHOUT_MEDIA = SystemMessage, AssistantMessage
MIN_STUBBED = 400
"""Characters of a result below which a stub would not be shorter."""


@attrs.frozen(kw_only=True)
class Limits:
    """What a request may have.

    Attributes:
        budget: Bytes of all its messages; None for no limit.
        keep_last: Earlier turns sent at most.
        keep_turns: Last turns that are not compacted.
        has_stubs: Whether results and media are replaced before turns are left out.
        pins: Patterns of tools' names, as on the wire, whose results are always sent whole.
        is_urgent: Whether even results in turns that are kept may be replaced: the service refused a larger request.
    """

    budget: int | None = None
    keep_last: int | None = None
    keep_turns: int = 4
    has_stubs: bool = True
    pins: tuple[str, ...] = ()
    is_urgent: bool = False

    @property
    def rules(self) -> tuple[Any, ...]:
        """What decides how a message is replaced."""
        return self.has_stubs, self.pins

    def is_pinned(self, name: str) -> bool:
        """Whether the results of a tool are always sent whole."""
        return _is_pinned(name, self.pins)


@functools.lru_cache(maxsize=4096)
def _is_pinned(name: str, pins: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in pins)


@attrs.frozen(kw_only=True)
class Plan:
    """What is left out; all are indices of messages, and everything before them is concerned.

    Attributes:
        dropped_to: Turns are left out, but for what is pinned.
        kept_from: The same, by keep_last.
        repeats_to: Results that a later call before this place repeats are one line.
        stubs_to: Results are stubs.
        media_to: Media are one line each.
    """

    dropped_to: int = 0
    kept_from: int = 0
    repeats_to: int = 0
    stubs_to: int = 0
    media_to: int = 0

    @property
    def cut(self) -> int:
        """Index of the first message of the first whole turn that is sent."""
        return max(self.dropped_to, self.kept_from)

    @property
    def is_empty(self) -> bool:
        """Whether everything is sent."""
        return not any(attrs.astuple(self))


def turn_starts(messages: Sequence[Message], own_from: int) -> list[int]:
    """Return the indices at which turns begin, the turn under way last; a turn begins with its user's message.

    Args:
        own_from: Index of the first message of the turn under way. If it continues with results of calls, it includes
            the turn that made them.
    """
    users = [i for i, message in enumerate(messages[: own_from + 1]) if type(message) is UserMessage and i]
    starts = [i for i in users if type(messages[i - 1]) is not UserMessage]
    return [0, *starts] if messages else []


def plan(messages: Sequence[Message], own_from: int, limits: Limits) -> Plan:
    """Choose what is left out, cheapest first."""
    starts = turn_starts(messages, own_from)
    earlier = len(starts) - 1
    if earlier < 0:
        return Plan()
    kept_from = 0
    if limits.keep_last is not None and earlier > limits.keep_last:
        kept_from = starts[earlier - limits.keep_last]
    result = Plan(kept_from=kept_from)
    if limits.budget is None:
        return result
    ends = [0, *itertools.accumulate(map(size_of, messages))]
    excess = ends[-1] - limits.budget
    if kept_from:
        excess -= ends[kept_from] - sum(map(size_of, pinned_of(messages[:kept_from], limits)))
    if excess <= 0:
        return result
    step = max(limits.budget // STEP, 1)
    target = math.ceil(excess / step) * step
    # Where the conversation was when this step became necessary: only what was old then is compacted, so that the
    # plan stays the same until the next step.
    crossed = bisect.bisect_left(ends, ends[-1] - excess + target - step) if not kept_from else len(ends)
    then = min(bisect.bisect_right(starts, crossed - 1) - 1, earlier)
    turns = max(then - limits.keep_turns, 0)
    # Remembered with the message before the frontier: between two steps the answer is the same.
    memo: dict[Any, Any] = messages[starts[turns] - 1].memo if turns else {}
    key = "history plan", starts[turns], ends[starts[turns]], target, result, limits.keep_turns, *limits.rules
    if key not in memo:
        memo[key] = _compact(messages, starts, turns, target, limits, result)
    found: Plan
    saved: int
    found, saved = memo[key]
    if saved < excess and then < earlier:
        found, saved = _compact(messages, starts, max(earlier - limits.keep_turns, 0), target, limits, result)
    if saved < excess and limits.is_urgent:
        last = max((i for i, m in enumerate(messages) if isinstance(m, AssistantMessage) and m.tool_calls), default=0)
        stubs_to, media_to = max(found.stubs_to, last), max(found.media_to, min(last, own_from))
        found = attrs.evolve(found, stubs_to=stubs_to, media_to=media_to)
    return found


def _compact(
    messages: Sequence[Message], starts: Sequence[int], turns: int, target: int, limits: Limits, result: Plan
) -> tuple[Plan, int]:
    """Save *target* bytes in the first turns; return the plan and what it saves."""
    limit, saved, first = starts[turns], 0, result.kept_from
    repeats: dict[int, str] = {}
    if limits.has_stubs:
        repeats = repeated_reads(messages, limits, first, limit)
        replaced = {i: replacement(messages[i], repeats[i], can_read_on=True) for i in repeats}
        saved += sum(size_of(messages[i]) - size_of(new) for i, new in replaced.items())
        result = attrs.evolve(result, repeats_to=limit if saved > 0 else 0)
        if saved <= 0:
            repeats = {}
        for kind in ("stubs_to", "media_to"):
            for index in range(first, limit):
                if saved >= target:
                    break
                if index not in repeats and (spared := _spared(messages[index], kind, limits)):
                    saved += spared
                    result = attrs.evolve(result, **{kind: index + 1})
    if saved >= target:
        return result, saved
    smaller = _with_lines(messages[:limit], result, limits, repeats, can_read_on=True)
    for number, start in enumerate(starts[:turns]):
        if start < first:
            continue
        if saved >= target:
            break
        end = starts[number + 1]
        before = sum(size_of(smaller[i]) for i in range(start, end))
        saved += before - sum(size_of(each) for each in pinned_of(smaller[start:end], limits))
        result = attrs.evolve(result, dropped_to=end)
    return result, saved


def _spared(message: Message, kind: str, limits: Limits) -> int:
    if kind == "stubs_to" and not _is_long_result(message, limits):
        return 0
    if kind == "media_to" and not has_media(message, limits):
        return 0
    new = replacement(message, None, can_read_on=True) if kind == "stubs_to" else without_media(message)
    return max(size_of(message) - size_of(new), 0)


def _is_long_result(message: Message, limits: Limits) -> bool:
    return type(message) is ToolMessage and len(message.content) > MIN_STUBBED and not limits.is_pinned(message.name)


def has_media(message: Message, limits: Limits) -> bool:
    """Whether a message has media that may be left out."""
    if type(message) is UserMessage:
        return bool(message.media) and not message.pinned
    return type(message) is ToolMessage and bool(message.media) and not limits.is_pinned(message.name)


def repeated_reads(messages: Sequence[Message], limits: Limits, begin: int, end: int) -> dict[int, str]:
    """Return the results of a stretch that a later call gave again, by index, with the id of the last such call."""
    arguments = {
        call.id: call.arguments_text
        for message in messages[begin:end]
        if type(message) is AssistantMessage
        for call in message.tool_calls
    }
    last: dict[tuple[str, str, str], tuple[int, str]] = {}
    repeats: dict[int, str] = {}
    for index in range(end - 1, begin - 1, -1):
        message = messages[index]
        if type(message) is not ToolMessage or not _is_long_result(message, limits) or message.media:
            continue
        key = message.name, arguments.get(message.tool_call_id, ""), message.content
        if key in last:
            repeats[index] = last[key][1]
        else:
            last[key] = index, message.tool_call_id
    return repeats


def replacement(message: Message, repeated_by: str | None, *, can_read_on: bool) -> ToolMessage:
    """Return the stub of a result: a line that names how to read all of it. It is remembered with the message."""
    assert isinstance(message, ToolMessage)
    key = ("history stub", repeated_by, can_read_on)
    stub: ToolMessage | None = message.memo.get(key)
    if stub is None:
        more = f'; read_result(result="{message.tool_call_id}", start=0) reads it' if can_read_on else ""
        text = f"left out of this request: {len(message.content):,} characters{more}"
        if repeated_by is not None:
            text = f"left out of this request: the call {repeated_by} below gave the same result again"
        content = json.dumps({"success": not message.is_error, "note": text}, ensure_ascii=False)
        stub = message.memo[key] = attrs.evolve(message, content=content)
    return stub


def without_media(message: Message) -> Message:
    """Return a message with a line in place of its media. It is remembered with the message."""
    assert isinstance(message, UserMessage | ToolMessage)
    new: Message | None = message.memo.get("history media")
    if new is None:
        lines = [f"[{_media_name(part)} was left out of this request]" for part in message.media]
        content = "\n".join([*([message.content] if message.content else []), *lines])
        new = message.memo["history media"] = attrs.evolve(message, content=content, media=())
    return new


def _media_name(part: MediaPart) -> str:
    return f"{part.kind} '{part.name}'" if part.name else f"{part.kind} of type {part.mime_type}"


def pinned_of(messages: Sequence[Message], limits: Limits) -> list[Message]:
    """Return the messages of turns left out that are sent nevertheless: instructions, and what is pinned.

    A pinned result comes with its call, the other calls of the same answer, and the user's message before it.
    """
    kept: list[Message] = []
    question: Message | None = None
    keeps_results = False
    for message in messages:
        if type(message) is AssistantMessage:
            calls = message.tool_calls if limits.pins else ()
            keeps_results = bool(calls) and any(limits.is_pinned(call.name) for call in calls)
            if keeps_results:
                kept += [message] if question is None else [question, message]
                question = None
        elif type(message) is UserMessage:
            question = None if message.pinned else message
            if message.pinned:
                kept.append(message)
        elif type(message) is SystemMessage:
            kept.append(message)
        elif keeps_results:
            long = _is_long_result(message, limits)
            kept.append(replacement(message, None, can_read_on=False) if long else message)
    return kept


def apply(
    messages: Sequence[Message],
    plan: Plan,
    limits: Limits,
    *,
    can_read_on: bool,
) -> list[Message]:
    """Return the messages that a plan sends; those that are sent whole are the same objects."""
    if plan.is_empty:
        return [*messages]
    repeats = repeated_reads(messages, limits, plan.cut, plan.repeats_to)
    cut, sent = plan.cut, _with_lines(messages, plan, limits, repeats, can_read_on=can_read_on)
    if not cut:
        return sent
    return [*pinned_of(messages[:cut], limits), *sent[cut:]]


def _with_lines(
    messages: Sequence[Message], plan: Plan, limits: Limits, repeats: Mapping[int, str], *, can_read_on: bool
) -> list[Message]:
    """Return all messages, with lines in place of results and media."""
    cut, sent = plan.cut, [*messages]
    for index in range(cut, max(plan.repeats_to, plan.stubs_to)):
        message = sent[index]
        if index < plan.repeats_to and index in repeats:
            sent[index] = replacement(message, repeats[index], can_read_on=can_read_on)
        elif index < plan.stubs_to and _is_long_result(message, limits):
            sent[index] = replacement(message, None, can_read_on=can_read_on)
    for index in range(cut, plan.media_to):
        if has_media(sent[index], limits):
            sent[index] = without_media(sent[index])
    return sent


def left_out(messages: Sequence[Message], own_from: int, plan: Plan, limits: Limits) -> list[dict[str, Any]]:
    """Describe what a plan leaves out, for records: kinds, numbers and reasons."""
    starts = turn_starts(messages, own_from)
    found: list[dict[str, Any]] = []

    def add(what: str, count: int, why: str) -> None:
        if count:
            found.append({"what": what, "count": count, "why": why})

    by_turns = bisect.bisect_left(starts, plan.kept_from)
    add("turns", by_turns, "keep_last")
    add("turns", max(bisect.bisect_left(starts, plan.dropped_to) - by_turns, 0), "max_tokens")
    cut = plan.cut
    repeats = repeated_reads(messages, limits, cut, plan.repeats_to)
    add("repeated results", len(repeats), "max_tokens")
    stubs = [i for i in range(cut, plan.stubs_to) if i not in repeats and _is_long_result(messages[i], limits)]
    add("results", len(stubs), "max_tokens")
    shown = [each for each in messages[cut : plan.media_to] if has_media(each, limits)]
    add("media", sum(len(each.media) for each in shown if not isinstance(each, _WITHOUT_MEDIA)), "max_tokens")
    return found
