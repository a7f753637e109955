"""An agent of LangChain's over servers as strict as the services are, in each dialect."""

import pytest
from agent_server import DIALECTS, AgentServer
from flexchat import SyncFlexChat, tool
from flexchat_langchain.model import FlexChatModel
from flexchat_langchain.tools import langchain_tools
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"sun in {city}"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_agent_goes_through_two_rounds_of_tools(dialect):
    """Calls pair up, and opaque data (signatures, thoughts) comes back, though LangChain holds the messages."""
    server = AgentServer(dialect)
    config = {
        "llms": {"it": server.llm},
        "responses": [{"llm": "it"}],
        "tools": {"registry": [{"name": "calculator"}]},
    }
    try:
        with SyncFlexChat.from_config(config, tools=[get_weather]) as chat:
            tools = sorted(langchain_tools(chat), key=lambda t: t.name, reverse=True)
            agent = create_agent(FlexChatModel(chat=chat), tools)
            messages = agent.invoke({"messages": [HumanMessage("Paris, Rome, 12.5 * 8?")]})["messages"]
    finally:
        server.close()
    assert messages[-1].content.startswith("Found: ")
    assert "sun in Paris" in messages[-1].content
    assert "100" in messages[-1].content
