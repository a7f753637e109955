"""Makes cases from kept conversations: what a model did once becomes what models should do.

The tools' answers become mocks, so that such a case runs without the tools themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from flexchat import AssistantMessage, ConversationTurn, ToolCall, ToolMessage, UserMessage
from flexchat.host import with_hint

from .arguments import json_equal
from .cases import Case, ExpectedCall, ExpectedTurn, ToolMock
from .judging import NOT_RUN
from .reading import Imported


@attrs.frozen(kw_only=True)
class _Done:
    """A call with what its tool answered. answer: the iteration that asked for it."""

    call: ToolCall
    success: bool
    result: Any
    error: str
    answer: int


_ENDED = {"cancelled": "was stopped", "failed": "failed"}


@attrs.frozen(kw_only=True)
class _Recorded:
    """One turn's contribution: its message as an expectation, and mocks of its tools."""

    turn: ExpectedTurn | None
    mocks: dict[str, ToolMock]
    notes: tuple[str, ...]


def recorded_cases(
    turns: Sequence[ConversationTurn], *, name: str | None = None, tags: Sequence[str] = (), whole: bool = False
) -> Imported:
    """Create a case for each turn, or one for all turns together.

    Calls that never reached their tool (wrong arguments, repeated) are not expected.

    Args:
        name: The name of the case; with several, a number follows. Default: the user's message.
        whole: Create one case with all turns: later messages often depend on earlier ones.
    """
    recorded = [(turn, _recorded(turn)) for turn in turns]
    several = len(turns) > 1
    notes = [
        f"turn {number}: {note}" if several else note
        for number, (_, part) in enumerate(recorded, 1)
        for note in part.notes
    ]
    usable = [(turn, part, part.turn) for turn, part in recorded if part.turn is not None]
    if whole and usable:
        first, expected = usable[0][0], tuple(turn for _, _, turn in usable)
        mocks: dict[str, ToolMock] = {}
        for _, part, _ in usable:
            notes += [
                f"{tool} answered differently in a later turn; the mock answers as the first time"
                for tool, mock in part.mocks.items()
                if not _same_mock(mocks.setdefault(tool, mock), mock)
            ]
        case = Case(name=name or _name(first), turns=expected, mocks=mocks, tags=tuple(tags))
        return Imported(cases=(case,), notes=tuple(notes))
    names = _names([_name(turn) for turn, _, _ in usable], name)
    cases = [
        Case(name=case_name, **attrs.asdict(expected, recurse=False), mocks=part.mocks, tags=tuple(tags))
        for case_name, (_, part, expected) in zip(names, usable, strict=True)
    ]
    return Imported(cases=tuple(cases), notes=tuple(notes))


def _name(turn: ConversationTurn) -> str:
    return turn.title or "recorded"


def _names(titles: Sequence[str], name: str | None) -> Iterator[str]:
    counts: dict[str, int] = {}
    for title in titles:
        case_name = name or title
        counts[case_name] = counts.get(case_name, 0) + 1
        yield case_name if counts[case_name] == 1 else f"{case_name} ({counts[case_name]})"


def _recorded(turn: ConversationTurn) -> _Recorded:
    if turn.status != "done":
        return _Recorded(turn=None, mocks={}, notes=(f"left out: the turn {_ENDED[turn.status]}",))
    user_messages = [message for message in turn.messages if isinstance(message, UserMessage)]
    message = "\n".join(m.content for m in user_messages if m.content.strip())
    notes = ["the message's pictures and files are left out"] if any(m.media for m in user_messages) else []
    if not message:
        return _Recorded(turn=None, mocks={}, notes=(*notes, "left out: the user wrote no text"))
    done = [*_calls(turn)]
    ran = [call for call in done if call.success or not call.error.startswith(NOT_RUN)]
    if len(ran) < len(done):
        notes.append(f"{len(done) - len(ran)} of {len(done)} calls never reached their tool and are not expected")
    if done and not ran:
        return _Recorded(turn=None, mocks={}, notes=(*notes, "left out: no call reached its tool"))
    expected, mocks = [], {}
    for tool in dict.fromkeys(call.call.name for call in ran):
        mocks[tool], note = _mock(tool, [call for call in ran if call.call.name == tool])
        notes += [note] if note else []
    for call in ran:
        recovered = not call.success and any(c.success and c.call.name == call.call.name for c in ran)
        if not recovered:
            expected.append(ExpectedCall(tool=call.call.name, arguments=dict(call.call.arguments or {})))
    at_once = len({call.answer for call in ran}) <= 1
    return _Recorded(
        turn=ExpectedTurn(
            message=message,
            calls=tuple(expected) or None,
            no_call=not expected,
            order="any" if at_once else "given",
        ),
        mocks=mocks,
        notes=tuple(notes),
    )


def _mock(tool: str, calls: Sequence[_Done]) -> tuple[ToolMock, str]:
    """Create a mock that returns a tool's recorded result, and a note if there were several results."""
    worked = [call for call in calls if call.success]
    failed = [call for call in calls if not call.success]
    note = ""
    if any(not json_equal(call.result, worked[0].result) for call in worked[1:]):
        note = f"{tool} answered each call differently; the mock answers all like the first"
    error = failed[0].error if failed else None
    return ToolMock(
        result=worked[0].result if worked else None,
        error=error,
        times=len(failed) if failed and worked else None,
    ), note


def _same_mock(a: ToolMock, b: ToolMock) -> bool:
    return (a.error, a.times) == (b.error, b.times) and json_equal(a.result, b.result)


def _calls(turn: ConversationTurn) -> Iterator[_Done]:
    answers = {message.tool_call_id: message for message in turn.messages if isinstance(message, ToolMessage)}
    answers_of_model = [message for message in turn.messages if isinstance(message, AssistantMessage)]
    for index, message in enumerate(answers_of_model):
        for call in message.tool_calls:
            answer = answers.get(call.id)
            if call.arguments is None or answer is None:
                yield _Done(call=call, success=False, result=None, error=NOT_RUN[1], answer=index)
                continue
            success, result, error = _envelope(answer)
            yield _Done(call=call, success=success, result=result, error=error, answer=index)


def _envelope(answer: ToolMessage) -> tuple[bool, Any, str]:
    """Return success, result and error (with its hint) from the text the model read."""
    try:
        data = json.loads(answer.content)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("success"), bool):
        return not answer.is_error, answer.content, answer.content if answer.is_error else ""
    return data["success"], data.get("result"), with_hint(str(data.get("error") or ""), data.get("hint"))
