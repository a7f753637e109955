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
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs
from flexchat import MediaPart, Message, SystemMessage, ToolMessage, UserMessage
from flexchat.host import keep_walk, take_walk
from flexchat_sdk import AssistantMessage

from .sizes import size_of

STEP = 4
"""A step is this part of the budget: what one compaction frees."""
_WITHOUT_MEDIA = SystemMessage, AssistantMessage
MAX_PLANS = 8
"""Compactions that are remembered of one history."""
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


@attrs.define(eq=False)
class _Sums:
    """Sums over a history, which grow with it: a request need not walk over all of a long one.

    Attributes:
        starts: Indices at which turns begin.
        ends: Bytes of the first messages, by their number.
        kept: Bytes that are sent of the first turns when they are left out, by their number; so are the next two.
        counts: How many of ``pinned`` are of these turns.
        spared: Bytes that lines in place of their results and media save.
        pinned: What is sent of turns that are left out.
        plans: Compactions of turns that do not change any more.
    """

    starts: list[int] = attrs.field(factory=lambda: [0])
    ends: list[int] = attrs.field(factory=lambda: [0])
    kept: list[int] = attrs.field(factory=lambda: [0])
    counts: list[int] = attrs.field(factory=lambda: [0])
    spared: list[int] = attrs.field(factory=lambda: [0])
    pinned: list[Message] = attrs.field(factory=list)
    plans: dict[Any, tuple[Plan, int]] = attrs.field(factory=dict)

    def extend(self, history: Sequence[Message]) -> None:
        """Go on to the end of the history."""
        for index in range(len(self.ends) - 1, len(history)):
            if index and type(history[index]) is UserMessage and type(history[index - 1]) is not UserMessage:
                self.starts.append(index)
            self.ends.append(self.ends[-1] + size_of(history[index]))
        # Of the last turn there may be more by now.
        for sums in (self.kept, self.counts, self.spared):
            del sums[len(self.starts) :]
        del self.pinned[self.counts[-1] :]


class Outline:
    """A conversation by turns: where they begin, how large they are, and what of them is pinned.

    Attributes:
        own_from: Index of the first message of the turn under way.
        starts: Indices at which turns begin, the one under way last; a turn begins with its user's message. If the one
            under way continues with results of calls, it includes the turn that made them.
    """

    def __init__(self, messages: Sequence[Message], own_from: int, limits: Limits) -> None:
        self.messages, self.own_from, self._limits = tuple(messages), own_from, limits
        history, name = self.messages[:own_from], ("history sums", limits.pins)
        sums: _Sums = take_walk(history, name)[1] or _Sums()
        self._sums = sums
        sums.extend(history)
        keep_walk(history, name, sums)
        own = self.messages[own_from:]
        begins = own_from and own and type(own[0]) is UserMessage and type(history[-1]) is not UserMessage
        self.starts = [*sums.starts, own_from] if begins else [*sums.starts]
        self.ends = [*sums.ends[:-1], *itertools.accumulate(map(size_of, own), initial=sums.ends[-1])]

    def bytes_saved(self, turns: int) -> int:
        """Return the bytes that leaving out the first turns saves."""
        return self.ends[self.starts[turns]] - self._to(turns).kept[turns]

    def pinned(self, cut: int) -> list[Message]:
        """Return what is sent of the messages before the cut, which are left out."""
        turns = bisect.bisect_left(self.starts, cut)
        if self.starts[turns : turns + 1] != [cut]:  # recorded for another conversation
            return pinned_of(self.messages[:cut], self._limits)
        sums = self._to(turns)
        return sums.pinned[: sums.counts[turns]]

    def compact(self, turns: int, target: int, first: int, limits: Limits) -> tuple[Plan, int]:
        """Save *target* bytes in the turns from *first* to *turns*; return the plan and what it saves."""
        key, plans = (turns, target, first, limits.has_stubs), self._sums.plans
        if key in plans:
            return plans[key]
        result = Plan(kept_from=self.starts[first])
        if turns <= first:
            return result, 0
        spared = self._to(turns).spared if limits.has_stubs else None
        if spared is not None and spared[turns] - spared[first] >= target:
            found = self._with_lines(self.starts[turns], target, result)
        else:

            def saved(count: int) -> int:
                lines = 0 if spared is None else spared[turns] - spared[count]
                return self.bytes_saved(count) - self.bytes_saved(first) + lines

            at = bisect.bisect_left(range(turns), target, first, turns, key=saved)
            if spared is not None:
                to = self.starts[turns]
                result = attrs.evolve(result, repeats_to=to, stubs_to=to, media_to=to)
            found = attrs.evolve(result, dropped_to=self.starts[at] if at > first else 0), saved(at)
        if turns < len(self._sums.starts):
            if len(plans) > MAX_PLANS:
                plans.clear()
            plans[key] = found
        return found

    def _with_lines(self, limit: int, target: int, result: Plan) -> tuple[Plan, int]:
        first, saved = result.kept_from, 0
        repeats = repeated_reads(self.messages, self._limits, first, limit)
        for index, id in repeats.items():
            message = self.messages[index]
            saved += size_of(message) - size_of(replacement(message, id, can_read_on=True))
        if saved <= 0:
            repeats, saved = {}, 0
        result = attrs.evolve(result, repeats_to=limit if repeats else 0)
        for kind in ("stubs_to", "media_to"):
            for index in range(first, limit):
                if saved >= target:
                    return result, saved
                if index not in repeats and (spared := _spared(self.messages[index], kind, self._limits)):
                    saved += spared
                    result = attrs.evolve(result, **{kind: index + 1})
        # A stub may be shorter than the line of a repeated result.
        return attrs.evolve(result, stubs_to=limit, media_to=limit), max(saved, target)

    def _to(self, turns: int) -> _Sums:
        """Return the sums, which go as far as the first turns."""
        sums, limits = self._sums, self._limits
        for number in range(len(sums.kept) - 1, turns):
            turn = self.messages[self.starts[number] : self.starts[number + 1]]
            pinned = pinned_of(turn, limits)
            sums.pinned += pinned
            sums.counts.append(len(sums.pinned))
            sums.kept.append(sums.kept[-1] + sum(map(size_of, pinned)))
            lines = sum(_spared(each, "stubs_to", limits) + _spared(each, "media_to", limits) for each in turn)
            sums.spared.append(sums.spared[-1] + lines)
        return sums


