"""What the scenarios share: a weather tool, and a generator around a scripted model."""

from collections.abc import Callable
from typing import Any

import pytest
from engines import Answering
from flexchat import Profile, ToolDefinition
from flexchat.calls.calls import ToolParts
from flexchat.calls.manager import ToolManager
from flexchat.config.model import LimitsTable, ResponseRule, RuleTools, ToolsTable
from flexchat.plugin import Implementation
from flexchat.plugin.contracts import ImplementationType, ToolHandler
from flexchat.plugin.hooks import Hooks
from flexchat_builtin.plugin import flexchat_register_implementation_types as builtin_types
from flexchat_builtin.plugin import flexchat_register_tool_handlers as builtin_handlers
from flexchat_internal.plugin import flexchat_register_implementation_types as internal_types
from flexchat_mock.plugin import flexchat_register_implementation_types as mock_types
from flexchat_testing import ScriptedProvider
from flexchat_testing.plugin import flexchat_register_providers as scripted_providers

WEATHER_SCHEMA = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "City name"},
        "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer"},
    },
    "required": ["location"],
}
WEATHER = {"temperature": 22, "condition": "sunny", "humidity": 65}

types: dict[str, ImplementationType] = {t.name: t for f in (builtin_types, internal_types, mock_types) for t in f()}
handlers: dict[tuple[str, str], ToolHandler] = {(h.kind, h.name): h for h in builtin_handlers()}
formats = {name: encode for p in scripted_providers() for name, encode in p.tool_formats.items()}


def definition(name: str = "get_weather", implementation: dict | None = None, **rest: Any) -> ToolDefinition:
    """A tool; the weather, mocked, unless told otherwise."""
    settings = dict(implementation or {"type": "mock", "mock_response": WEATHER})
    kind = settings.pop("type")
    given = {"description": "Get the weather", "parameters": WEATHER_SCHEMA, **rest}
    return ToolDefinition(name=name, implementation=Implementation(type=kind, settings=settings), **given)


def manager(*tools: Any, hooks: Hooks | None = None, **table: Any) -> ToolManager:
    """A tool manager with these tools, and all first-party implementation types."""
    made = ToolManager(
        ToolsTable(**table),
        ToolParts(formats=formats, implementation_types=types, handlers=handlers, hooks=hooks or Hooks()),
    )
    made.add(tools)
    return made


class Generation:
    """A response generator around a scripted model, asked with few words."""

    def __init__(self, replies: list, made: ToolManager, limits: LimitsTable | None, rule: dict) -> None:
        self.model = ScriptedProvider(replies)
        self.rule = ResponseRule(**{"llm": "bot", "model": "m-1", "tools": RuleTools(), **rule})
        self.answering = Answering(self.model, self.rule, made, limits)

    async def answer(self, message: str = "What is the weather in Rome?", history: tuple = (), **profile: Any):
        found = Profile(**{"topic": message, "user_message": message, **profile})
        return await self.answering.respond(found, message, history)

    async def events(self, message: str = "What is the weather in Rome?") -> list:
        found = Profile(topic=message, user_message=message)
        return await self.answering.events(found, message)


@pytest.fixture
def generation() -> Callable[..., Generation]:
    """Make a generation: generation([replies…], *tools, rule={…}, limits=…, **tools table)."""

    def make(replies: list, *tools: Any, rule: dict | None = None, limits: LimitsTable | None = None, **table: Any):
        return Generation(replies, manager(*tools, **table), limits, rule or {})

    return make


@pytest.fixture
def make_manager() -> Callable[..., ToolManager]:
    """Make a tool manager: make_manager(*tools, **tools table)."""
    return manager


@pytest.fixture
def weather() -> ToolDefinition:
    """The weather tool of the specification's sample."""
    return definition()


@pytest.fixture
def make_tool() -> Callable[..., ToolDefinition]:
    """Make a tool definition."""
    return definition
