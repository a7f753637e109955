"""Judges what a model did with a case. Pure functions: they run nothing, and never raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from flexchat import AssistantMessage, ChatResponse
from flexchat.host import did_you_mean

from .arguments import answer_problems, argument_problems, assigned, in_order, shorten
from .attempts import Judgement
from .bfcl_rules import matches
from .cases import Case, ExpectedCall, ExpectedTurn
from .reading import aspects_of, turns_of

NOT_RUN = ("Invalid parameters: ", "Invalid tool arguments: ", "Tool '", "This exact call ", "Not executed")
"""Starts of the errors of calls that never reached their tool, and so did not fail because of a mock."""

_REFUSED = NOT_RUN[:2]
"""Start of the error if the tool does not accept the arguments."""


@attrs.frozen(eq=False)
class _Call:
    """A call of the model.

    Attributes:
        params: None if its arguments could not be read.
        failed: Because of a mock's error.
        refused: Why the tool did not accept its arguments; empty if it did.
    """

    tool: str
    params: Mapping[str, Any] | None
    iteration: int
    failed: bool = False
    refused: str = ""


@attrs.define
class _Findings:
    """Findings about one message's calls: for each aspect, and what is wrong."""

    aspects: dict[str, bool] = attrs.field(factory=dict)
    problems: list[str] = attrs.field(factory=list)


def judge(case: Case, responses: Sequence[ChatResponse]) -> Judgement:
    """Judge a model's responses to a case, and the aspects that they show.

    A case passes if every aspect except "parallel" holds, and every answer meets its checks: a model that makes its
    calls one by one instead of at once still does the work. Calls that fail because of a mock count as calls of the
    right tool, and are never too many. A model recovers if it makes the expected call in the end or, if the tool always
    fails, has tried and gives an answer.

    Args:
        responses: One for each message of the case.
    """
    turns = turns_of(case)
    aspects = dict.fromkeys(aspects_of(case), True)
    problems: list[str] = []
    for index, turn in enumerate(turns):
        if index >= len(responses):
            findings = _Findings(dict.fromkeys(aspects, False), ["it was not answered"])
        else:
            findings = _judged(case, turn, responses[index])
        for aspect, holds in findings.aspects.items():
            if aspect in aspects:
                aspects[aspect] &= holds
        place = f"message {index + 1}: " if len(turns) > 1 else ""
        problems += [f"{place}{problem}" for problem in findings.problems]
    if "parallel" in aspects and problems:
        aspects["parallel"] &= aspects.get("right_arguments", True)
    passed = not problems and all(holds for aspect, holds in aspects.items() if aspect != "parallel")
    return Judgement(passed=passed, aspects=aspects, problems=tuple(problems))


def _judged(case: Case, turn: ExpectedTurn, response: ChatResponse) -> _Findings:
    calls = _calls(case, response)
    if case.possible_answers is not None:
        findings = _by_the_leaderboard(case, calls)
    elif turn.no_call:
        # A model that thought until its tokens ran out has not decided against a call. The leaderboard counts it.
        silent = not (calls or case.judge == "bfcl" or str(response.content or "").strip())
        findings = _Findings({"abstains": not calls and not silent})
        if calls:
            findings.problems.append(f"no call was expected, but it called {_format_calls(calls)}")
        if silent:
            findings.problems.append("the model answered nothing")
    else:
        findings = _by_our_rules(case, turn, calls, str(response.content or ""))
    if turn.answer is not None:
        findings.problems += answer_problems(turn.answer, str(response.content or ""))
    return findings


def _calls(case: Case, response: ChatResponse) -> list[_Call]:
    answers = [m for m in response.messages if isinstance(m, AssistantMessage)]
    unreadable = {call.id for message in answers for call in message.tool_calls if call.arguments is None}
    calls = []
    for record in response.tool_calls or ():
        readable = isinstance(record.params, Mapping) and record.call_id not in unreadable
        error, mock = str(record.result.error or ""), case.mocks.get(record.tool)
        is_mocked = mock is not None and mock.error is not None and not record.result.success
        calls.append(
            _Call(
                record.tool,
                record.params if readable else None,
                record.iteration,
                failed=readable and is_mocked and not error.startswith(NOT_RUN),
                refused=record.result.explained() if error.startswith(_REFUSED) else "",
            )
        )
    return calls


def _by_the_leaderboard(case: Case, calls: Sequence[_Call]) -> _Findings:
    answers = case.possible_answers or ()
    schemas = {tool.name: tool.parameters for tool in case.own_tools}
    problems = matches(answers, [(call.tool, call.params) for call in calls], schemas)
    names = sorted(name for answer in answers for name in answer)
    right_tool = sorted(call.tool for call in calls) == names
    findings = _Findings({"right_tool": right_tool, "right_arguments": not problems}, problems)
    findings.aspects["parallel"] = not problems and len({call.iteration for call in calls}) == 1
    return findings


