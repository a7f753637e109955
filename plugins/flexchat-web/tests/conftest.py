"""A configuration with a model that repeats one answer, the app over it, and a real server where sockets count."""

import asyncio
import contextlib
import socket
import threading

import httpx
import pytest
from flexchat.assembly import installed_plugins
from flexchat_web.app import create_app
from flexchat_web.commands.protocol import HeadTimeoutProtocol
from flexchat_web.commands.server import Server
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

    def __init__(self, app, head_seconds=30.0):
        self._app, self._head_seconds = app, head_seconds
        self._listening = socket.create_server(("127.0.0.1", 0))
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

        self.server = Server(self._app, self._ready.set, verbose=False)
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
