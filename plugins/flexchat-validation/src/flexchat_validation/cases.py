"""The schema of files with validation cases, and the table ``validation`` of a configuration.

A case defines a model's expected reaction to a message: the tools it calls and their arguments, or no call. A case
without an expectation proves nothing, and is refused.
"""

# ruff: noqa: RUF009  (key is attrs.field with a description)
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from flexchat.host import Config, key


@attrs.frozen(kw_only=True)
class ArgumentCheck:
    """What one argument must be; every condition given must hold."""

    one_of: tuple[Any, ...] | None = key("Values it may have.", default=None)
    regex: str | None = key("Pattern that must match somewhere in it; it must be text.", default=None)
    schema: Mapping[str, Any] | None = key("JSON Schema it must fit.", default=None)
    near: float | None = key("Number it must be near.", default=None)
    within: float = key("How far from ``near`` it may be.", min=0, default=1e-9)
    optional: bool = key("May be left out.", default=False)


@attrs.frozen(kw_only=True)
class ExpectedCall:
    """A tool call the model should make."""

    tool: str = key("Name of the tool.")
    arguments: Mapping[str, Any] = key("Arguments, and the values they must have.", factory=dict)
    check: Mapping[str, ArgumentCheck] = key("Arguments with several acceptable values, by name.", factory=dict)
    other_arguments: bool = key("Whether arguments not named here may be given.", default=True)


@attrs.frozen(kw_only=True)
class AnswerCheck:
    """The requirements on the text of the last answer."""

    contains: tuple[str, ...] = key("Texts that must all occur in it, in any case.", default=())
    regex: str | None = key("Pattern that must match somewhere in it.", default=None)


@attrs.frozen(kw_only=True)
class ExpectedTurn:
    """One message of a case with several, and what it should lead to."""

    message: str = key("The user's message.")
    calls: tuple[ExpectedCall, ...] | None = key("Calls the model should make.", default=None)
    no_call: bool = key("The model should call no tool.", default=False)
    order: Literal["any", "given"] = key("Whether the order of the calls counts.", default="any")
    extra_calls: bool = key("Whether further calls are allowed.", default=False)
    answer: AnswerCheck | None = key("Requirements on the text of the answer.", default=None)


@attrs.frozen(kw_only=True)
class ToolMock:
    """What a tool answers during validation instead of running."""

    result: Any = key("What it returns: any JSON value.", default=None)
    error: str | None = key("It fails with this text, which the model reads.", default=None)
    times: int | None = key("How often it fails before it returns result; default: always.", min=1, default=None)


@attrs.frozen(kw_only=True)
class CaseTool:
    """A case's own tool, which the config does not have. It never runs."""

    name: str = key("Name.")
    description: str = key("What the tool does, for the model.")
    parameters: Mapping[str, Any] = key("JSON Schema of the arguments; its root is an object.")


@attrs.frozen(kw_only=True)
class Case:
    """A message, and what a model should do with it."""

    name: str = key("Unique name; results are kept under it.")
    message: str | None = key("The user's message; for several: turns.", default=None)
    calls: tuple[ExpectedCall, ...] | None = key("Calls the model should make.", default=None)
    no_call: bool = key("The model should call no tool.", default=False)
    order: Literal["any", "given"] = key("Whether the order of the calls counts.", default="any")
    extra_calls: bool = key("Whether further calls are allowed.", default=False)
    answer: AnswerCheck | None = key("Requirements on the text of the answer.", default=None)
    turns: tuple[ExpectedTurn, ...] = key("Several messages, one after the other, instead of message.", default=())
    tools: tuple[str, ...] | None = key(
        "Names of tools offered, or SOURCE/*; default: all of the config's.", default=None
    )
    own_tools: tuple[CaseTool, ...] = key("Tools offered in addition to or instead of the config's.", default=())
    mocks: Mapping[str, ToolMock] = key("What tools answer instead of running, by name.", factory=dict)
    prompt: str | None = key("System prompt; default: validation.prompt.", default=None)
    max_iterations: int | None = key(
        "Answers that may ask for tools; default: as configured.", min=1, max=50, default=None
    )
    tags: tuple[str, ...] = key("Words to choose cases by.", default=())
    judge: Literal["flexchat", "bfcl"] = key(
        "Whose rules compare arguments: FlexChat's, or those of the Berkeley leaderboard.", default="flexchat"
    )
    possible_answers: tuple[Mapping[str, Any], ...] | None = key(
        "For the leaderboard's rules: its ground truth, instead of calls.", default=None
    )


@attrs.frozen(kw_only=True)
class CaseFile:
    """A file of cases."""

    cases: tuple[Case, ...] = key("The cases.", default=())


@attrs.frozen(kw_only=True)
class Price:
    """What a model costs."""

    input: float = key("US dollars for a million tokens it reads.", min=0)
    output: float = key("US dollars for a million tokens it writes.", min=0)


@attrs.frozen(kw_only=True)
class ValidationTable:
    """[validation]: which models are tried with which cases."""

    cases: tuple[Case, ...] = key("Cases.", default=())
    files: tuple[str, ...] = key("Files with more cases, from this file's folder; * and ** are wildcards.", default=())
    models: tuple[str, ...] = key("Models, as LLM/MODEL; default: those the rules name.", default=())
    runs: int = key("How often each case is tried.", min=1, max=1000, default=1)
    concurrency: int = key("Cases tried at once per service.", min=1, max=256, default=4)
    prompt: str = key(
        "System prompt for cases without one.",
        default="You are a helpful assistant with access to tools. Use them when they help, and only then.",
    )
    max_tokens: int = key("Maximum length of an answer, in tokens.", min=1, default=500)
    temperature: float | None = key("Sampling temperature; default: the service's own.", min=0, max=2, default=None)
    run_tools: bool = key(
        "Whether tools that change something really run; otherwise only tools that read do.", default=False
    )
    prices: Mapping[str, Price] = key("What models cost, by LLM/MODEL.", factory=dict)
    store: str | None = key("Database of the results; default: one for this user.", default=None)


def is_set(field: attrs.Attribute[Any], value: Any) -> bool:
    """Return whether a case or a table has another value than its default: a filter for attrs.asdict."""
    default = field.default
    return bool(value != ({} if isinstance(default, attrs.Factory) else default))  # type: ignore[arg-type]


def table_of(config: Config) -> ValidationTable:
    """Return a configuration's table ``validation``, or the defaults if it has none."""
    table: ValidationTable | None = config.tables.get("validation")
    return table or ValidationTable()
