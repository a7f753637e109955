"""A configuration with a model that repeats one answer, the app over it, and a real server where sockets count."""

import asyncio
import contextlib
import json
import socket
import threading

import attrs
import httpx
import pytest
from flexchat.assembly import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_sdk import ProviderType
from flexchat_testing import ScriptedProvider
from flexchat_web.app import create_app
from flexchat_web.commands.server import HeadTimeoutProtocol, Server
from flexchat_web.page_files import PageFiles
from flexchat_web.serving import Settings

TOML = """\
# How this server answers.
[llms.robot]
provider = "scripted"
repeat = true
replies = [{ text = "hello" }]

[[responses]]
llm = "robot"
model = "r1"  # the only one
"""


@pytest.fixture(scope="session")
def plugins():
    """Loaded once: no test changes them."""
    return installed_plugins()


@pytest.fixture(scope="session", autouse=True)
def page_files():
    """The page's files are read once: a thousand apps are made of the same ones."""
    made = {}

    def of(pages):
        key = tuple((page.folder, str(page.to_dict())) for page in pages)
        if key not in made:
            made[key] = PageFiles(pages)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flexchat_web.app.PageFiles", of)
        yield


@pytest.fixture(scope="session", autouse=True)
def time_for_other_processes():
    """Work in another process has minutes, as one with low priority on a busy machine may wait for seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flexchat_web.apart.SECONDS", 600.0)
        yield


@pytest.fixture
def config_file(tmp_path):
    file = tmp_path / "flexchat.toml"
    file.write_text(TOML)
    return file


@pytest.fixture
async def new_app(config_file, plugins):
    """Make an app: new_app(source, **settings); the file of config_file where no source is given."""
    made = []

    def make(source=None, *, watch=False, **settings):
        source = config_file if source is None else source
        made.append(create_app(source, plugins=plugins, settings=Settings(**settings), watch=watch))
        return made[-1]

    yield make
    for app in made:
        await app.aclose()


@pytest.fixture
async def new_client(new_app):
    """Make a client of a new app, within this process."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(source=None, *, headers=None, **settings):
            app = new_app(source, **settings)
            return await stack.enter_async_context(client_of(app, headers=headers))

        yield make


@pytest.fixture
async def client(new_client):
    return await new_client()


def client_of(app, headers=None):
    """A client that speaks to an app within this process, and sees errors as answers."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers)


@pytest.fixture(name="client_of")
def client_of_fixture():
    return client_of


class Running:
    """An app behind a socket of loopback, on a thread and loop of its own."""

    def __init__(self, app, head_seconds=30.0, proxies=()):
        self._app, self._head_seconds, self._proxies = app, head_seconds, proxies
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(512)
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self._thread.join(10)
        self._listening.close()
        assert not self._thread.is_alive()

    async def _serve(self):
        class Protocol(HeadTimeoutProtocol):
            head_seconds = self._head_seconds

        self.server = Server(self._app, self._ready.set, verbose=False, proxies=self._proxies)
        self.server.config.http = self.server.config.http_protocol_class = Protocol
        await self.server.serve(sockets=[self._listening])

    def talk(self, raw, *, seconds=5.0):
        """Send bytes and return all that comes back until the server closes or nothing comes any more."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(raw)
            answer = b""
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                while piece := connection.recv(65_536):
                    answer += piece
            return answer


@pytest.fixture
def running():
    return Running


class ToldPlugin:
    """A model that says what a test wants; see Told."""

    def __init__(self):
        self.provider = None

    @hookimpl
    def flexchat_register_providers(self):
        kind = ProviderType(
            name="told", config_class=ToldConfig, create=lambda _: self.provider, tool_formats={"told": lambda _: []}
        )
        yield kind


@attrs.frozen(kw_only=True)
class ToldConfig:
    """Takes nothing."""


class Told:
    """An app over a model that says what a test wants. ``tables`` is its configuration: changed before ``app``."""

    def __init__(self, plugin, host, folder):
        self._plugin, self._host, self._made, self._stack = plugin, host, [], contextlib.AsyncExitStack()
        weather = {
            "name": "get_weather",
            "description": "Tell the weather.",
            "effect": "read",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "implementation": {"type": "mock", "mock_response": {"celsius": 21}},
        }
        self.tables = {
            "llms": {"robot": {"provider": "told", "retries": 0}},
            "responses": [{"llm": "robot", "model": "r1", "tools": {"enabled": True}}],
            "tools": {"registry": [weather]},
            "validation": {"store": str(folder / "validation.db")},
            "conversations": {"path": str(folder / "conversations.db")},
        }

    def says(self, *replies, repeat=True):
        """Say what the model answers, one reply after the other; returns the model."""
        self._plugin.provider = ScriptedProvider(replies, repeat=repeat)
        return self._plugin.provider

    def app(self, **settings):
        self._made.append(create_app(self.tables, plugins=self._host, settings=Settings(**settings)))
        return self._made[-1]

    async def client(self, *, headers=None, **settings):
        return await self._stack.enter_async_context(client_of(self.app(**settings), headers=headers))

    async def aclose(self):
        await self._stack.aclose()
        for app in self._made:
            await app.aclose()


@pytest.fixture(scope="session")
def told_plugin(plugins):
    """Plugins of its own: those of ``plugins`` and one more."""
    plugin, host = ToldPlugin(), installed_plugins()
    host.register(plugin, "told")
    return plugin, host


@pytest.fixture
async def told(told_plugin, tmp_path):
    made = Told(*told_plugin, tmp_path)
    made.says("hello")
    yield made
    await made.aclose()


def sse(text):
    """The events of a stream: pairs of name and data, JSON read."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name = next((line[7:] for line in lines if line.startswith("event: ")), None)
        data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
        found.append((name, data if data == "[DONE]" else json.loads(data)))
    return found


@pytest.fixture(name="sse")
def sse_fixture():
    return sse
