"""Attempts of models at cases, and their JSON form without loss, for storage, exports and clients."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import attrs
from flexchat import Usage
from flexchat.host import format_path, structure
from flexchat_sdk import storable

Outcome = Literal["passed", "failed", "error"]
"""An error is no evidence about the model (the service was unavailable, refused a key): it is not counted, and is
retried."""

_MAX_DEPTH = 64
_COUNT = {"min": 0, "max": 2**53 - 1}
_FINITE = {"min": 0, "max": sys.float_info.max}

T = TypeVar("T")

ASPECTS = ("right_tool", "right_arguments", "abstains", "parallel", "recovers")
"""What a case can show about a model; each is judged if the case asks for it."""


@attrs.frozen(kw_only=True)
class ModelKey:
    """What results are valid for. They go stale when any part of it changes.

    Attributes:
        model_id: "LLM/MODEL"; the model's own name may have slashes and colons.
        digest: Of the model's weights, if its service reports it.
        package: Distribution and version of the provider's plugin: "flexchat-openai 0.1.0".
        tools: SHA-256 of the offered tools' names, descriptions and parameters; None if not known.
    """

    model_id: str
    digest: str | None = None
    package: str = ""
    tools: str | None = None


@attrs.frozen(kw_only=True)
class CallMade:
    """A tool call as it happened.

    Attributes:
        raw_arguments: What the model wrote as arguments, if that could not be read; else None, and params has them.
        turn: Index of the case's message it answered, from 0.
        iteration: Number of the model's answer that asked for it, from 1.
        result: The specified envelope: success, result or error, tool_name, execution_time_ms.
    """

    tool: str
    params: Mapping[str, Any]
    result: Mapping[str, Any]
    turn: int = attrs.field(default=0, metadata=_COUNT)
    iteration: int = attrs.field(default=1, metadata=_COUNT)
    raw_arguments: str | None = None


@attrs.frozen(kw_only=True)
class Judgement:
    """The judge's verdict on an attempt.

    Attributes:
        aspects: For each of ASPECTS that the case requires, whether the model showed it.
        problems: The deviations, one sentence each; empty if it passed.
    """

    passed: bool
    aspects: Mapping[str, bool] = attrs.field(factory=dict)
    problems: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Attempt:
    """A stored attempt.

    Attributes:
        id: 32 hexadecimal digits.
        run: Id of the run it belongs to; None for single tests and imported ones.
        case: Name of the case; None for a test without one.
        case_hash: SHA-256 of the case and the tools it was tried with: results for another text are stale.
        repetition: The number of the repetition of the case in its run, from 0.
        problems: The reasons for its failure, or for the lack of a result.
        content: The last answer.
        cost: US dollars; None if the price is unknown.
        at: The time of its end: ISO 8601, UTC.
        tests, successes: The number of tests that it represents: 1, or more for an imported summary.
    """

    id: str
    key: ModelKey
    run: str | None = None
    case: str | None = None
    case_hash: str | None = None
    repetition: int = attrs.field(default=0, metadata=_COUNT)
    outcome: Outcome
    aspects: Mapping[str, bool] = attrs.field(factory=dict)
    problems: tuple[str, ...] = ()
    calls: tuple[CallMade, ...] = ()
    content: str = ""
    usage: Usage | None = None
    cost: float | None = attrs.field(default=None, metadata=_FINITE)
    elapsed_ms: float = attrs.field(default=0.0, metadata=_FINITE)
    details: Any = None
    tests: int = attrs.field(default=1, metadata=_COUNT)
    successes: int = attrs.field(default=0, metadata=_COUNT)
    at: str


def now() -> str:
    """Return the current time: ISO 8601, UTC, in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def attempt_to_dict(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as JSON data.

    Models and tools may write any text: half surrogates and NUL are removed, and values that are not JSON become text.
    """
    key = attrs.asdict(attempt.key)
    fields = {"id": attempt.id, "model_id": key.pop("model_id"), **attrs.asdict(attempt, recurse=False)}
    calls = [attrs.asdict(call, recurse=False) for call in attempt.calls]
    for call in calls:
        if call["raw_arguments"] is None:
            del call["raw_arguments"]
    usage = attempt.usage.to_dict() if attempt.usage else None
    data: dict[str, Any] = json_data({**fields, "key": key, "calls": calls, "usage": usage})
    return data


def attempt_from_dict(data: Any) -> Attempt:
    """Rebuild an attempt from the data of attempt_to_dict; unknown keys are ignored.

    Raises:
        ValueError: The data is not an attempt; the message names the problem.
    """
    fields = known_keys(data, Attempt)
    if isinstance(fields, dict):
        key, calls = known_keys(data.get("key") or {}, ModelKey), fields.get("calls")
        fields["key"] = {**key, "model_id": data.get("model_id")} if isinstance(key, dict) else key
        fields["calls"] = [known_keys(call, CallMade) for call in calls] if isinstance(calls, list) else calls
        fields["usage"] = known_keys(fields.get("usage"), Usage)
    attempt = structured(fields, Attempt, "an attempt")
    if not (attempt.id and attempt.at and attempt.key.model_id):
        raise ValueError("an attempt must have an id, a model_id and a time")
    if attempt.usage is not None and min(attempt.usage.to_dict().values(), default=0) < 0:
        raise ValueError("an attempt: usage: counts of tokens must be at least 0")
    if not 0 <= attempt.successes <= attempt.tests or not attempt.tests:
        raise ValueError(f"{attempt.successes} of {attempt.tests} tests cannot have succeeded")
    return attempt


def known_keys(data: Any, cls: type) -> Any:
    """Return a JSON object with only the keys that a class has; anything else unchanged."""
    names = {field.name for field in attrs.fields(cls)}
    return {name: value for name, value in data.items() if name in names} if isinstance(data, Mapping) else data


def structured(data: Any, cls: type[T], what: str) -> T:
    """Rebuild an object from JSON data.

    Raises:
        ValueError: The data does not fit the class; the message names the first problem.
    """
    instance, issues = structure(data, cls)
    if instance is None:
        text = issues[0].text.replace("expected", "must be", 1)
        raise ValueError(": ".join(filter(None, (what, format_path(issues[0].path), text))))
    return instance


def json_data(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """Return a value as JSON data that every database accepts; anything nested deeper than 64 becomes "…"."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int):
        return value if value.bit_length() <= 1024 else "…"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if not depth:
        return "…"
    if isinstance(value, Mapping):
        return {storable(str(key)): json_data(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_data(item, depth - 1) for item in value]
    return storable(str(value))