def _by_our_rules(case: Case, turn: ExpectedTurn, calls: Sequence[_Call], content: str) -> _Findings:
    expected = turn.calls or ()
    hopeless = {name for name, mock in case.mocks.items() if mock.error is not None and mock.times is None}
    usable = [call for call in calls if not call.failed or call.tool in hopeless]
    match = in_order if turn.order == "given" else assigned
    pairs = match(len(expected), len(usable), _fits(expected, usable))
    same_name = assigned(len(expected), len(calls), lambda i, j: expected[i].tool == calls[j].tool)
    fitting = match(len(expected), len(calls), _fits(expected, calls))
    spare = [call for j, call in enumerate(usable) if j not in pairs.values() and not call.failed]
    complete = len(pairs) == len(expected)
    strangers = [] if turn.extra_calls else _too_many(expected, usable)
    tried = [usable[j] for j in pairs.values()]
    silent = any(call.failed for call in tried) and not content.strip()
    problems = _call_problems(turn, usable, pairs, [call for call in calls if call not in usable])
    if complete and spare and not turn.extra_calls:
        problems.append(f"it also called {_format_calls(spare)}, which is not expected")
    if silent:
        problems.append("the tool failed, and the model answered nothing")
    return _Findings(
        {
            "right_tool": len(same_name) == len(expected) and not strangers,
            "right_arguments": len(fitting) == len(expected),
            "parallel": complete and len({call.iteration for call in tried}) <= 1,
            "recovers": complete and not silent,
        },
        problems,
    )


def _fits(expected: Sequence[ExpectedCall], calls: Sequence[_Call]) -> Callable[[int, int], bool]:
    results: dict[tuple[int, int], bool] = {}

    def fits(i: int, j: int) -> bool:
        if (i, j) not in results:
            call, params = calls[j], calls[j].params
            same = call.tool == expected[i].tool and params is not None and not call.refused
            results[i, j] = same and params is not None and not argument_problems(expected[i], params)
        return results[i, j]

    return fits


def _too_many(expected: Sequence[ExpectedCall], calls: Sequence[_Call]) -> list[_Call]:
    names = [call.tool for call in expected]
    strangers = []
    for call in calls:
        if call.tool in names:
            names.remove(call.tool)
        elif not call.failed:
            strangers.append(call)
    return strangers


def _call_problems(
    turn: ExpectedTurn, calls: Sequence[_Call], pairs: Mapping[int, int], failed: Sequence[_Call]
) -> list[str]:
    """Return a sentence for each expected call that is missing; failed: the calls that mocks ended."""
    expected = turn.calls or ()
    if len(pairs) == len(expected):
        return []
    if turn.order == "given":
        free = assigned(len(expected), len(calls), _fits(expected, calls))
        if len(free) == len(expected):
            order = ", ".join(call.tool for call in expected)
            return [f"the calls were made in another order than expected: {order}"]
        pairs = free
    unmatched = [call for j, call in enumerate(calls) if j not in pairs.values()]
    problems = []
    for i, missing in enumerate(expected):
        if i in pairs:
            continue
        same = [call for call in unmatched if call.tool == missing.tool]
        if same:
            nearest = min(same, key=lambda call: _distance(missing, call))
            unmatched.remove(nearest)
            problems += _argument_sentences(missing, nearest)
        elif again := [call for call in failed if call.tool == missing.tool]:
            problems += _not_again(missing, min(again, key=lambda call: _distance(missing, call)))
        else:
            problems.append(f"{missing.tool} was not called{_instead(missing, unmatched)}")
    return problems


def _distance(expected: ExpectedCall, call: _Call) -> int:
    return 1000 if call.params is None else len(argument_problems(expected, call.params)) + bool(call.refused)


def _argument_sentences(expected: ExpectedCall, call: _Call) -> list[str]:
    if call.params is None:
        return [f"{expected.tool}: its arguments are not a JSON object"]
    problems = argument_problems(expected, call.params) or [call.refused]
    return [f"{expected.tool}: {problem}" for problem in problems]


def _not_again(expected: ExpectedCall, call: _Call) -> list[str]:
    if _distance(expected, call):
        return _argument_sentences(expected, call)
    return [f"{_format_calls([call])} failed, as the case intends, and was not called again"]


def _instead(expected: ExpectedCall, unmatched: Sequence[_Call]) -> str:
    names = [*dict.fromkeys(call.tool for call in unmatched)]
    if not names:
        return ""
    return f"; {', '.join(names[:5])} was" + did_you_mean(expected.tool, names).replace("did you mean", "much like")


def _format_calls(calls: Sequence[_Call]) -> str:
    texts = [f"{call.tool}({_format_arguments(call)})" for call in calls[:3]]
    return ", ".join(texts) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")


def _format_arguments(call: _Call) -> str:
    if call.params is None:
        return "…"
    shortened = [f"{name}={shorten(value, 40)}" for name, value in list(call.params.items())[:5]]
    return ", ".join(shortened) + (", …" if len(call.params) > 5 else "")
