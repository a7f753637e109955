"""Conversion of tools between FlexChat and LangChain."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from typing import Any, Literal

from flexchat import FlexChat, ToolCall, ToolDefinition, ToolResult
from flexchat.host import ToolDefinitionError, ToolManager, UnknownNameError, current_info, did_you_mean, new_call_id
from flexchat.plugin import Call, Implementation
from langchain_core.tools import BaseTool, Tool, ToolException
from pydantic import PrivateAttr

from .implementation import LANGCHAIN, LangChainTool
from .results import result_message
from .running import Running, SideBySide, Source

log = logging.getLogger(__name__)

# The schema LangChain shows models for a Tool, which takes one string and has no schema.
_ONE_TEXT = {"type": "object", "properties": {"__arg1": {"type": "string"}}, "required": ["__arg1"]}


def langchain_tools(source: Source, names: Collection[str] | None = None) -> list[BaseTool]:
    """Convert the tools of a configured FlexChat to LangChain tools.

    They run in FlexChat's executor: arguments are validated against the whole schema, the tool's timeout applies, hooks
    of plugins run, error texts are masked, and long results are cut to ``tools.max_result_chars``. A failure is a
    ToolMessage with status "error". The artifact is the whole result, as returned by ``ToolResult.to_dict``. A call of
    an exclusive tool does not run concurrently with other calls of the returned tools.

    Args:
        source: A FlexChat or SyncFlexChat, or a configuration; see running.Running for its event loop.
        names: Configured names of the tools to convert, or SOURCE/*; None for all.

    Raises:
        ConfigError: The configuration is invalid; lists all problems.
        UnknownNameError: A name does not belong to a tool.
        ToolClashError: Two of the tools have one name.
    """
    running, calls = Running(source), SideBySide()
    check_names(running.chat.tools, names)
    if names is not None and not names:
        return []
    offer = running.chat.tools.get_registry().offer(names)
    return [_exported(tool, offer.wire_name(tool.name), running, calls) for tool in offer.list()]


def check_names(tools: ToolManager, names: Collection[str] | None) -> None:
    """Check that each name is that of a tool, or SOURCE/*.

    Raises:
        UnknownNameError: A name does not belong to a tool.
    """
    registry = tools.get_registry()
    tool_names = registry.names()
    available = {*tool_names, *(f"{tool.source}/*" for tool in registry.list())}
    for name in names or ():
        if name not in available:
            listed = ", ".join(tool_names) or "none"
            raise UnknownNameError(f"no tool is called '{name}'{did_you_mean(name, tool_names)} (there are: {listed})")


class FlexChatTool(BaseTool):
    """A tool of a configured FlexChat, created by langchain_tools."""

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True
    _running: Running = PrivateAttr()
    _calls: SideBySide = PrivateAttr()
    _tool: ToolDefinition = PrivateAttr()

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # One dict, not keyword arguments: a parameter may be named "self" or "config".
        _, params = super()._to_args_and_kwargs(tool_input, tool_call_id)
        return (params, tool_call_id), {}

    def _run(self, params: Mapping[str, Any], call_id: str | None = None) -> tuple[Any, Any]:
        return self._answer(call_id, self._running.run(lambda chat: self._call(chat, params, call_id)))

    async def _arun(self, params: Mapping[str, Any], call_id: str | None = None) -> tuple[Any, Any]:
        return self._answer(call_id, await self._running.arun(lambda chat: self._call(chat, params, call_id)))

    async def _call(self, chat: FlexChat, params: Mapping[str, Any], call_id: str | None) -> ToolResult:
        call = Call(
            name=self._tool.name,
            tool=self._tool,  # another source may have a tool of the same name
            arguments=params,
            origin="langchain",
            turn=current_info(),
            id=call_id or new_call_id(),
        )
        async with self._calls.place(exclusive=self._tool.exclusive):
            return await chat.tools.calls.run(call)

    def _answer(self, call_id: str | None, result: ToolResult) -> tuple[Any, Any]:
        call = ToolCall.from_object(self.name, None, id=call_id or "")
        message = result_message(call, result, max_chars=self._running.chat.tools.table.max_result_chars)
        if message.status == "error":
            raise ToolException(message.content)
        return message.content, message.artifact


def _exported(tool: ToolDefinition, wire_name: str, running: Running, calls: SideBySide) -> FlexChatTool:
    exported = FlexChatTool(
        name=wire_name,  # services accept fewer names than FlexChat
        description=tool.description,
        args_schema=json.loads(json.dumps(dict(tool.parameters))),
        metadata={"flexchat_tool": tool.name, "effect": tool.effect},
    )
    exported._running, exported._calls, exported._tool = running, calls, tool
    return exported


def flexchat_tool(
    tool: BaseTool,
    *,
    injected: Mapping[str, Any] | None = None,
    timeout_ms: int | None = None,
    exclusive: bool = False,
    repeatable: bool = False,
    effect: Literal["read", "idempotent", "write"] = "write",
) -> ToolDefinition:
    """Convert a LangChain tool: ``FlexChat.from_config(…, tools=[flexchat_tool(tool)])``.

    Models see its name, description and ``tool_call_schema``. It is invoked with a tool call: InjectedToolCallId is the
    id of FlexChat's call, and a ToolException is a failure. A tool without a coroutine runs in a thread.

    Args:
        injected: Values of its InjectedToolArg arguments, by name; models do not see these.
        timeout_ms, exclusive, repeatable, effect: As in ToolDefinition.

    Raises:
        ToolDefinitionError: The name or schema is invalid in FlexChat.
    """
    if not isinstance(tool, BaseTool):
        raise ToolDefinitionError(f"a LangChain tool must be a BaseTool, not {type(tool).__name__}")
    if tool.return_direct:
        log.warning("tool %s: return_direct is not kept: its result goes to the model, which answers", tool.name)
    settings = LangChainTool(tool=tool, blocks=not _has_coroutine(tool), injected=dict(injected or {}))
    return ToolDefinition(
        name=tool.name,
        description=tool.description or tool.name,
        parameters=_parameters(tool),
        implementation=Implementation(type=LANGCHAIN.name, settings=settings),
        timeout_ms=timeout_ms,
        exclusive=exclusive,
        repeatable=repeatable,
        effect=effect,
    )


def _has_coroutine(tool: BaseTool) -> bool:
    if hasattr(tool, "coroutine"):  # Tool, StructuredTool
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _parameters(tool: BaseTool) -> dict[str, Any]:
    if isinstance(tool, Tool) and tool.args_schema is None:
        return _ONE_TEXT
    schema: Any = tool.tool_call_schema
    if not isinstance(schema, dict):
        schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    # Drop title and description, which repeat the tool's name and description.
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {"type": "object", "properties": {}, **parameters}
