"""LangChain's own standard tests of tools, held against tools of a FlexChat."""

import pytest
from flexchat import SyncFlexChat, tool
from flexchat_langchain.tools import langchain_tools
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

CONFIG = {"llms": {"it": {"provider": "rehearsal", "default_model": "m"}}, "responses": [{"llm": "it"}]}


@tool
def multiply(a: int, b: int = 2) -> dict:
    """Multiply two numbers."""
    return {"product": a * b}


@pytest.fixture(scope="module")
def tools():
    with SyncFlexChat.from_config(CONFIG, tools=[multiply]) as chat:
        yield langchain_tools(chat)


class _Tool:
    @pytest.fixture(autouse=True)
    def of_the_module(self, tools):
        self.tools = tools

    @property
    def tool_constructor(self):
        return self.tools[0]

    @property
    def tool_invoke_params_example(self):
        return {"a": 6, "b": 7}


class TestUnit(_Tool, ToolsUnitTests):
    """LangChain's unit tests."""


class TestIntegration(_Tool, ToolsIntegrationTests):
    """LangChain's integration tests."""
