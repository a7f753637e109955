"""The tools of a case: those the model is offered, and stand-ins for those that must not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flexchat import ChatRequestError, FlexChat, ToolDefinition
from flexchat.host import answered_by, did_you_mean
from flexchat.plugin import Implementation

from .cases import Case, ToolMock

ACCEPTED = {"success": True}
"""The answer of a tool that is not run: success, and nothing else."""


def offered_tools(chat: FlexChat, case: Case, *, run_tools: bool = False) -> list[ToolDefinition]:
    """Return the tools a case offers, each with what runs it during a try.

    The case's mocks answer first. Its own tools, and those of the config whose effect is not "read", are not run: they
    answer {"success": true}. run_tools lets those of the config run.

    Raises:
        ChatRequestError: The case names a tool that does not exist.
        ToolDefinitionError: One of its own is invalid.
    """
    registry = chat.tools.get_registry()
    names = registry.names() if case.tools is None else case.tools
    found: dict[str, ToolDefinition] = {}
    for name in names:
        tool = registry.get(name)
        if tool is None:
            raise ChatRequestError(
                f"case '{case.name}': no tool is called '{name}'{did_you_mean(name, registry.names())}"
            )
        found[name] = tool if run_tools else _without_effect(tool)
    for own in case.own_tools:
        definition = ToolDefinition(
            name=own.name,
            description=own.description,
            parameters=own.parameters,
            implementation=Implementation(type="python"),
        )
        found[own.name] = answered_by(_accept, definition)
    mocked = {name: answered_by(_Mocked(mock), found[name]) for name, mock in case.mocks.items() if name in found}
    return [*(found | mocked).values()]


def tools_to_run(tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """Return tools such that none changes anything: those that only read run, the others answer with ACCEPTED."""
    return [_without_effect(tool) for tool in tools]


def may_run(tool: ToolDefinition) -> bool:
    """Return whether a tool runs without a person: it changes nothing and needs no approval."""
    return tool.effect == "read" and not tool.approve


def _without_effect(tool: ToolDefinition) -> ToolDefinition:
    return tool if may_run(tool) else answered_by(_accept, tool)


def _accept(params: Mapping[str, Any]) -> Any:
    return ACCEPTED


class _Mocked:
    """A mock's answers, call after call: its error as often as configured, then its result."""

    def __init__(self, mock: ToolMock) -> None:
        self._mock = mock
        self._failed = 0

    def __call__(self, params: Mapping[str, Any]) -> Any:
        if self._mock.error is not None and (self._mock.times is None or self._failed < self._mock.times):
            self._failed += 1
            raise RuntimeError(self._mock.error)
        return self._mock.result
