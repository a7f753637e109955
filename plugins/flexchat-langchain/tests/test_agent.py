"""An agent of LangChain's (a LangGraph graph) that uses FlexChat's tools, over a server that speaks OpenAI's format."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from flexchat import SyncFlexChat, tool
from flexchat.assembly import installed_plugins
from flexchat_langchain.model import FlexChatModel
from flexchat_langchain.tools import langchain_tools
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

PLUGINS = installed_plugins()


class Server:
    """Answers each request with the next reply (text, calls), and refuses a history whose calls are not paired."""

    def __init__(self):
        self.replies, self.requests = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append(body)
                status, kind, content = outer.answer(body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def answer(self, body):
        waiting = []
        for message in body["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    return 400, "application/json", b'{"error": {"message": "a result of no call"}}'
                waiting.remove(message["tool_call_id"])
            elif waiting:
                return 400, "application/json", b'{"error": {"message": "a call without a result"}}'
            waiting += [call["id"] for call in message.get("tool_calls") or ()]
        text, calls = self.replies[len(self.requests) - 1]
        number = len(self.requests)
        wire = [
            {"id": f"c{number}{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for i, (name, args) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text or None, **({"tool_calls": wire} if wire else {})}
        reason = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": "x", "model": "m-1", "usage": usage}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return 200, "application/json", json.dumps({**base, "choices": [choice]}).encode()
        message["tool_calls"] = [{**call, "index": i} for i, call in enumerate(wire)]
        choice = {"index": 0, "delta": message, "finish_reason": reason}
        chunk = json.dumps({**base, "object": "chat.completion.chunk", "choices": [choice]})
        return 200, "text/event-stream", f"data: {chunk}\n\ndata: [DONE]\n\n".encode()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@tool(effect="read")
def get_weather(city: str) -> dict:
    """Get today's weather of a city."""
    return {"city": city, "temperature_c": 18}


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def chat(server):
    config = {
        "llms": {"it": {"provider": "openai", "base_url": server.url, "api_key": "k", "default_model": "m-1"}},
        "responses": [{"llm": "it", "prompt": "Be brief.", "tools": {"enabled": True}}],
        "tools": {"registry": [{"name": "calculator"}]},
    }
    with SyncFlexChat.from_config(config, tools=[get_weather], plugins=PLUGINS) as chat:
        yield chat


TURN = (
    ("Let me look.", [("get_weather", {"city": "Rome"}), ("calculator", {"expression": "12.5 * 8"})]),
    ("It is 18 °C, and 100.", []),
)


def kinds(messages):
    return [type(message).__name__ for message in messages]


def test_an_agent_uses_flexchats_tools(server, chat):
    """Both calls of one answer run in FlexChat's executor, and each result stands with its call (LC-1, LC-5, LC-6)."""
    server.replies += TURN
    agent = create_agent(FlexChatModel(chat=chat), langchain_tools(chat), system_prompt="You help.")
    messages = agent.invoke({"messages": [HumanMessage("Rome, and 12.5 * 8?")]})["messages"]
    assert kinds(messages) == ["HumanMessage", "AIMessage", "ToolMessage", "ToolMessage", "AIMessage"]
    weather, result = messages[2:4]
    assert json.loads(weather.content) == {"city": "Rome", "temperature_c": 18}
    assert result.artifact["result"]["result"] == 100
    assert [m.tool_call_id for m in messages[2:4]] == [c["id"] for c in messages[1].tool_calls]
    assert messages[-1].content == "It is 18 °C, and 100."
    sent = server.requests[-1]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert "Be brief." in sent[0]["content"]
    assert "You help." in sent[0]["content"]


async def test_an_agent_streams(server, chat):
    """Tokens, and the steps of the graph."""
    server.replies += TURN
    agent = create_agent(FlexChatModel(chat=chat), langchain_tools(chat))
    steps, text = [], ""
    question = {"messages": [HumanMessage("Rome?")]}
    async for mode, found in agent.astream(question, stream_mode=["updates", "messages"]):
        if mode == "updates":
            steps += [*found]
        elif isinstance(found[0], AIMessage):
            text += found[0].text
    assert steps == ["model", "tools", "tools", "model"]
    assert text == "Let me look.It is 18 °C, and 100."


def test_an_agent_corrects_a_call_that_was_refused(server, chat):
    """FlexChat's words say what is wrong; the status says that it is (LC-14)."""
    server.replies += [("", [("get_weather", {"town": "Rome"})]), *TURN]
    agent = create_agent(FlexChatModel(chat=chat), langchain_tools(chat))
    messages = agent.invoke({"messages": [HumanMessage("Rome?")]})["messages"]
    assert messages[2].status == "error"
    assert messages[2].content.startswith("Error: Invalid parameters: ")
    assert [m.status for m in messages if isinstance(m, ToolMessage)] == ["error", "success", "success"]


def test_an_agents_conversation_is_kept_and_goes_on(server, chat):
    """A checkpointer writes the messages down, artifacts and all; the next turn has them before it (LC-13)."""
    server.replies += [*TURN, ("You are welcome.", [])]
    agent = create_agent(FlexChatModel(chat=chat), langchain_tools(chat), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [HumanMessage("Rome?")]}, thread)
    messages = agent.invoke({"messages": [HumanMessage("Thanks.")]}, thread)["messages"]
    assert kinds(messages)[-2:] == ["HumanMessage", "AIMessage"]
    sent = [m["role"] for m in server.requests[-1]["messages"]]
    assert sent == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]


def test_an_agents_answer_has_a_form(server, chat):
    """LangChain binds the form as a tool, beside those of FlexChat."""

    class Weather(BaseModel):
        """The weather."""

        temperature_c: int

    server.replies += [TURN[0], ("", [("Weather", {"temperature_c": 18})])]
    agent = create_agent(FlexChatModel(chat=chat), langchain_tools(chat), response_format=Weather)
    assert agent.invoke({"messages": [HumanMessage("Rome?")]})["structured_response"] == Weather(temperature_c=18)


def test_an_agent_needs_no_tools_of_its_own(server, chat):
    """Then FlexChat's run inside, and the graph sees one answer."""
    server.replies += TURN
    agent = create_agent(FlexChatModel(chat=chat), [])
    messages = agent.invoke({"messages": [HumanMessage("Rome?")]})["messages"]
    assert kinds(messages) == ["HumanMessage", "AIMessage"]
    ran = messages[-1].response_metadata["flexchat"]["tool_calls"]
    assert [record["tool"] for record in ran] == ["get_weather", "calculator"]
