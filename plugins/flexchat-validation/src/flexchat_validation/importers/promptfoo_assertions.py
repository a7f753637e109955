"""Translates promptfoo's assertions about tool calls and answers into cases.

Source: promptfoo's configuration reference, "Deterministic metrics" (names and values of assertions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ..cases import ArgumentCheck, CaseTool, ExpectedCall

_MAX_CALLS = 64  # of one message
_CODE = ("javascript", "python", "ruby", "webhook")
_VALID_CALL = ("is-valid-openai-tools-call", "is-valid-openai-function-call", "is-valid-function-call")
_GRADED = ("llm-rubric", "model-graded-closedqa", "factuality", "g-eval", "similar", "answer-relevance", "pi")


@attrs.define
class Wanted:
    """What a test's assertions amount to, while they are read."""

    tools: Mapping[str, CaseTool]
    calls: list[ExpectedCall] = attrs.field(factory=list)
    order: bool = False
    extra_calls: bool = False
    valid: bool = False
    contains: list[str] = attrs.field(factory=list)
    regex: str | None = None
    notes: list[str] = attrs.field(factory=list)


def read_assertion(assertion: Any, draft: Wanted) -> None:
    """Add what an assertion asks for, or a note of why it is left out."""
    if not isinstance(assertion, Mapping) or not isinstance(assertion.get("type"), str):
        draft.notes.append("an assertion without a type is left out")
        return
    kind, value = assertion["type"], assertion.get("value")
    base = kind.removeprefix("not-").partition(":")[0]
    if kind in _VALID_CALL:
        draft.valid = True
    elif kind in _READERS:
        try:
            _READERS[kind](value, assertion, draft)
        except (TypeError, ValueError, KeyError) as error:
            draft.notes.append(f"{kind} is left out: {error or 'its value is not understood'}")
    elif kind == "assert-set":
        for inner in listed(assertion.get("assert")):
            read_assertion(inner, draft)
    elif base in _CODE:
        draft.notes.append(f"{kind} is left out: it is code, and is not run")
    elif base in _GRADED:
        draft.notes.append(f"{kind} is left out: another model judges it")
    else:
        draft.notes.append(f"{kind} is left out: cases have no equivalent")


