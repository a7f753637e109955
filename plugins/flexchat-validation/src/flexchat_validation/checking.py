"""What makes a case unusable: it expects nothing, names something that does not exist, or has an invalid pattern or
schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ToolDefinition
from flexchat.host import ToolDefinitionError, did_you_mean
from flexchat.plugin import Implementation

from .arguments import value_problems
from .cases import AnswerCheck, ArgumentCheck, Case, ExpectedCall, ExpectedTurn

if TYPE_CHECKING:
    from flexchat.host import Config

NOTHING_EXPECTED = "a case that expects nothing proves nothing: add calls or no_call = true"

KeyPath = tuple[str | int, ...]


@attrs.frozen
class CaseIssue:
    """A problem with a case: where in it, and what."""

    path: KeyPath
    text: str

    def sentence(self) -> str:
        """Return both in one line."""
        from flexchat.host import format_path

        return ": ".join(part for part in (format_path(self.path), self.text) if part)


@attrs.frozen(kw_only=True)
class Offered:
    """The tools a case may name.

    Attributes:
        parameters: Their schemas by name; None if the schema is a plugin's. SOURCE/* stands for a source's tools.
        are_all: Whether there are no others; the tools of sources may be unknown.
    """

    parameters: Mapping[str, Mapping[str, Any] | None] = attrs.field(factory=dict)
    are_all: bool = True

    @classmethod
    def of(cls, config: Config, more: Collection[str] = ()) -> Offered:
        """Return those in a configuration's registry, plus others whose schemas are not known."""
        own = {entry.name: entry.parameters for entry in config.tools.registry}
        are_all = not config.tools.sources or any(name.endswith("/*") for name in more)
        return cls(parameters={**dict.fromkeys(more), **own}, are_all=are_all)

    def has(self, name: str) -> bool:
        """Return whether there is, or may be, a tool of that name."""
        return name in self.parameters or not self.are_all

    def to(self, case: Case) -> Offered:
        """Return those that a case offers to the model."""
        # If a name in tools is wrong, what is offered is unknown: report one problem, and not one for each call.
        # Likewise for SOURCE/*: the names of a source's tools are not known here.
        allowed = () if case.tools is None else case.tools
        is_unknown = not self.parameters.keys() >= {*allowed} or any(name.endswith("/*") for name in allowed)
        offers_all = case.tools is None or is_unknown
        chosen = {name: schema for name, schema in self.parameters.items() if offers_all or name in allowed}
        own = {tool.name: tool.parameters for tool in case.own_tools}
        return Offered(parameters={**chosen, **own}, are_all=self.are_all or not offers_all)


def find_issues(case: Case, offered: Offered) -> Iterator[CaseIssue]:
    """Yield everything that is wrong with a case.

    Args:
        offered: The tools of the configuration.
    """
    if not case.name.strip():
        yield CaseIssue(("name",), "the name is empty")
    yield from _expectation(case)
    yield from _tools(case, offered)
    offered = offered.to(case)
    yield from _mocks(case, offered)
    for index, turn in enumerate(case.turns):
        yield from _turn((("turns", index)), turn, offered)
    yield from _calls((), case, offered)
    if case.possible_answers is not None:
        yield from _possible_answers(case, offered)


def _expectation(case: Case) -> Iterator[CaseIssue]:
    if (case.message is None) == (not case.turns):
        yield CaseIssue((), "add message, or turns for several messages" + ("" if case.turns else "; there is neither"))
    if case.message is not None and not case.message.strip():
        yield CaseIssue(("message",), "the message is empty")
    answers = case.possible_answers is not None
    if case.turns:
        misplaced = [key for key in ("calls", "no_call", "answer") if getattr(case, key)]
        yield from (CaseIssue((key,), "with several messages, this belongs in each of the turns") for key in misplaced)
        if answers:
            yield CaseIssue(("possible_answers",), "the leaderboard's rules only support one message, not turns")
        return
    if answers and case.calls is not None:
        yield CaseIssue(("possible_answers",), "it replaces calls: use one of the two")
    if answers and case.judge != "bfcl":
        yield CaseIssue(("possible_answers",), 'it is for the leaderboard\'s rules: set judge = "bfcl" with it')
    if case.judge == "bfcl" and not answers and not case.no_call:
        yield CaseIssue(
            ("judge",), "the leaderboard's rules need its ground truth: add possible_answers or no_call = true"
        )
    elif not case.calls and not case.no_call and not case.possible_answers:
        yield CaseIssue((), NOTHING_EXPECTED)
    if case.no_call and (case.calls or case.possible_answers):
        yield CaseIssue(("no_call",), "calls and no_call contradict each other")


def _turn(path: KeyPath, turn: ExpectedTurn, offered: Offered) -> Iterator[CaseIssue]:
    if not turn.message.strip():
        yield CaseIssue((*path, "message"), "the message is empty")
    if not turn.calls and not turn.no_call:
        yield CaseIssue(path, NOTHING_EXPECTED)
    if turn.calls and turn.no_call:
        yield CaseIssue((*path, "no_call"), "calls and no_call contradict each other")
    yield from _calls(path, turn, offered)


def _tools(case: Case, offered: Offered) -> Iterator[CaseIssue]:
    for index, name in enumerate(case.tools or ()):
        if not offered.has(name):
            text = f"the config has no tool '{name}'{did_you_mean(name, offered.parameters)}"
            yield CaseIssue(("tools", index), f"{text}; define a case's own tool in own_tools")
    names: set[str] = set()
    for index, tool in enumerate(case.own_tools):
        path: KeyPath = ("own_tools", index)
        if tool.name in names:
            yield CaseIssue(path, f"another of the case's own tools is called '{tool.name}' already")
        names.add(tool.name)
        try:
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters=tool.parameters,
                implementation=Implementation(type="mock"),
            )
        except ToolDefinitionError as error:
            yield CaseIssue(path, str(error))
        else:
            yield from _schema((*path, "parameters"), tool.parameters)


