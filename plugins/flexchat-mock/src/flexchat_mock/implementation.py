"""The implementation type "mock": a tool with configured answers.

Arguments are validated before a mock runs, as for any other tool.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import attrs
from flexchat.plugin import ImplementationType, ToolContext, ToolDefinition, ToolHandler


class Absent(Enum):
    """The type of ABSENT."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT  # marks a key the config omits; null is a valid response


class MockError(Exception):
    """A mock's configured error, or a call that matches none of its cases."""


@attrs.frozen(kw_only=True)
class MockAnswer:
    """One answer of a sequence: a response or an error.

    Attributes:
        delay_ms: Delay before this answer; None for the mock's own delay_ms.
    """

    response: Any = ABSENT
    error: str | None = None
    delay_ms: int | None = None


@attrs.frozen(kw_only=True)
class MockCase(MockAnswer):
    """An answer to specific arguments.

    Attributes:
        when: Required parameter values. Parameters that are not listed may have any value.
    """

    when: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class MockSettings:
    """The implementation table of a mock tool.

    The first entry of responses whose ``when`` matches is used; if none matches, the mock_response, sequence or error,
    of which at most one may be set.

    Attributes:
        mock_response: Any JSON value, returned unchanged.
        responses: Answers by argument.
        sequence: Answers to successive calls of the tool; the last one repeats.
        error: Fail every call with this text.
        delay_ms: Delay before each answer.
        output_schema: JSON Schema of the real tool's results, which all responses must satisfy.
    """

    mock_response: Any = ABSENT
    responses: tuple[MockCase, ...] = ()
    sequence: tuple[MockAnswer, ...] = ()
    error: str | None = None
    delay_ms: int = 0
    output_schema: Mapping[str, Any] | None = None
    # Position in the sequence. next() on itertools.count is atomic, so concurrent calls get one answer each.
    calls: Iterator[int] = attrs.field(factory=itertools.count, init=False, eq=False, repr=False)


async def run(settings: MockSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Return a copy of the configured answer to these arguments.

    Raises:
        MockError: The answer is an error, or no case matches the arguments.
    """
    answer = _answer(settings, params)
    delay_ms = settings.delay_ms if answer.delay_ms is None else answer.delay_ms
    if delay_ms > 0:
        await asyncio.sleep(delay_ms / 1000)
    if answer.error is not None:
        raise MockError(answer.error)
    return copy.deepcopy(answer.response)


def _answer(settings: MockSettings, params: Mapping[str, Any]) -> MockAnswer:
    for case in settings.responses:
        if _fits(case.when, params):
            return case
    if settings.sequence:
        return settings.sequence[min(next(settings.calls), len(settings.sequence) - 1)]
    if settings.error is None and settings.mock_response is ABSENT:
        cases = "; ".join(_json(case.when) for case in settings.responses)
        raise MockError(f"the mock has no response for {_json(params)} (it has some for: {cases or 'nothing'})")
    return MockAnswer(response=settings.mock_response, error=settings.error)


def _fits(when: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    return all(key in params and _same(value, params[key]) for key, value in when.items())


def _same(a: Any, b: Any) -> bool:
    """Compare two values as JSON: true differs from 1, and 1 equals 1.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, default=str)


def check(settings: MockSettings, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]) -> str | None:
    """Validate the settings; return the first contradiction, or None."""
    keys = ["mock_response"] if settings.mock_response is not ABSENT else []
    keys += ["sequence"] if settings.sequence else []
    keys += ["error"] if settings.error is not None else []
    if len(keys) > 1:
        return f"{' and '.join(keys)} are mutually exclusive: keep one (responses may be combined with it)"
    if not keys and not settings.responses:
        return "a mock needs one of mock_response, responses, sequence and error"
    if settings.delay_ms < 0:
        return f"delay_ms must be 0 or more, got {settings.delay_ms}"
    answers: list[tuple[str, MockAnswer]] = [(f"responses[{i}]", case) for i, case in enumerate(settings.responses)]
    answers += [(f"sequence[{i}]", answer) for i, answer in enumerate(settings.sequence)]
    problem = next(filter(None, (_problem(answer, place) for place, answer in answers)), None)
    answers.append(("mock_response", MockAnswer(response=settings.mock_response)))
    return problem or _check_cases(settings.responses, tool) or _check_responses(settings.output_schema, answers)


def _problem(answer: MockAnswer, place: str) -> str | None:
    if (answer.response is ABSENT) == (answer.error is None):
        return f"{place} needs either response or error" + (", not both" if answer.error is not None else "")
    if answer.delay_ms is not None and answer.delay_ms < 0:
        return f"{place}.delay_ms must be 0 or more, got {answer.delay_ms}"
    return None


def _check_responses(schema: Mapping[str, Any] | None, answers: list[tuple[str, MockAnswer]]) -> str | None:
    if schema is None:
        return None
    # Imported here because few mocks have an output_schema.
    from flexchat.host import SchemaEngine, UncheckedError, limited_work, schema_problems, sentence

    if problems := schema_problems(schema):
        return f"output_schema: {problems[0]}"
    engine = SchemaEngine(schema)
    for place, answer in answers:
        if answer.response is ABSENT:
            continue
        try:
            with limited_work():
                wrong = [sentence(error) for error in engine.errors(answer.response)]
        except UncheckedError as error:
            wrong = [f"it holds {error}"]
        if wrong:
            return f"{place} does not fit output_schema: {wrong[0]}"
    return None


def _check_cases(cases: tuple[MockCase, ...], tool: ToolDefinition) -> str | None:
    parameters = tool.parameters.get("properties") or {}
    for i, case in enumerate(cases):
        unknown = [name for name in case.when if name not in parameters]
        if unknown and parameters:
            names = ", ".join(parameters)
            return f"responses[{i}].when names '{unknown[0]}', which is not a parameter (parameters: {names})"
        for j, earlier in enumerate(cases[:i]):
            if _fits(earlier.when, case.when):
                return f"responses[{i}] is never used: responses[{j}] matches everything it matches"
    return None


MOCK = ImplementationType(
    name="mock",
    settings_class=MockSettings,
    run=run,
    check=check,
    summary="returns configured answers: mock_response, responses by argument, sequence, error, delay_ms",
)
"""The record this package registers."""
