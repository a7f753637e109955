"""The person who runs a command: answers a server's questions, at a terminal or in the command, and signs in."""

from __future__ import annotations

import asyncio
import contextlib
import html
import webbrowser
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import mcp_types as types
from flexchat import Question
from flexchat.host import UncheckedError, did_you_mean, value_problem
from flexchat.plugin import run_in_thread
from flexchat_cli import Questions, Terminal, UsageError, fields_of, one_line, read_arguments
from mcp.client.auth import AuthorizationCodeResult, OAuthFlowError

from ..listing import to_sourced_tool
from ..settings import McpConfig
from ..tokens import TokenFile
from ..tool_call import schema_of

_MAX_NOTE_CHARS = 2_000


class Answers:
    """Answers questions from the command line or at the terminal, or declines them with a note; see oauth.Person.

    Args:
        words: KEY=VALUE, for any question; None: there are none, so the person is asked.

        browser: Signs in, if the server may ask for that.

    Attributes:
        problem: Why an answer did not fit its question, which was then cancelled; empty if all did.
    """

    def __init__(
        self, terminal: Terminal, config: McpConfig, words: Sequence[str] | None, browser: Browser | None = None
    ) -> None:
        self._terminal, self._config, self._words = terminal, config, words
        self._person = Questions(terminal)
        self.problem = ""
        if browser is not None:
            self.redirect_uri, self.sign_in = browser.redirect_uri, browser.sign_in

    async def answer(self, question: types.ElicitRequestParams) -> types.ElicitResult:
        """Return the answer to a question; one that does not fit it cancels it."""
        message = one_line(question.message, _MAX_NOTE_CHARS)
        if isinstance(question, types.ElicitRequestURLParams):
            if (reply := await self._person(Question(message=question.message, url=question.url))) is None:
                self._terminal.say(f"the tool asks: {message} (declined)\n  {one_line(question.url, _MAX_NOTE_CHARS)}")
            return types.ElicitResult(action="decline" if reply is None else reply.action)
        schema = schema_of(question) or {}
        if self._words is None:
            return await self._from_person(message, schema)
        try:
            values = {name: one["default"] for name, one in fields_of(schema).items() if "default" in one}
            values |= self._read(schema, self._words)
            if problem := value_problem(values, schema):
                raise UsageError(f"the answer does not fit: {problem}")
        except (UncheckedError, UsageError) as error:
            self.problem = f"{error} (the tool asks: {message})"
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content=values)

    async def _from_person(self, message: str, schema: Mapping[str, Any]) -> types.ElicitResult:
        if (reply := await self._person(Question(message=message, schema=schema))) is None:
            fields = f"; asked for: {', '.join(fields_of(schema))}" if fields_of(schema) else ""
            why = f"declined: --answer KEY=VALUE answers it{fields}"
            self._terminal.say(f"the tool asks: {message} ({one_line(why, _MAX_NOTE_CHARS)})", "dim")
            return types.ElicitResult(action="decline")
        content = {**reply.content} if reply.action == "accept" else None
        return types.ElicitResult(action=reply.action, content=content)

    def _read(self, schema: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
        properties = fields_of(schema)
        tool = {"name": "answer", "description": "What the tool asks.", "inputSchema": {**schema, "type": "object"}}
        mine = [word for word in words if word.partition("=")[0] in properties or word.lstrip().startswith("{")]
        if words and not mine:
            name = words[0].partition("=")[0]
            names = ", ".join(properties) or "nothing"
            raise UsageError(f"--answer {name}: not asked for{did_you_mean(name, properties)}; asked for: {names}")
        return read_arguments(mine, to_sourced_tool(tool, self._config).definition("any"))


WAIT_S = 600.0  # how long a person may take to sign in
_MAX_BYTES = 16_384
_READ_S = 10.0


class Browser:
    """See oauth.Person."""

    def __init__(self, terminal: Terminal, port: int, *, opens: bool) -> None:
        self._terminal, self._opens = terminal, opens
        self.redirect_uri = f"http://127.0.0.1:{port}/callback"
        self._state: str | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None

    async def sign_in(self, url: str) -> AuthorizationCodeResult:
        """Open the page, and wait for the redirect to this machine.

        Raises:
            OAuthFlowError: The person or the server refused, or the redirect did not arrive in time.
        """
        self._state = parse_qs(urlsplit(url).query).get("state", [None])[0]
        self._answer = asyncio.get_running_loop().create_future()
        self._terminal.say(f"sign in here:\n  {url}")
        if self._opens:
            await run_in_thread(webbrowser.open, url)
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._answer
        except TimeoutError:
            raise OAuthFlowError(f"nobody signed in within {WAIT_S / 60:.0f} minutes") from None

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser."""
        nonsense = (ValueError, LookupError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        with contextlib.suppress(OSError, TimeoutError, *nonsense), contextlib.closing(writer):
            async with asyncio.timeout(_READ_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._handle(head.split(b" ")[1].decode("ascii"))
            page = f"<!doctype html><meta charset=utf-8><title>FlexChat</title><p>{html.escape(text)}</p>".encode()
            start = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
            writer.write(f"{start}Connection: close\r\nReferrer-Policy: no-referrer\r\n\r\n".encode() + page)
            await writer.drain()

    def _handle(self, target: str) -> tuple[str, str]:
        """Take what the browser brings; return the status and the text of the page."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/callback" or self._answer is None or self._answer.done():
            return "404 Not Found", "There is nothing here."
        if query.get("state") != self._state:
            return "400 Bad Request", "This does not belong to the page that FlexChat opened."
        if "error" in query:
            why = query.get("error_description") or query["error"]
            self._answer.set_exception(OAuthFlowError(f"it was refused: {why[:300]}"))
            return "200 OK", "You are not signed in. You can close this window."
        if "code" not in query:
            return "400 Bad Request", "The code is missing."
        result = AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))
        self._answer.set_result(result)
        return "200 OK", "You are signed in. You can close this window."


@contextlib.asynccontextmanager
async def browser(
    terminal: Terminal, *, port: int = 0, file: TokenFile | None = None, opens: bool = True
) -> AsyncIterator[Browser]:
    """Listen for the redirect of a browser.

    Args:
        port: 0: that of the stored client, or a free one.
        file: The file of the stored client, which is registered with its port; it is deleted if the port is taken.

    Raises:
        UsageError: The port is taken.
    """
    person: Browser | None = None

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert person is not None
        await person.answer(reader, writer)

    last_port = 0 if port or file is None else _port_in(file)
    try:
        listener = await asyncio.start_server(answer, "127.0.0.1", port or last_port, limit=_MAX_BYTES)
    except OSError as error:
        if port or file is None:
            text = f"port {port} of 127.0.0.1, where the browser comes back to, cannot be used: {error.strerror}"
            raise UsageError(f"{text}; end what uses it, or change auth.redirect_port") from None
        await file.forget()
        listener = await asyncio.start_server(answer, "127.0.0.1", 0, limit=_MAX_BYTES)
    async with listener:
        person = Browser(terminal, listener.sockets[0].getsockname()[1], opens=opens)
        yield person


def _port_in(file: TokenFile) -> int:
    """Return the port that the client which is kept comes back to; 0 if there is none."""
    with contextlib.suppress(LookupError, TypeError, ValueError):
        return urlsplit(file.read()["client"]["redirect_uris"][0]).port or 0
    return 0