def plan(outline: Outline, limits: Limits) -> Plan:
    """Choose what is left out, cheapest first."""
    starts, ends = outline.starts, outline.ends
    earlier = len(starts) - 1
    first = 0 if limits.keep_last is None else max(earlier - limits.keep_last, 0)
    result = Plan(kept_from=starts[first])
    if limits.budget is None:
        return result
    excess = ends[-1] - limits.budget - outline.bytes_saved(first)
    if excess <= 0:
        return result
    step = max(limits.budget // STEP, 1)
    target = math.ceil(excess / step) * step
    # Where the conversation was when this step became necessary: only what was old then is compacted, so that the
    # plan stays the same until the next step.
    crossed = bisect.bisect_left(ends, ends[-1] - excess + target - step) if not first else len(ends)
    then = min(bisect.bisect_right(starts, crossed - 1) - 1, earlier)
    found, saved = outline.compact(max(then - limits.keep_turns, 0), target, first, limits)
    if saved < excess and then < earlier:
        found, saved = outline.compact(max(earlier - limits.keep_turns, 0), target, first, limits)
    if saved < excess and limits.is_urgent:
        calls = (i for i, m in enumerate(outline.messages) if isinstance(m, AssistantMessage) and m.tool_calls)
        last = max(calls, default=0)
        stubs_to, media_to = max(found.stubs_to, last), max(found.media_to, min(last, outline.own_from))
        found = attrs.evolve(found, stubs_to=stubs_to, media_to=media_to)
    return found


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


def pinned_of(messages: Sequence[Message], limits: Limits, *, is_short: bool = True) -> list[Message]:
    """Return the messages of turns left out that are sent nevertheless: instructions, and what is pinned.

    A pinned result comes with its call, the other calls of the same answer, and the user's message before it; with
    ``is_short``, with lines in place of their results and media.
    """
    kept: list[Message] = []
    question: UserMessage | None = None
    keeps_results = False
    for message in messages:
        if type(message) is AssistantMessage:
            calls = message.tool_calls if limits.pins else ()
            keeps_results = bool(calls) and any(limits.is_pinned(call.name) for call in calls)
            if keeps_results:
                if question is not None:
                    kept.append(without_media(question) if is_short and question.media else question)
                kept.append(message)
                question = None
        elif type(message) is UserMessage:
            question = None if message.pinned else message
            if message.pinned:
                kept.append(message)
        elif type(message) is SystemMessage:
            kept.append(message)
        elif keeps_results:
            if is_short and _is_long_result(message, limits):
                message = replacement(message, None, can_read_on=False)
            kept.append(without_media(message) if is_short and has_media(message, limits) else message)
    return kept


def apply(outline: Outline, plan: Plan, limits: Limits, *, can_read_on: bool) -> list[Message]:
    """Return the messages that a plan sends; those that are sent whole are the same objects."""
    messages, cut = outline.messages, plan.cut
    sent = [*messages[cut:]]
    repeats = repeated_reads(messages, limits, cut, plan.repeats_to)
    for index in range(cut, max(plan.repeats_to, plan.stubs_to)):
        message = messages[index]
        if _is_long_result(message, limits):
            stub = replacement(message, None, can_read_on=True) if index < plan.stubs_to else None
            if index in repeats:
                line = replacement(message, repeats[index], can_read_on=can_read_on)
                if stub is None or size_of(line) <= size_of(stub):
                    sent[index - cut] = line
                    continue
            if stub is not None:
                sent[index - cut] = stub if can_read_on else replacement(message, None, can_read_on=False)
    for at in range(max(plan.media_to - cut, 0)):
        if has_media(sent[at], limits):
            sent[at] = without_media(sent[at])
    return [*outline.pinned(cut), *sent] if cut else sent


def left_out(outline: Outline, plan: Plan, limits: Limits) -> list[dict[str, Any]]:
    """Describe what a plan leaves out, for records: kinds, numbers and reasons."""
    messages, starts = outline.messages, outline.starts
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
