"""Options in the body of a request: each is honoured, or a warning says that it is not."""

import json
from typing import Any

import attrs
import pytest
from flexchat.plugin import Implementation, ToolDefinition
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.request import RequestWriter
from flexchat_gemini.tools import encode_tools
from flexchat_sdk import ChatOptions, ProviderRequestError, Reasoning, ResponseFormat, SystemMessage, UserMessage

HERE = "https://here.example"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tools(*names: str, strict: bool | None = None) -> tuple[dict[str, Any], ...]:
    return tuple(
        encode_tools(
            [
                ToolDefinition(
                    name=name,
                    description="d",
                    parameters=CITY,
                    implementation=Implementation(type="mock"),
                    strict=strict,
                )
                for name in names
            ]
        )
    )


def written(
    model: str = "gemini-2.5-flash", writer: RequestWriter | None = None, **options: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    messages = (SystemMessage(content="s"), UserMessage(content="hi"))
    body, warnings = (writer or RequestWriter(HERE, GeminiConfig())).body(messages, model, ChatOptions(**options))
    return json.loads(body), warnings


def test_without_options_there_are_no_fields() -> None:
    """Not even empty ones."""
    body, warnings = written()

    assert set(body) == {"contents", "systemInstruction"}
    assert warnings == ()
    assert json.loads(RequestWriter(HERE, GeminiConfig()).body((), "m", ChatOptions())[0]).keys() == {"contents"}


def test_settings_go_into_the_generation_config() -> None:
    """Under Gemini's names; 0 is a value (TC-81)."""
    body, warnings = written(max_tokens=9, temperature=0, top_p=0.0, stop=("x",), seed=0)

    assert body["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0,
        "topP": 0.0,
        "stopSequences": ["x"],
        "seed": 0,
    }
    assert warnings == ()


@pytest.mark.parametrize(
    ("options", "calling", "declared"),
    [
        ({}, None, ["f", "g"]),
        ({"allowed_tools": ("g",)}, None, ["g"]),
        ({"tool_choice": "required"}, {"mode": "ANY"}, ["f", "g"]),
        (
            {"tool_choice": "required", "allowed_tools": ("g", "x")},
            {"mode": "ANY", "allowedFunctionNames": ["g"]},
            ["f", "g"],
        ),
        ({"tool_choice": "none"}, {"mode": "NONE"}, ["f", "g"]),
    ],
)
def test_the_choice_of_tools_is_said(options: dict[str, Any], calling: Any, declared: list[str]) -> None:
    """Names limit a forced choice; for a free one only fewer declarations do."""
    body, warnings = written(tools=tools("f", "g"), **options)

    assert body.get("toolConfig", {}).get("functionCallingConfig") == calling
    assert [d["name"] for d in body["tools"][0]["functionDeclarations"]] == declared
    assert len(body["tools"]) == 1
    assert warnings == ()


def test_a_choice_without_declarations_is_not_sent() -> None:
    """The service refuses that."""
    assert "toolConfig" not in written(tool_choice="required")[0]
    assert "toolConfig" not in written(tool_choice="required", tools=({"googleSearch": {}},))[0]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_choice_among_tools_that_are_not_offered_is_refused(choice: str) -> None:
    """Nothing is dropped silently: a forced choice would be one of all, a free one none at all."""
    with pytest.raises(ProviderRequestError, match="none of the allowed tools is offered: x"):
        written(tools=tools("f"), allowed_tools=("x",), tool_choice=choice)
    assert written(tools=tools("f"), allowed_tools=("x",), tool_choice="none")[0]["tools"]


def test_strict_tools_are_validated() -> None:
    """Where the model can; a forced choice already holds calls to the schema."""
    strict = tools("f", strict=True)

    assert written(tools=strict)[0]["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert "strict" not in json.dumps(written(tools=strict)[0])
    body, warnings = written("gemini-2.0-flash", tools=strict)
    assert "toolConfig" not in body
    assert warnings == ("gemini-2.0-flash does not hold calls to their schema: strict is left out",)


def test_parallel_calls_cannot_be_forbidden() -> None:
    """A warning says so; there is none where nothing is lost."""
    assert written(tools=tools("f"), parallel_tool_calls=False)[1] == (
        "Gemini cannot be kept from calling several tools in one answer",
    )
    assert written(tools=tools("f"), parallel_tool_calls=True)[1] == ()
    assert written(parallel_tool_calls=False)[1] == ()


def test_a_format_is_a_type_and_a_schema() -> None:
    """As JSON Schema, or as the service's own kind."""
    wanted = ResponseFormat(schema=CITY)
    config = written(response_format=wanted)[0]["generationConfig"]
    own = written(response_format=wanted, writer=RequestWriter(HERE, GeminiConfig(schema_field="parameters")))[0][
        "generationConfig"
    ]

    assert config == {"responseMimeType": "application/json", "responseJsonSchema": CITY}
    assert own["responseSchema"]["properties"]["city"]["type"] == "STRING"
    assert written(response_format=ResponseFormat(type="json_object"))[0]["generationConfig"] == {
        "responseMimeType": "application/json"
    }


def test_what_a_schema_loses_is_a_warning() -> None:
    """And one that cannot be sent at all still asks for JSON."""
    lost = {"type": "object", "properties": {"a": {"type": "array", "items": {}, "uniqueItems": True}}}
    body, warnings = written(response_format=ResponseFormat(schema=lost))
    assert "uniqueItems" not in json.dumps(body["generationConfig"]["responseJsonSchema"]["properties"]["a"]["items"])
    assert all(text.startswith("response format /") for text in warnings)

    foreign = {"type": "object", "properties": {"a": {"$ref": "https://x.example/s.json"}}}
    body, warnings = written(response_format=ResponseFormat(schema=foreign))
    assert body["generationConfig"]["responseMimeType"] == "application/json"


def test_tools_win_where_a_model_takes_no_format_beside_them() -> None:
    """Gemini 3 takes both."""
    both: dict[str, Any] = {"tools": tools("f"), "response_format": ResponseFormat(schema=CITY)}

    assert "responseJsonSchema" in written("gemini-3-flash-preview", **both)[0]["generationConfig"]
    body, warnings = written(**both)
    assert "generationConfig" not in body
    assert warnings == ("gemini-2.5-flash takes no response format beside tools: the format is left out",)


def test_reasoning_is_the_thinking_config() -> None:
    """In the model's own words, and what it cannot do as a warning."""
    body, _ = written("gemini-3-flash-preview", reasoning=Reasoning(effort="low", summary=True))
    assert body["generationConfig"] == {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True}}

    body, warnings = written("gemini-2.0-flash", reasoning=Reasoning(effort="low"))
    assert "generationConfig" not in body
    assert len(warnings) == 1


def test_extra_is_merged_last_and_deeply() -> None:
    """The entry's first, then the request's; a table into a table, anything else instead of what was there."""
    writer = RequestWriter(
        HERE,
        GeminiConfig(
            safety_settings=({"category": "c"},),
            extra_body={"generationConfig": {"topK": 1, "seed": 1}, "labels": {"a": "b"}},
        ),
    )
    body, _ = written(writer=writer, seed=5, temperature=1, extra={"generationConfig": {"seed": 3}, "labels": "x"})

    assert body["generationConfig"] == {"seed": 3, "temperature": 1, "topK": 1}
    assert body["labels"] == "x"
    assert body["safetySettings"] == [{"category": "c"}]
    assert written(writer=writer, extra={"contents": []})[0]["contents"] == []


def test_a_cache_brings_its_own_instructions_and_tools() -> None:
    """The service refuses both together."""
    body, warnings = written(tools=tools("f"), tool_choice="required", extra={"cachedContent": "cachedContents/c"})

    assert set(body) == {"contents", "cachedContent"}
    assert warnings == ("cachedContent brings its own systemInstruction, tools, toolConfig: left out of the request",)


def test_tools_are_merged_once_for_one_tuple() -> None:
    """A turn hands the same tuple over in every request; another tuple, or another way to say it, is another."""
    writer, offered = RequestWriter(HERE, GeminiConfig()), tools("f")

    first = written(writer=writer, tools=offered)[0]
    assert written(writer=writer, tools=offered)[0] == first
    assert written(writer=writer, tools=tools("g"))[0]["tools"][0]["functionDeclarations"][0]["name"] == "g"
    writer.as_parameters = True
    assert "parameters" in written(writer=writer, tools=offered)[0]["tools"][0]["functionDeclarations"][0]
    for number in range(40):
        written(writer=writer, tools=tools(f"f{number}"))
    assert written(writer=RequestWriter(HERE, GeminiConfig()), tools=offered)[0] == first


def test_what_is_no_json_is_an_error_of_ours() -> None:
    """Not a TypeError."""
    with pytest.raises(ProviderRequestError, match="cannot be written as JSON"):
        written(extra={"x": object()})


def test_every_option_is_looked_at() -> None:
    """A new one must be honoured here or warned about: this list has to grow with it."""
    assert {field.name for field in attrs.fields(ChatOptions)} == {
        "max_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "tools",
        "tool_choice",
        "allowed_tools",
        "parallel_tool_calls",
        "response_format",
        "reasoning",
        "timeout_s",  # the provider's
        "extra",
    }
