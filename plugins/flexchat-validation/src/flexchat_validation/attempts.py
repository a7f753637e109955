"""One attempt of a model at a case, with the judge's verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from flexchat import Usage

Outcome = Literal["passed", "failed", "error"]
"""An error says nothing about the model (the service was unavailable, refused a key): it is not counted, and is
retried."""

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
    outcome: Outcome
    at: str
    run: str | None = None
    case: str | None = None
    case_hash: str | None = None
    repetition: int = 0
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
