"""The policies of a config, ``[[approvals]]``: which calls of tools need a person's approval."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import attrs
from flexchat.host import UncheckedError, copied, duration_s, schema_problems, value_problem
from flexchat.plugin import Call, Origin, ToolDefinition, key, run_in_thread


def _not_empty(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not value:
        raise ValueError(f"{attribute.name} is empty, so that no call matches; leave it out for any")


def _is_schema(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    problems = [] if value is None else schema_problems(copied(value))
    if problems:
        raise ValueError(f"{attribute.name} is no JSON Schema: {problems[0]}")


def _is_duration(instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is None:
        return
    try:
        seconds = duration_s(value)
    except ValueError as error:
        raise ValueError(f"{attribute.name} is no duration: {error}") from None
    if not seconds:
        raise ValueError(f"{attribute.name} must be more than 0")


@attrs.frozen(kw_only=True)
class Policy:
    """One [[approvals]] table: which calls it is about, and whether a person must approve them."""

    name: str | None = key("What it is called in lists and questions. Default: its number.", default=None)
    tools: tuple[str, ...] | None = key(
        "Names of tools, with * for any characters: send_*; billing/* for all tools of a source. Default: all tools.",
        default=None,
        validator=_not_empty,
    )
    effect: Literal["read", "idempotent", "write"] | None = key(
        "Only calls of tools with this effect. Default: of any.", default=None
    )
    origin: tuple[Origin, ...] | None = key(
        "Only calls that come from these: model, program, command line, api, langchain, mcp, tool. Default: from any.",
        default=None,
        validator=_not_empty,
    )
    rule: tuple[str | int, ...] | None = key(
        "Only calls in turns that these rules answer: names, or numbers from 0. Default: all calls.",
        default=None,
        validator=_not_empty,
    )
    when: Mapping[str, Any] | None = key(
        "JSON Schema: only calls whose arguments fit it. Default: any arguments.", default=None, validator=_is_schema
    )
    ask: Literal["always", "never", "once"] = key(
        "Whether a person is asked about each call, about none, or once per conversation about a tool.",
        default="always",
    )
    expires: str | None = key(
        'How long it waits for a reply: "30m", "2h", "7d"; then its call is refused. Default: questions.expires.',
        default=None,
        validator=_is_duration,
    )
    reviewer: str | int | None = key(
        "A rule, by name or number, whose model reviews each call first: it may reject it, or leave it to a person.",
        default=None,
    )
    reviewer_approves: bool = key("Whether the reviewer may also approve, in a person's place.", default=False)
    plugin: str | None = key(
        "A plugin that may approve, in a person's place, with flexchat_before_approval.", default=None
    )

    def __attrs_post_init__(self) -> None:
        if self.reviewer_approves and self.reviewer is None:
            raise ValueError("reviewer_approves needs a reviewer")
        for field in ("expires", "reviewer", "plugin"):
            if self.ask == "never" and getattr(self, field) is not None:
                raise ValueError(f"{field} has no effect with ask = 'never'")

    @property
    def expires_s(self) -> float | None:
        """``expires`` in seconds; None if it is not set."""
        return None if self.expires is None else duration_s(self.expires)

    def to_data(self) -> dict[str, Any]:
        """Return all that decides, as JSON data: an approval under another policy does not count."""
        data = {field.name: copied(getattr(self, field.name)) for field in attrs.fields(Policy)}
        return {name: value for name, value in data.items() if value is not None and name != "name"}


def label(policies: Sequence[Policy], index: int) -> str:
    """Return the name of a policy for people: its own, or approvals[0]."""
    return policies[index].name or f"approvals[{index}]"


def names_of(tool: ToolDefinition, wire_name: str | None = None) -> set[str]:
    """Return the names under which patterns find a tool: its own, with its source, and as models are shown it."""
    names = {tool.name} if wire_name is None else {tool.name, wire_name}
    return names if tool.source is None else names | {f"{tool.source}/{name}" for name in names}


def fits_one(names: Iterable[str], patterns: Sequence[str] | None) -> bool:
    """Return whether one of the names fits one of the patterns; None fits all."""
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


async def find_policy(policies: Sequence[Policy], call: Call, wire_name: str | None) -> int | None:
    """Return the index of the first policy that is about a call whose arguments are checked; None if there is none."""
    tool = call.tool
    assert tool is not None
    names = names_of(tool, wire_name)
    for index, policy in enumerate(policies):
        if not fits_one(names, policy.tools) or policy.effect not in (None, tool.effect):
            continue
        if policy.origin is not None and call.origin not in policy.origin:
            continue
        if policy.rule is not None and (call.rule is None or not {*call.rule} & {*policy.rule}):
            continue
        if policy.when is None or await _fits(policy, call.arguments):
            return index
    return None


async def _fits(policy: Policy, arguments: Mapping[str, Any]) -> bool:
    """Return whether arguments fit ``when``; in doubt, the answer that leads to a question."""
    assert policy.when is not None
    value, schema = copied(arguments), copied(policy.when)
    # A condition on an argument that is absent holds in JSON Schema. That may lead to a question, but not around one:
    # what is absent may get a default that the condition excludes.
    if policy.ask == "never" and not _has_all(value, schema):
        return False
    try:
        return await _problem(value, schema) is None
    except UncheckedError:
        return policy.ask != "never"


def _has_all(value: Any, schema: Any) -> bool:
    """Return whether a value has every property that a schema is about, at every level."""
    about = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(about, dict):
        return True
    return isinstance(value, dict) and all(
        name in value and _has_all(value[name], each) for name, each in about.items()
    )


async def _problem(value: Any, schema: dict[str, Any]) -> str | None:
    # The first value that is not plainly valid imports it, which takes long: in a thread, or all turns stand still.
    if "jsonschema" in sys.modules:
        return value_problem(value, schema)
    problem: str | None = await run_in_thread(value_problem, value, schema)
    return problem
