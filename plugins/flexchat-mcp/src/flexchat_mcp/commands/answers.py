"""The person who runs a command: answers a server's questions, at a terminal or in the command, and signs in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from flexchat import Question
from flexchat.host import UncheckedError, did_you_mean, value_problem
from flexchat_cli import Questions, Terminal, UsageError, fields_of, one_line, read_arguments
from mcp.client.auth import AuthorizationCodeResult

from ..listing import sourced
from ..questions import schema_of
from ..settings import McpConfig
from .browser import Browser

_MAX_NOTE_CHARS = 2_000


class Answers:
    """Answers questions from the command line or at the terminal, or declines them with a note; see grant.Person.

    Args:
        words: KEY=VALUE, for any question; None: there are none, so the person is asked.

    Attributes:
        problem: Why an answer did not fit its question, which was then cancelled; empty if all did.
        browser: Signs in; set if the server may ask for that.
    """

    def __init__(self, terminal: Terminal, config: McpConfig, words: Sequence[str] | None) -> None:
        self._terminal, self._config, self._words = terminal, config, words
        self._person = Questions(terminal)
        self.problem = ""
        self.browser: Browser | None = None

    @property
    def redirect_uri(self) -> str:
        """Where the browser comes back to."""
        assert self.browser is not None
        return self.browser.redirect_uri

    async def sign_in(self, url: str) -> AuthorizationCodeResult:
        """See Browser.sign_in."""
        assert self.browser is not None
        return await self.browser.sign_in(url)

    async def answer(self, question: types.ElicitRequestParams) -> types.ElicitResult:
        """Return the answer to a question; one that does not fit it cancels it."""
        message = one_line(question.message, _MAX_NOTE_CHARS)
        if isinstance(question, types.ElicitRequestURLParams):
            reply = await self._person(Question(message=question.message, url=question.url))
            if reply is None:
                self._terminal.say(f"the tool asks: {message} (declined)\n  {one_line(question.url, _MAX_NOTE_CHARS)}")
            return types.ElicitResult(action="decline" if reply is None else reply.action)
        schema = schema_of(question) or {}
        if self._words is None:
            return await self._from_person(message, schema)
        try:
            values = {name: one["default"] for name, one in fields_of(schema).items() if "default" in one}
            values |= self._read(schema, self._words)
            if problem := value_problem(values, schema):
                raise UsageError(f"the answer does not fit: {problem.removeprefix('$: ')}")
        except (UncheckedError, UsageError) as error:
            self.problem = f"{error} (the tool asks: {message})"
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content=values)

    async def _from_person(self, message: str, schema: Mapping[str, Any]) -> types.ElicitResult:
        reply = await self._person(Question(message=message, schema=schema))
        if reply is None:
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
        return read_arguments(mine, sourced(tool, self._config).definition("any"))
