"""Attempts of models at cases, and their JSON form without loss, for storage, exports and clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import attrs
from flexchat import Usage
from flexchat_sdk import storable

Outcome = Literal["passed", "failed", "error"]
"""An error is no evidence about the model (the service was unavailable, refused a key): it is not counted, and is
retried."""

_MAX_DEPTH = 64

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
    turn: int = 0
    iteration: int = 1
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
    repetition: int = 0
    outcome: Outcome
    aspects: Mapping[str, bool] = attrs.field(factory=dict)
    problems: tuple[str, ...] = ()
    calls: tuple[CallMade, ...] = ()
    content: str = ""
    usage: Usage | None = None
    cost: float | None = None
    elapsed_ms: float = 0.0
    details: Any = None
    tests: int = 1
    successes: int = 0
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
    entry = _mapping(data, "an attempt")
    key = _mapping(entry.get("key") or {}, "key")
    outcome = entry.get("outcome")
    if not isinstance(outcome, str) or outcome not in get_args(Outcome):
        raise ValueError(f"outcome must be passed, failed or error, not {outcome!r:.40}")
    tests, successes = _count(entry.get("tests", 1), "tests"), _count(entry.get("successes", 0), "successes")
    if not 0 <= successes <= tests or not tests:
        raise ValueError(f"{successes} of {tests} tests cannot have succeeded")
    fields: dict[str, Any] = {name: read(entry.get(name), name) for name, read in _FIELDS.items()}
    return Attempt(
        key=ModelKey(
            model_id=_text(entry.get("model_id"), "model_id"),
            digest=_optional(key.get("digest"), "key.digest"),
            package=_optional(key.get("package"), "key.package") or "",
            tools=_optional(key.get("tools"), "key.tools"),
        ),
        outcome=outcome,  # type: ignore[arg-type]  # one of Outcome, as checked above
        repetition=_count(entry.get("repetition", 0), "repetition"),
        content=_optional(entry.get("content"), "content") or "",
        elapsed_ms=_number(entry.get("elapsed_ms"), "elapsed_ms") or 0.0,
        tests=tests,
        successes=successes,
        **fields,
    )


_MAX_DEPTH = 64


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


def _call(data: Any) -> CallMade:
    entry = _mapping(data, "a call")
    raw_arguments = entry.get("raw_arguments")
    return CallMade(
        tool=_text(entry.get("tool"), "tool"),
        params=_mapping(entry.get("params") or {}, "params"),
        result=_mapping(entry.get("result") or {}, "result"),
        turn=_count(entry.get("turn", 0), "turn"),
        iteration=_count(entry.get("iteration", 1), "iteration"),
        raw_arguments=None if raw_arguments is None else _text(raw_arguments, "raw_arguments"),
    )


def _usage(data: Any, what: str) -> Usage | None:
    if data is None:
        return None
    fields = {field.name for field in attrs.fields(Usage)} - {"raw"}
    counts: Any = {name: _count(count, name) for name, count in _mapping(data, what).items() if name in fields}
    return Usage(**counts)


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a JSON object, not {type(value).__name__}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list, not {type(value).__name__}")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be text, not {value!r:.40}")
    return value


def _optional(value: Any, what: str) -> str | None:
    return None if value is None or value == "" else _text(value, what)


def _count(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"{what} must be a whole number from 0, not {value!r:.40}")
    return value


def _number(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{what} must be a number, not {value!r:.40}")
    return float(value)


_FIELDS: Mapping[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("id", "at"), _text),
    **dict.fromkeys(("run", "case", "case_hash"), _optional),
    "aspects": lambda value, name: {str(aspect): did is True for aspect, did in _mapping(value or {}, name).items()},
    "problems": lambda value, name: tuple(map(str, _list(value or [], name))),
    "calls": lambda value, name: tuple(map(_call, _list(value or [], name))),
    "usage": _usage,
    "cost": _number,
    "details": lambda value, name: value,
}
