"""Attempts as JSON data and back without loss: how they are stored, exported, and sent to clients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast, get_args

import attrs
from flexchat import Usage
from flexchat_sdk import storable

from .attempts import Attempt, CallMade, ModelKey, Outcome

_DEEPEST = 64


def attempt_to_dict(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as JSON data.

    Models and tools write what they like: half surrogates and NUL are removed from texts, and values that are not JSON
    become text.
    """
    data: dict[str, Any] = json_data(
        {
            "id": attempt.id,
            "model_id": attempt.key.model_id,
            "key": {"digest": attempt.key.digest, "package": attempt.key.package, "tools": attempt.key.tools},
            "run": attempt.run,
            "case": attempt.case,
            "case_hash": attempt.case_hash,
            "repetition": attempt.repetition,
            "outcome": attempt.outcome,
            "aspects": attempt.aspects,
            "problems": attempt.problems,
            "calls": [_call_dict(call) for call in attempt.calls],
            "content": attempt.content,
            "usage": attempt.usage.to_dict() if attempt.usage else None,
            "cost": attempt.cost,
            "elapsed_ms": attempt.elapsed_ms,
            "details": attempt.details,
            "tests": attempt.tests,
            "successes": attempt.successes,
            "at": attempt.at,
        }
    )
    return data


def attempt_from_dict(data: Any) -> Attempt:
    """Rebuild an attempt from the data of attempt_to_dict; unknown keys are ignored.

    Raises:
        ValueError: The data is not an attempt; the message names the problem.
    """
    found = _mapping(data, "an attempt")
    key = _mapping(found.get("key") or {}, "key")
    outcome = found.get("outcome")
    if not isinstance(outcome, str) or outcome not in get_args(Outcome):
        raise ValueError(f"outcome must be passed, failed or error, not {outcome!r:.40}")
    tests, successes = _count(found.get("tests", 1), "tests"), _count(found.get("successes", 0), "successes")
    if not 0 <= successes <= tests or not tests:
        raise ValueError(f"{successes} of {tests} tests cannot have succeeded")
    usage = found.get("usage")
    return Attempt(
        id=_text(found.get("id"), "id"),
        key=ModelKey(
            model_id=_text(found.get("model_id"), "model_id"),
            digest=_optional(key.get("digest"), "key.digest"),
            package=_optional(key.get("package"), "key.package") or "",
            tools=_optional(key.get("tools"), "key.tools"),
        ),
        outcome=cast(Outcome, outcome),
        at=_text(found.get("at"), "at"),
        run=_optional(found.get("run"), "run"),
        case=_optional(found.get("case"), "case"),
        case_hash=_optional(found.get("case_hash"), "case_hash"),
        repetition=_count(found.get("repetition", 0), "repetition"),
        aspects={str(name): did is True for name, did in _mapping(found.get("aspects") or {}, "aspects").items()},
        problems=tuple(map(str, _list(found.get("problems") or [], "problems"))),
        calls=tuple(_call(call) for call in _list(found.get("calls") or [], "calls")),
        content=_optional(found.get("content"), "content") or "",
        usage=None if usage is None else _usage(usage),
        cost=_number(found.get("cost"), "cost"),
        elapsed_ms=_number(found.get("elapsed_ms"), "elapsed_ms") or 0.0,
        details=found.get("details"),
        tests=tests,
        successes=successes,
    )


def json_data(value: Any, depth: int = _DEEPEST) -> Any:
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


def _call_dict(call: CallMade) -> dict[str, Any]:
    data = attrs.asdict(call, recurse=False)
    return data if call.raw_arguments is not None else {key: data[key] for key in data if key != "raw_arguments"}


def _call(data: Any) -> CallMade:
    found = _mapping(data, "a call")
    return CallMade(
        tool=_text(found.get("tool"), "tool"),
        params=_mapping(found.get("params") or {}, "params"),
        result=_mapping(found.get("result") or {}, "result"),
        turn=_count(found.get("turn", 0), "turn"),
        iteration=_count(found.get("iteration", 1), "iteration"),
        raw_arguments=_text(found["raw_arguments"], "raw_arguments")
        if found.get("raw_arguments") is not None
        else None,
    )


def _usage(data: Any) -> Usage:
    counts = _mapping(data, "usage")
    known = {field.name for field in attrs.fields(Usage)} - {"raw"}
    values: dict[str, Any] = {name: _count(count, name) for name, count in counts.items() if name in known}
    return Usage(**values)


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
