"""Which tools a model may call is said in the words of each API, and of each kind of server."""

import json
from typing import Any, Literal

import pytest
from flexchat_openai.chat_request import ChatRequestWriter
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.responses_request import ResponsesRequestWriter
from flexchat_sdk import ChatOptions, ProviderRequestError, UserMessage

OPENAI, OTHER = "https://api.openai.com", "https://h.example"
NAMES = ("a", "b", "c")


def said(api: str, origin: str, choice: Literal["auto", "none", "required"], *allowed: str) -> tuple[Any, list[str]]:
    """The tool_choice of a body, and the names of the tools that are sent."""
    writer: ChatRequestWriter | ResponsesRequestWriter
    if api == "chat":
        writer = ChatRequestWriter(origin, OpenAIConfig())
        tools = tuple({"type": "function", "function": {"name": name}} for name in NAMES)
    else:
        writer = ResponsesRequestWriter(origin, OpenAIConfig())
        tools = tuple({"type": "function", "name": name} for name in NAMES)
    options = ChatOptions(tools=tools, tool_choice=choice, allowed_tools=allowed)
    body = json.loads(writer.body((UserMessage(content="hi"),), "m", options, stream=False)[0])
    return body["tool_choice"], [tool.get("function", tool)["name"] for tool in body["tools"]]


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("origin", [OPENAI, OTHER])
@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_without_a_limit_the_choice_is_a_word(api: str, origin: str, choice: Any) -> None:
    """And all tools are sent; so they are where the model may call none."""
    assert said(api, origin, choice) == (choice, [*NAMES])
    assert said(api, origin, "none", "a") == ("none", [*NAMES])


@pytest.mark.parametrize("origin", [OPENAI, OTHER])
def test_one_required_tool_is_named(origin: str) -> None:
    """In the form of each API; all tools are sent, which keeps the server's cache."""
    assert said("chat", origin, "required", "b") == ({"type": "function", "function": {"name": "b"}}, [*NAMES])
    assert said("responses", origin, "required", "b") == ({"type": "function", "name": "b"}, [*NAMES])


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_openai_is_told_which_tools_are_allowed(mode: Any) -> None:
    """Beside all of them."""
    nested = [{"type": "function", "function": {"name": name}} for name in "bc"]
    flat = [{"type": "function", "name": name} for name in "bc"]

    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": nested}}
    assert said("chat", OPENAI, mode, "b", "c") == (choice, [*NAMES])
    assert said("responses", OPENAI, mode, "b", "c") == (
        {"type": "allowed_tools", "mode": mode, "tools": flat},
        [*NAMES],
    )


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_other_servers_see_no_other_tools(api: str, mode: Any) -> None:
    """They refuse or ignore the list; names that are not offered do no harm beside one that is."""
    assert said(api, OTHER, mode, "b", "c", "x") == (mode, ["b", "c"])


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_limit_to_nothing_is_refused(api: str) -> None:
    """A request that could call nothing although it is to call something never leaves."""
    with pytest.raises(ProviderRequestError, match="none of the allowed tools is offered: x"):
        said(api, OTHER, "auto", "x")


def test_one_set_of_tools_serves_different_limits() -> None:
    """What is kept of a tuple of tools is kept by limit."""
    writer = ChatRequestWriter(OTHER, OpenAIConfig())
    tools = tuple({"type": "function", "function": {"name": name}} for name in NAMES)

    def sent(*allowed: str) -> int:
        options = ChatOptions(tools=tools, allowed_tools=allowed)
        return len(json.loads(writer.body((), "m", options, stream=False)[0])["tools"])

    assert [sent("a"), sent(), sent("a", "b"), sent("a")] == [1, 3, 2, 1]
