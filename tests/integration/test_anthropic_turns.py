"""Turns with Anthropic's own ends: pauses, refusals, calls that were cut off; over real sockets."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agent_server import AgentServer
from flexchat import FlexChat, TextDelta, TurnFinished, tool
from flexchat_anthropic.conformance import AnthropicConformance

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"encrypted_content": "e"}]}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
KIT = AnthropicConformance()
RAN = []


@tool(effect="write")
def get_weather(city: str) -> int:
    """Get the weather of a city."""
    RAN.append(city)
    return 18


def reply(*content, stop="end_turn", **rest):
    return {**KIT.text_reply(""), "content": [*content], "stop_reason": stop, **rest}


def text(said):
    return {"type": "text", "text": said}


class Scripted:
    """Answers each request with the next reply; the last one repeats. (status, body) is a refusal."""

    def __init__(self):
        self.replies, self.requests = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append(body)
                found = outer.replies[min(len(outer.requests), len(outer.replies)) - 1]
                status, found = found if isinstance(found, tuple) else (200, found)
                content, kind = json.dumps(found), "application/json"
                if body.get("stream") and status == 200:
                    content, kind = "".join(KIT.as_stream(found)), "text/event-stream"
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content.encode())))
                self.end_headers()
                self.wfile.write(content.encode())

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def chat(self, *, tools=True, **rule):
        llm = {"provider": "anthropic", "base_url": self.url, "default_model": "claude-sonnet-4-5", "max_tokens": 4096}
        config = {
            "llms": {"claude": {**llm, "retry_delay_ms": 1}},
            "tools": {"max_iterations": 3},
            "responses": [{"llm": "claude", "tools": {"enabled": tools}, **rule}],
        }
        return FlexChat.from_config(config, tools=[get_weather])


@pytest.fixture
def server():
    RAN.clear()
    made = Scripted()
    yield made
    made.close()


@pytest.mark.parametrize("tools", [False, True])
async def test_a_paused_answer_is_gone_on_from(server, tools):
    """What was said goes back unchanged, with no user's message behind it; both pieces stand in the history."""
    server.replies = [reply(text("I look."), SEARCH, FOUND, stop="pause_turn"), reply(text("Found."))]
    async with server.chat(tools=tools) as chat:
        turn = await chat.respond("Look.")
        events = [event async for event in chat.stream("Look.", history=turn.response.messages)]

    assert (turn.response.content, turn.response.finish_reason) == ("I look.Found.", "stop")
    assert server.requests[1]["messages"][-1] == {"role": "assistant", "content": [text("I look."), SEARCH, FOUND]}
    assert len(turn.response.messages) == 3
    assert server.requests[2]["messages"][1]["content"] == [text("I look."), SEARCH, FOUND, text("Found.")]
    assert isinstance(events[-1], TurnFinished)
    assert turn.response.usage.output_tokens == 2 * KIT.output_tokens


@pytest.mark.parametrize("tools", [False, True])
async def test_pauses_are_bounded(server, tools):
    """By max_iterations; the turn ends with a warning."""
    server.replies = [reply(text("I look."), stop="pause_turn")]
    async with server.chat(tools=tools) as chat:
        turn = await chat.respond("Look.")

    assert len(server.requests) == 3
    assert turn.response.warnings


async def test_a_refused_answer_is_told_and_leaves_the_history(server):
    """The service's explanation is the answer; in the next turn the refused one is not sent."""
    details = {"type": "refusal", "category": "cyber", "explanation": "Not that."}
    server.replies = [reply(CALL, stop="refusal", stop_details=details), reply(text("Hello."))]
    async with server.chat() as chat:
        turn = await chat.respond("Do it.")
        await chat.respond("Hi.", history=turn.response.messages)

    assert (turn.response.content, turn.response.finish_reason) == ("Not that.", "refusal")
    assert RAN == []
    assert [message["role"] for message in server.requests[1]["messages"]] == ["user"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_was_cut_off_does_not_run(server, streamed):
    """max_tokens ended the answer in the middle of the call: the model is told, and may write it again."""
    server.replies = [reply(CALL, stop="max_tokens"), reply(CALL, stop="tool_use"), reply(text("18."))]
    async with server.chat() as chat:
        if streamed:
            events = [event async for event in chat.stream("Weather?")]
            turn = events[-1].turn
            assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "18."
        else:
            turn = await chat.respond("Weather?")

    assert turn.response.content == "18."
    assert RAN == ["Paris"]
    results = [b for m in server.requests[-1]["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert [result.get("is_error", False) for result in results] == [True, False]
    assert len({result["tool_use_id"] for result in results}) == 2


async def test_an_overloaded_service_is_asked_again(server):
    """529 is a wait, 400 for an empty account is none."""
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.replies = [(529, overloaded), reply(text("Hello."))]
    async with server.chat() as chat:
        assert (await chat.respond("Hi.")).response.content == "Hello."
    assert len(server.requests) == 2


async def test_calls_of_another_service_are_finished_without_thinking(server):
    """A rule's fallback in the middle of a turn: the service refuses to think on a budget about others' calls."""
    first = AgentServer("gemini")
    answer = first.answer

    def once(body, streamed):
        if first.requests:
            raise OSError("the connection is closed without an answer")
        return answer(body, streamed)

    first.answer = once
    server.replies = [reply(text("18."))]
    claude = {"provider": "anthropic", "base_url": server.url, "default_model": "claude-sonnet-4-5", "max_tokens": 9000}
    rule = {"llm": "gemini", "fallback": ["claude"], "tools": {"enabled": True}, "reasoning": {"budget_tokens": 2000}}

    @tool(effect="read", name="get_weather")
    def weather(city: str) -> int:
        """Get the weather of a city."""
        return 18

    @tool(effect="read")
    def calculator(expression: str) -> float:
        """Calculate."""
        return 100.0

    try:
        config = {"llms": {"gemini": first.llm, "claude": claude}, "responses": [rule]}
        async with FlexChat.from_config(config, tools=[weather, calculator]) as chat:
            turn = await chat.respond("Weather?")
            await chat.respond("And now?", history=turn.response.messages)
    finally:
        first.close()

    assert turn.response.content == "18."
    assert "thinking" not in server.requests[0]
    assert any("thinking is left out" in warning for warning in turn.response.warnings)
    assert [m["role"] for m in server.requests[0]["messages"]] == ["user", "assistant", "user"]
    assert "opaque" not in json.dumps(server.requests)