def _mocks(case: Case, offered: Offered) -> Iterator[CaseIssue]:
    for name, mock in case.mocks.items():
        path: KeyPath = ("mocks", name)
        if not offered.has(name):
            yield CaseIssue(path, f"the case offers no tool '{name}'{did_you_mean(name, offered.parameters)}")
        if mock.times is not None and mock.error is None:
            yield CaseIssue((*path, "times"), "it counts failures: add error")
        if mock.error is not None and mock.times is None and mock.result is not None:
            yield CaseIssue((*path, "result"), "the tool always fails, so this is never returned: add times")


def _calls(path: KeyPath, turn: ExpectedTurn | Case, offered: Offered) -> Iterator[CaseIssue]:
    for index, call in enumerate(turn.calls or ()):
        yield from _call((*path, "calls", index), call, offered)
    if turn.answer is not None:
        yield from _answer((*path, "answer"), turn.answer)


def _call(path: KeyPath, call: ExpectedCall, offered: Offered) -> Iterator[CaseIssue]:
    if not offered.has(call.tool):
        names = ", ".join(sorted(offered.parameters)[:10]) or "none"
        text = f"the case offers no tool '{call.tool}'{did_you_mean(call.tool, offered.parameters)}"
        yield CaseIssue((*path, "tool"), f"{text}; it offers: {names}")
    schema = offered.parameters.get(call.tool)
    for key, arguments in (("arguments", call.arguments), ("check", call.check)):
        for name in arguments:
            if not _takes(schema, name):
                parameters = schema.get("properties", {}) if schema else {}
                text = f"{call.tool} has no parameter '{name}'{did_you_mean(name, parameters)}"
                yield CaseIssue((*path, key, name), text)
    for name, value in call.arguments.items():
        for problem in _refusals(schema, name, value):
            yield CaseIssue((*path, "arguments", name), f"{call.tool} would refuse it: {problem}")
    for name, check in call.check.items():
        here = (*path, "check", name)
        if name in call.arguments:
            yield CaseIssue(here, "arguments already has its value: use one of the two")
        yield from _check(here, check)


def _takes(schema: Mapping[str, Any] | None, name: str) -> bool:
    if schema is None or not isinstance(schema.get("properties"), Mapping):
        return True
    elsewhere = ("additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if")
    return name in schema["properties"] or any(schema.get(keyword) for keyword in elsewhere)


def _refusals(schema: Mapping[str, Any] | None, name: str, value: Any) -> list[str]:
    """Validate an expected value against a tool's schema; return the reasons for which the tool refuses it."""
    from flexchat.host import schema_problems

    properties = schema.get("properties") if schema else None
    own = properties.get(name) if isinstance(properties, Mapping) else None
    if not isinstance(own, Mapping) or "$ref" in str(own) or schema_problems(own):
        return []
    return value_problems(name, value, own)


def _check(path: KeyPath, check: ArgumentCheck) -> Iterator[CaseIssue]:
    if check.one_of is not None and not check.one_of:
        yield CaseIssue((*path, "one_of"), "it allows no value at all: name one")
    if check.regex is not None:
        yield from _pattern((*path, "regex"), check.regex)
    if check.schema is not None:
        yield from _schema((*path, "schema"), check.schema)
    if check.near is None and check.within != attrs.fields(ArgumentCheck).within.default:
        yield CaseIssue((*path, "within"), "it is a distance from near: add near")


def _answer(path: KeyPath, answer: AnswerCheck) -> Iterator[CaseIssue]:
    if not answer.contains and answer.regex is None:
        yield CaseIssue(path, "it asks for nothing: add contains or regex")
    if answer.regex is not None:
        yield from _pattern((*path, "regex"), answer.regex)


def _pattern(path: KeyPath, pattern: str) -> Iterator[CaseIssue]:
    from flexchat.host import NoEngineError, PatternError, compile_pattern

    try:
        compile_pattern(pattern)
    except PatternError as error:
        is_missing = isinstance(error, NoEngineError)
        yield CaseIssue(path, str(error) if is_missing else f"this is not a regular expression: {error}")


def _schema(path: KeyPath, schema: Mapping[str, Any]) -> Iterator[CaseIssue]:
    from flexchat.host import schema_problems

    for problem in schema_problems(schema):
        yield CaseIssue(path, problem)


def _possible_answers(case: Case, offered: Offered) -> Iterator[CaseIssue]:
    if not case.possible_answers:
        yield CaseIssue(("possible_answers",), NOTHING_EXPECTED)
    for index, answer in enumerate(case.possible_answers or ()):
        path: KeyPath = ("possible_answers", index)
        arguments = next(iter(answer.values()), None)
        if len(answer) != 1 or not isinstance(arguments, Mapping):
            yield CaseIssue(path, "expected one tool's name with a table of its arguments")
            continue
        (name,) = answer
        if not offered.has(name):
            yield CaseIssue(path, f"the case offers no tool '{name}'{did_you_mean(name, offered.parameters)}")
        for argument, values in arguments.items():
            if not isinstance(values, (list, tuple)) or not values:
                yield CaseIssue((*path, name, argument), "expected a list of the values it may have")
