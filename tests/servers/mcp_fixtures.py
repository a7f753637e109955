"""A server with a few tools, in this process, and clients of it: the SDK's, and plain requests over HTTP."""

import asyncio
import contextlib
import json

import httpx
import pytest
from flexchat import FlexChat, tool
from flexchat.plugin import ToolContext
from flexchat_mcp.serve.server import McpServer
from flexchat_testing import ScriptedProvider, says
from flexchat_web import create_app
from flexchat_web.serving import Settings

MODERN = "2026-07-28"
META = "io.modelcontextprotocol"
ELICITATION = {"elicitation": {"form": {}}}
TASKS = {"extensions": {f"{META}/tasks": {}}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def ran():
    """What the tools have done."""
    return []


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def tools(ran):
    @tool(effect="read")
    async def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @tool(effect="read")
    async def name(context: ToolContext) -> str:
        """Ask for a name."""
        reply = await context.ask("What is your name?", NAME)
        return f"Hello, {reply.content.get('name', reply.why)}!"

    @tool(approve=True)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        ran.append((context.tenant, amount))
        return f"paid {amount}"

    @tool
    async def note(text: str) -> str:
        """Note a text."""
        ran.append(text)
        return f"noted {text}"

    @tool(effect="read")
    async def wait(seconds: float, context: ToolContext) -> str:
        """Wait."""
        await context.report_progress(1, 2, "half")
        await asyncio.sleep(seconds)
        return "waited"

    return [add, name, pay, note, wait]


@pytest.fixture
def config(tmp_path, data_folder):
    return {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
        "questions": {"expires": "1h"},
        "mcp_server": {
            "tasks": {"wait": "optional"},
            "prompts": [
                {
                    "name": "review",
                    "text": "Review {{what}}.",
                    "arguments": [{"name": "what", "required": True, "values": ["code", "prose"]}],
                }
            ],
            "resources": [{"uri": "memo://rules", "name": "rules", "text": "Be kind."}],
        },
    }


@pytest.fixture
def open_chat(config, tools):
    """Return a function that opens a chat on one file, as another process would."""

    def open_chat(*replies):
        return FlexChat.from_config(
            config, tools=tools, providers={"bot": ScriptedProvider(replies or [says("Hello.")] * 3)}
        )

    return open_chat


def serve(chat, **options):
    """Return a server for a chat."""

    @contextlib.asynccontextmanager
    async def lend():
        yield chat

    return McpServer(lend, chat.config.tables["mcp_server"], **options)


class Web:
    """A process of flexchat serve, and requests to its /mcp."""

    def __init__(self, config, tools, tokens):
        self.app = create_app(config, settings=Settings(tokens=tokens, resume=False))
        self.app.serving._current.chat.tools.add(tools)
        transport = httpx.ASGITransport(app=self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")

    async def post(self, body, **headers):
        """Post a body, and return the response."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post("/mcp", content=content, headers=headers, timeout=30)

    async def ask(self, method, params=None, *, capabilities=ELICITATION, token=None, meta=None, id=1):
        """Send a request of the newer era; return its result, or raise its error as an AssertionError."""
        response = await self.raw(method, params, capabilities=capabilities, token=token, meta=meta, id=id)
        assert "result" in response, response.get("error")
        return response["result"]

    async def raw(self, method, params=None, *, capabilities=ELICITATION, token=None, meta=None, id=1):
        """Send a request of the newer era; return the message that answers it."""
        facts = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": capabilities, **(meta or {})}
        body = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": facts}}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        for key in ("name", "uri", "taskId"):
            if params and isinstance(params.get(key), str):
                headers["mcp-name"] = params[key]
        if token:
            headers["authorization"] = f"Bearer {token}"
        response = await self.post(body, **headers)
        return message_of(response)

    async def call(self, name, arguments=None, **rest):
        """Call a tool; return the result."""
        more = {key: rest.pop(key) for key in ("inputResponses", "requestState") if key in rest}
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}, **more}, **rest)


def message_of(response):
    """Return the last message in a response: JSON, or a stream of events."""
    if response.headers["content-type"].startswith("text/event-stream"):
        lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
        return json.loads(lines[-1].removeprefix("data: "))
    return response.json()


@pytest.fixture
async def new_web(config, tools):
    """Return a function that starts another process of flexchat serve on the same files."""
    opened = []

    def new_web(tokens=(), **changes):
        web = Web({**config, **changes}, tools, dict(tokens))
        opened.append(web)
        return web

    yield new_web
    for web in opened:
        await web.client.aclose()
        await web.app.aclose()


def accept(**content):
    """Return the response of a person who accepts."""
    return {"action": "accept", "content": content}
