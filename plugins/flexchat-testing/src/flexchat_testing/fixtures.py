"""Fixtures for pytest. A conftest switches them on: ``pytest_plugins = ["flexchat_testing.fixtures"]``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from flexchat import FlexChat
from flexchat.host import PluginHost, ToolLike, installed_plugins, read_config

from .recorder import RecordedEvents
from .scripted import Reply, ScriptedProvider
from .sockets import forbid_sockets as _forbid_sockets


@pytest.fixture
def forbid_sockets() -> Iterator[None]:
    """Refuse, during the test, every connection that leaves this machine."""
    with _forbid_sockets():
        yield


@pytest.fixture
def scripted() -> Callable[..., ScriptedProvider]:
    """Make a scripted model: ``scripted(calls(("roll_dice", {"count": 2})), "You rolled a seven.")``."""

    return lambda *replies, **rest: ScriptedProvider(replies, **rest)


@pytest.fixture
def recorded_events() -> RecordedEvents:
    """Every event of the turns in this test, in order."""
    return RecordedEvents()


@pytest.fixture
def plugin_host(recorded_events: RecordedEvents) -> PluginHost:
    """All installed plugins, and the recorder; ``register`` adds a plugin that is not installed."""
    host = installed_plugins()
    host.register(recorded_events, "recorded_events")
    return host


@pytest.fixture
def chat_from_config(recorded_events: RecordedEvents) -> Callable[..., FlexChat]:
    """Make the chat of a configuration with doubles in place of its models.

    ``async with chat_from_config("flexchat.toml", main=[calls(("pay", {"amount": 5})), "Done"]) as chat: …``: each
    keyword is the name of an entry of llms, its value a provider or replies for one. An LLM without a keyword has no
    reply to any request, so that no test asks a real one. ``recorded_events`` holds what happened.
    """

    def make(source: Any, *, tools: Iterable[ToolLike] = (), hooks: Iterable[object] = (), **models: Any) -> FlexChat:
        llms = read_config(source).document.data.get("llms")
        names = llms if isinstance(llms, dict) else {}
        doubles = {name: ScriptedProvider(()) for name in names}
        doubles |= {name: ScriptedProvider(each) if _are_replies(each) else each for name, each in models.items()}
        return FlexChat.from_config(source, tools=tools, providers=doubles, hooks=[recorded_events, *hooks])

    return make


def _are_replies(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


@pytest.fixture
def flexchat_app(plugin_host: PluginHost) -> Callable[..., FlexChat]:
    """Make an app around a scripted model, or around replies for one.

    ``async with flexchat_app([calls(("roll_dice", {})), "Done"], tools=["roll_dice"]) as chat: …``; pass further config
    tables by name: ``tools_table={"max_iterations": 2}`` is [tools], all others have their name in a file.
    """

    def make(
        model: ScriptedProvider | Iterable[Reply],
        *,
        tools: Iterable[ToolLike] = (),
        rule: Mapping[str, Any] | None = None,
        tools_table: Mapping[str, Any] | None = None,
        **tables: Any,
    ) -> FlexChat:
        provider = model if isinstance(model, ScriptedProvider) else ScriptedProvider(model)
        config = {
            "llms": {"scripted": {"provider": "scripted"}},
            "responses": [{"llm": "scripted", "model": "scripted", "tools": {"enabled": True}, **(rule or {})}],
            "tools": {"enabled": True, **(tools_table or {})},
            **tables,
        }
        return FlexChat.from_config(config, tools=tools, providers={"scripted": provider}, plugins=plugin_host)

    return make
