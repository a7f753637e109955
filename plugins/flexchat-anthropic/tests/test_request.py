"""Our options in Anthropic's words."""

import json
from typing import Any

import pytest
from flexchat.plugin import Implementation, ToolCall, ToolDefinition
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_anthropic.request import RequestWriter
from flexchat_anthropic.tools import encode_tools
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    ProviderData,
    ProviderRequestError,
    Reasoning,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

HERE = "https://here.example"
MESSAGES = (SystemMessage(content="s"), UserMessage(content="hi"))
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OLD = "2023-06-01"
OLDER, NEWER, NEWEST = "claude-sonnet-4-5", "claude-opus-5", "claude-fable-5-1"


def tools(*names: str, **rest: Any) -> tuple[dict[str, Any], ...]:
    implementation = Implementation(type="mock")
    made = [
        ToolDefinition(name=name, description="d", parameters=CITY, implementation=implementation, **rest)
        for name in names
    ]
    return tuple(encode_tools(made))


def request(
    model: str = OLDER, messages: Any = MESSAGES, writer: RequestWriter | None = None, **options: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    made = (writer or RequestWriter(HERE)).body(
        messages, model, ChatOptions(**options), max_tokens=options.get("max_tokens") or 4096
    )
    return json.loads(made.content), made.warnings


def test_a_plain_request() -> None:
    """max_tokens is always there; nothing is said that nobody asked for."""
    assert request() == (
        {
            "model": OLDER,
            "max_tokens": 4096,
            "system": "s",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        },
        (),
    )
    body = RequestWriter(HERE).body(MESSAGES, OLDER, ChatOptions(), max_tokens=1, stream=True)
    assert json.loads(body.content)["stream"] is True


def test_the_longest_answer_is_known_from_rule_config_or_table() -> None:
    """In this order; of other models the service is asked."""
    writer = RequestWriter(HERE, max_tokens=7)
    assert writer.known_max_tokens(OLDER, ChatOptions(max_tokens=5)) == 5
    assert writer.known_max_tokens(OLDER, ChatOptions()) == 7
    assert writer.known_max_tokens(OLDER, ChatOptions(extra={"max_tokens": 3})) == 3
    assert RequestWriter(HERE, extra={"max_tokens": 2}).known_max_tokens(OLDER, ChatOptions(max_tokens=5)) == 2
    assert RequestWriter(HERE).known_max_tokens(OLDER, ChatOptions()) == 64000
    for unknown in ("claude-later-9", "kimi-k3"):
        assert RequestWriter(HERE).known_max_tokens(unknown, ChatOptions()) is None


def test_temperature_and_top_p_went_with_the_version_of_2026() -> None:
    """Left out with a warning, also from what older models could take; a value of 1 is no loss."""
    body, warnings = request(temperature=0.0, top_p=0.5)
    assert {"temperature", "top_p"}.isdisjoint(body)
    assert len(warnings) == 2
    assert all('api_version = "2023-06-01"' in warning for warning in warnings)
    assert request(temperature=1.0)[1] == ()


@pytest.mark.parametrize(
    ("model", "options", "sent", "warned"),
    [
        ("claude-3-5-haiku-latest", {"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}, 0),
        ("claude-sonnet-4-0", {"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}, 0),
        ("claude-opus-4-1", {"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0}, 1),
        ("claude-sonnet-4-6", {"top_p": 0.5}, {"top_p": 0.5}, 0),
        ("claude-3-haiku-20240307", {"temperature": 1.7}, {"temperature": 1}, 1),
        ("claude-opus-4-7", {"temperature": 0.0, "top_p": 0.5}, {}, 2),
        ("claude-sonnet-5", {"temperature": 1.0}, {}, 0),
        ("another-vendors", {"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}, 0),
    ],
)
def test_older_models_take_them_in_the_old_version(
    model: str, options: dict[str, Any], sent: dict[str, Any], warned: int
) -> None:
    """From 4.1 on one of the two, from opus-4-7 on none."""
    body, warnings = request(model, writer=RequestWriter(HERE, api_version=OLD), **options)

    assert {name: body[name] for name in ("temperature", "top_p") if name in body} == sent
    assert len(warnings) == warned


def test_a_model_that_thinks_takes_no_temperature() -> None:
    """But 1, and a top_p from 0.95 on."""
    writer = RequestWriter(HERE, api_version=OLD)
    thinking = Reasoning(budget_tokens=2000)

    body, warnings = request("claude-3-7-sonnet-latest", writer=writer, temperature=0.5, top_p=0.5, reasoning=thinking)
    assert {"temperature", "top_p"}.isdisjoint(body)
    assert len(warnings) == 2
    body, warnings = request("claude-3-7-sonnet-latest", writer=writer, temperature=1.0, top_p=0.95, reasoning=thinking)
    assert (body["temperature"], body["top_p"], warnings) == (1.0, 0.95, ())


def test_stop_and_seed() -> None:
    """White space stops nothing here, and there is no seed: warnings."""
    body, warnings = request(stop=("END", "\n"), seed=1)

    assert body["stop_sequences"] == ["END"]
    assert "seed" not in body
    assert len(warnings) == 2
    assert "stop_sequences" not in request(stop=(" ",))[0]


@pytest.mark.parametrize(
    ("options", "choice", "names"),
    [
        ({}, None, ["f", "g", "h"]),
        ({"parallel_tool_calls": True}, None, ["f", "g", "h"]),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}, ["f", "g", "h"]),
        ({"tool_choice": "none"}, {"type": "none"}, ["f", "g", "h"]),
        ({"tool_choice": "none", "allowed_tools": ("f",)}, {"type": "none"}, ["f", "g", "h"]),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}, ["f", "g", "h"]),
        ({"tool_choice": "required"}, {"type": "any"}, ["f", "g", "h"]),
        (
            {"tool_choice": "required", "parallel_tool_calls": False},
            {"type": "any", "disable_parallel_tool_use": True},
            ["f", "g", "h"],
        ),
        ({"tool_choice": "required", "allowed_tools": ("g",)}, {"type": "tool", "name": "g"}, ["g"]),
        ({"tool_choice": "required", "allowed_tools": ("g", "h")}, {"type": "any"}, ["g", "h"]),
        ({"allowed_tools": ("g", "h")}, None, ["g", "h"]),
    ],
)
def test_every_choice_of_tools(options: dict[str, Any], choice: Any, names: list[str]) -> None:
    """auto is nothing; names limit the tools that are offered."""
    body, warnings = request(tools=tools("f", "g", "h"), **options)

    assert body.get("tool_choice") == choice
    assert [tool["name"] for tool in body["tools"]] == names
    assert warnings == ()


def test_a_choice_that_cannot_be_forced_is_left_to_the_model() -> None:
    """The newest models, and all older ones while they think on a budget: auto, and a warning."""
    body, warnings = request(NEWEST, tools=tools("f"), tool_choice="required", allowed_tools=("f",))
    assert "tool_choice" not in body
    assert "cannot be made to call a tool" in warnings[0]

    body, warnings = request(
        tools=tools("f"), tool_choice="required", parallel_tool_calls=False, reasoning=Reasoning(budget_tokens=2000)
    )
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "while it thinks" in warnings[0]
    assert request(NEWER, tools=tools("f"), tool_choice="required")[0]["tool_choice"] == {"type": "any"}


def test_allowed_tools_that_are_not_offered_are_an_error() -> None:
    """Nothing would be left to choose from."""
    with pytest.raises(ProviderRequestError, match="none of the allowed tools is offered: x"):
        request(tools=tools("f"), allowed_tools=("x",))


def test_server_tools_stand_beside_functions() -> None:
    """Given as tools, or with extra_body; a choice of functions leaves them."""
    search = {"type": "web_search_20250305", "name": "web_search"}

    body, _ = request(tools=(search, *tools("f", "g")), allowed_tools=("g",))
    assert [tool["name"] for tool in body["tools"]] == ["web_search", "g"]
    body, _ = request(tools=tools("f"), extra={"tools": [search]})
    assert [tool["name"] for tool in body["tools"]] == ["web_search", "f"]
    assert request(extra={"tools": [search]})[0]["tools"] == [search]


def test_a_schema_of_the_answer_is_output_config_format() -> None:
    """In the strict subset: every object closed, as the recorded refusal wants it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    body, warnings = request(response_format=ResponseFormat(schema=schema))

    assert body["output_config"] == {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {"n": {"type": "integer", "description": "(minimum: 1)"}},
                "required": ["n"],
                "additionalProperties": False,
            },
        }
    }
    assert (body["system"], warnings) == ("s", ())
    both, _ = request(
        "claude-opus-4-6", response_format=ResponseFormat(schema=schema), reasoning=Reasoning(effort="max")
    )
    assert both["output_config"].keys() == {"format", "effort"}


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (OLDER, ResponseFormat(type="json_object")),
        ("claude-3-haiku-20240307", ResponseFormat(schema=CITY)),
        (OLDER, ResponseFormat(schema={"type": "object", "additionalProperties": {"type": "integer"}})),
    ],
)
def test_what_cannot_be_held_to_a_form_is_told(model: str, form: ResponseFormat) -> None:
    """No schema, a model without structured output, a map: the instructions say it; with ``strict`` a warning too."""
    body, warnings = request(model, response_format=form)

    assert "output_config" not in body
    assert body["system"].startswith("s\n\nAnswer with one JSON object")
    assert form.schema is None or json.dumps(form.schema, separators=(",", ":")) in body["system"]
    assert warnings == ()
    strict = ResponseFormat(type=form.type, schema=form.schema, strict=True)
    assert bool(request(model, response_format=strict)[1]) is (form.schema is not None)


def test_a_budget_makes_room_for_the_answer() -> None:
    """Thinking counts into max_tokens: where nobody set that, it grows; else the budget shrinks."""
    options = ChatOptions(reasoning=Reasoning(budget_tokens=9000))
    assert RequestWriter(HERE).with_room(4096, OLDER, options) == 13096
    assert RequestWriter(HERE).with_room(64000, OLDER, options) == 64000
    assert RequestWriter(HERE).with_room(4096, OLDER, ChatOptions()) == 4096
    assert RequestWriter(HERE, max_tokens=5000).with_room(5000, OLDER, options) == 5000
    body, warnings = request(max_tokens=5000, reasoning=Reasoning(budget_tokens=9000))
    assert (body["thinking"], body["max_tokens"]) == ({"type": "enabled", "budget_tokens": 4999}, 5000)
    assert len(warnings) == 1


def test_thinking_is_left_out_where_its_beginning_is_missing() -> None:
    """Results for another provider's call: with a budget the service refuses that; models that decide take it."""
    call = ToolCall.from_object("f", {})
    loop = (*MESSAGES, AssistantMessage(parts=(call,)), ToolMessage(tool_call_id=call.id, name="f", content="r"))

    body, warnings = request(messages=loop, reasoning=Reasoning(effort="low"))
    assert "thinking" not in body
    assert "did not think about" in warnings[0]
    assert request(NEWER, messages=loop, reasoning=Reasoning(effort="low"))[0]["thinking"] == {"type": "adaptive"}
    without = RequestWriter(HERE).body(
        MESSAGES, OLDER, ChatOptions(reasoning=Reasoning(effort="low")), max_tokens=9000, thinking=False
    )
    assert "thinking" not in json.loads(without.content)


def test_the_cache_is_marked_where_requests_stay_the_same() -> None:
    """Last tool, instructions, last message: three marks of the four that are allowed."""
    mark = {"type": "ephemeral", "ttl": "1h"}
    body, _ = request(writer=RequestWriter(HERE, cache=mark), tools=tools("f", "g"))

    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    assert body["system"] == [{"type": "text", "text": "s", "cache_control": mark}]
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark
    assert json.dumps(body).count("cache_control") == 3
    assert "cache_control" not in json.dumps(request(tools=tools("f"))[0])


def test_extra_is_merged_last() -> None:
    """That of the config, then that of the request; tables into tables."""
    writer = RequestWriter(HERE, extra={"metadata": {"user_id": "u"}, "service_tier": "auto"})
    body, _ = request(writer=writer, extra={"metadata": {"x": 1}, "service_tier": "standard_only"})

    assert (body["metadata"], body["service_tier"]) == ({"user_id": "u", "x": 1}, "standard_only")
    assert request(extra={"messages": []})[0]["messages"] == []


def test_a_container_is_asked_for_by_its_name() -> None:
    """While the code in it waits for results."""
    data = ProviderData(scope="anthropic", origin=HERE, data={"container": "c"})
    waiting = AssistantMessage(parts=(TextPart(text="x"),), provider_data=data)

    assert request(messages=(*MESSAGES, waiting))[0]["container"] == "c"
    assert "container" not in request(messages=(*MESSAGES, waiting, *MESSAGES))[0]


async def test_what_is_no_json_is_an_error() -> None:
    """With the model's name, before anything is sent."""
    provider = AnthropicProvider(AnthropicConfig(api_key="k"))
    with pytest.raises(ProviderRequestError, match="cannot be written as JSON") as caught:
        await provider.generate_chat(MESSAGES, OLDER, ChatOptions(max_tokens=9, extra={"x": object()}))
    assert (caught.value.provider, caught.value.model) == ("anthropic", OLDER)


def test_tools_are_put_together_once_a_turn() -> None:
    """The same tuple comes with every request of a turn."""
    writer, offered = RequestWriter(HERE), tools("f")
    for _ in range(3):
        assert request(writer=writer, tools=offered)[0]["tools"] == [*offered]
    for number in range(20):
        assert request(writer=writer, tools=tools(f"t{number}"))[0]["tools"][0]["name"] == f"t{number}"


def test_a_limit_of_zero_is_not_the_default() -> None:
    """Zero is a value: the service says what is wrong with it."""
    assert RequestWriter(origin=HERE, max_tokens=99).known_max_tokens(NEWER, ChatOptions(max_tokens=0)) == 0
    assert RequestWriter(origin=HERE, max_tokens=0).known_max_tokens(NEWER, ChatOptions()) == 0
