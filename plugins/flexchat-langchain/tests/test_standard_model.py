"""LangChain's standard tests of chat models, held against a whole FlexChat over a model that can be foretold."""

import json
import re

import pytest
from flexchat import SyncFlexChat
from flexchat_langchain.model import FlexChatModel
from flexchat_sdk import ToolMessage, Usage, UserMessage
from flexchat_testing import ScriptedProvider
from flexchat_testing.scripted import calls, says
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

CONFIG = {"llms": {"it": {"provider": "scripted", "default_model": "m"}}, "responses": [{"llm": "it"}]}
USAGE = Usage(input_tokens=10, output_tokens=5)


def filled(schema, text):
    """Arguments of a schema: numbers of the text for numbers, the text for texts."""
    numbers = re.findall(r"-?\d+", text) or ["1"]
    values = {}
    for index, (name, kind) in enumerate(schema.get("properties", {}).items()):
        values[name] = int(numbers[index % len(numbers)]) if kind.get("type") == "integer" else text
    return values


def reply(messages, options):
    """Call a tool that the user's message names, or the first; with results at hand, tell them."""
    said = next(m.content for m in messages if isinstance(m, UserMessage))
    schema = options.response_format and options.response_format.schema
    if options.response_format:
        return says(json.dumps(filled(schema or {"properties": {"setup": {}, "punchline": {}}}, said)), usage=USAGE)
    results = [m.content for m in messages if isinstance(m, ToolMessage)]
    if options.tools and (options.tool_choice == "required" or not results):
        functions = [tool["function"] for tool in options.tools]
        tools = {function["name"]: function["parameters"] for function in functions}
        name = next((n for n in tools if f"{n}(" in said), next(iter(tools)))
        return calls((name, filled(tools[name], said)), usage=USAGE)
    return says(f"I was told: {' '.join(results) or 'hello there'}", usage=USAGE)


@pytest.fixture(scope="module")
def chat():
    with SyncFlexChat.from_config(CONFIG, providers={"it": ScriptedProvider([reply], repeat=True)}) as chat:
        yield chat


@pytest.fixture
def benchmark():
    """What is measured elsewhere is run once here."""
    return lambda function: function()


@pytest.fixture
def snapshot():
    """Nothing is compared with: the model holds connections, and is not serializable."""


@pytest.fixture
def vcr():
    """Nothing is recorded: there is no network."""


class _Model:
    chat_model_class = FlexChatModel
    model_override_value = "another-model"
    supports_json_mode = True
    supports_anthropic_inputs = True

    @pytest.fixture(autouse=True)
    def of_the_module(self, chat):
        self.chat = chat

    @property
    def chat_model_params(self):
        return {"chat": self.chat}


class TestUnit(_Model, ChatModelUnitTests):
    """LangChain's unit tests."""


class TestIntegration(_Model, ChatModelIntegrationTests):
    """LangChain's integration tests."""