def _f1(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    names = value.split(",") if isinstance(value, str) else _names(value)
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise ValueError("it names no tool")
    if float(assertion.get("threshold", 1)) < 1:
        draft.notes.append("tool-call-f1: its threshold is taken as 1: all of these calls and no others")
    _add_calls(draft, [ExpectedCall(tool=name) for name in dict.fromkeys(names)])


def _tool_used(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    if isinstance(value, Mapping):
        if "pattern" in value and "name" not in value and re.search(r"[*?]", str(value["pattern"])):
            raise ValueError("it names tools by a pattern")
        name, least = str(value.get("name", value.get("pattern"))), int(value.get("min", 1))
        if "max" in value and int(value["max"]) == 0:
            raise ValueError("it names a tool that is not called; cases name those that are")
        if not 1 <= least <= _MAX_CALLS:
            raise ValueError(f"a tool is called 1 to {_MAX_CALLS} times, not {least}")
        names = [name] * least
    else:
        names = [value] if isinstance(value, str) else _names(value)
    _add_calls(draft, [ExpectedCall(tool=name) for name in names])
    draft.extra_calls = True


def _tool_arguments(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    value = table(value)
    name, arguments = value.get("name", value.get("tool")), value.get("args", value.get("arguments"))
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise ValueError("it does not name a tool and its arguments")
    exact = value.get("mode") == "exact"
    _add_calls(draft, [ExpectedCall(tool=name, arguments=dict(arguments), other_arguments=not exact)])
    draft.extra_calls = True


def _sequence(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    steps = value.get("steps") if isinstance(value, Mapping) else value
    names = [str(step.get("name")) if isinstance(step, Mapping) else step for step in listed(steps)]
    exact = isinstance(value, Mapping) and value.get("mode") == "exact"
    if draft.calls and not exact:
        draft.extra_calls = True
    earlier = {call.tool: call for call in draft.calls}
    draft.calls = [earlier.get(name, ExpectedCall(tool=name)) for name in _names(names)]
    draft.order, draft.extra_calls = True, draft.extra_calls or not exact


def _contains(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    texts = [str(text) for text in listed(value)]
    if not texts or any(isinstance(text, (Mapping, list)) for text in listed(value)):
        raise ValueError("its value is not a text")
    draft.contains += texts
    if not str(assertion["type"]).startswith("i"):
        draft.notes.append(f"{assertion['type']}: upper and lower case count alike")


def _contains_any(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    alternatives = "|".join(re.escape(str(text)) for text in listed(value))
    ignoring = str(assertion["type"]).startswith("i")
    _set_regex(f"(?i:{alternatives})" if ignoring else f"(?:{alternatives})", draft)


def _regex(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    if not isinstance(value, str):
        raise ValueError("its value is not a text")
    _set_regex(value, draft)


def _equals(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    if not isinstance(value, str):
        raise ValueError("only texts can be compared with the answer")
    _set_regex(f"^{re.escape(value)}$", draft)


def _starts_with(value: Any, assertion: Mapping[str, Any], draft: Wanted) -> None:
    _set_regex(f"^{re.escape(str(value))}", draft)


def _set_regex(pattern: str, draft: Wanted) -> None:
    if draft.regex is not None:
        raise ValueError("a case has one pattern for the answer")
    draft.regex = pattern


_READERS: Mapping[str, Callable[[Any, Mapping[str, Any], Wanted], None]] = {
    "tool-call-f1": _f1,
    "trajectory:tool-used": _tool_used,
    "trajectory:tool-args-match": _tool_arguments,
    "trajectory:tool-sequence": _sequence,
    "contains": _contains,
    "icontains": _contains,
    "contains-all": _contains,
    "icontains-all": _contains,
    "contains-any": _contains_any,
    "icontains-any": _contains_any,
    "regex": _regex,
    "equals": _equals,
    "starts-with": _starts_with,
}


def _add_calls(draft: Wanted, calls: Sequence[ExpectedCall]) -> None:
    """Add calls; one with arguments refines a call that is already expected."""
    for call in calls:
        same = [other for other in draft.calls if other.tool == call.tool]
        bare = [other for other in same if not other.arguments]
        if call.arguments and bare:
            draft.calls[draft.calls.index(bare[0])] = call
        elif call.arguments or sum(c.tool == call.tool for c in calls) > len(same):
            draft.calls.append(call)


def complete(draft: Wanted) -> None:
    """Check the calls against their tools' schemas if the test asks for valid calls."""
    if not draft.valid:
        return
    if not draft.calls and len(draft.tools) == 1:
        draft.calls = [ExpectedCall(tool=name) for name in draft.tools]
        draft.extra_calls = True
    elif not draft.calls:
        draft.notes.append("it asks for a valid call, but does not name the tool")
    draft.calls = [_valid(call, draft.tools.get(call.tool)) for call in draft.calls]


def _valid(call: ExpectedCall, tool: CaseTool | None) -> ExpectedCall:
    schema = tool.parameters if tool is not None else {}
    required = schema.get("required", ())
    checks = {
        name: ArgumentCheck(schema=inner, optional=name not in required)
        for name, inner in table(schema.get("properties")).items()
        if name not in call.arguments and isinstance(inner, Mapping)
    }
    return attrs.evolve(call, check={**checks, **call.check})


def _names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("its value is not a list of tools")
    return value


def table(value: Any) -> dict[str, Any]:
    """Return a table as a dict, and anything else as an empty one."""
    return dict(value) if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """Return a list unchanged, an empty one for None, and any other value as the only item of a list."""
    return value if isinstance(value, list) else [] if value is None else [value]
