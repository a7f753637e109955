"""What a person at a terminal, or in the words of a command, answers to the questions of a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
import mcp_types as types
from flexchat.host import Terminal, UsageError, did_you_mean, one_line, read_arguments, value_problem
from flexchat.plugin import run_in_thread

from ..listing import sourced
from ..settings import McpConfig

_LONGEST = 2_000


class Answers:
    """Answers questions: by given words, or by asking at the terminal; otherwise they are declined, which is said.

    Args:
        words: KEY=VALUE, for any question; None: there are none, so the person is asked.

    Attributes:
        problem: Why an answer did not fit its question, which was then cancelled; empty if all did.
    """

    def __init__(self, terminal: Terminal, config: McpConfig, words: Sequence[str] | None) -> None:
        self._terminal, self._config, self._words = terminal, config, words
        self.problem = ""

    async def answer(self, asked: types.ElicitRequestParams) -> types.ElicitResult:
        """Return the answer to a question; one that does not fit it cancels it."""
        message = one_line(asked.message, _LONGEST)
        if isinstance(asked, types.ElicitRequestURLParams):
            return await self._at_address(message, asked.url)
        schema = asked.requested_schema
        schema = (
            schema if isinstance(schema, dict) else schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        if self._words is None and not self._terminal.interactive():
            self._terminal.say(f"the tool asks: {message} (declined: --answer KEY=VALUE answers it)", "dim")
            return types.ElicitResult(action="decline")
        properties: Mapping[str, Any] = schema.get("properties") or {}
        values = {name: one["default"] for name, one in properties.items() if "default" in one}
        try:
            if self._words is not None:
                values |= self._read(schema, self._words)
            else:
                self._terminal.say(f"the tool asks: {message}")
                given = await run_in_thread(self._prompt, schema)
                if given is None:
                    return types.ElicitResult(action="decline")
                values |= given
            if problem := value_problem(values, schema):
                raise UsageError(f"the answer does not fit: {problem}")
        except UsageError as error:
            self.problem = f"the tool asks: {message}; {error}"
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content=values)

    async def _at_address(self, message: str, url: str) -> types.ElicitResult:
        self._terminal.say(f"the tool asks: {message}\n  {one_line(url, _LONGEST)}")
        agrees = self._terminal.interactive() and await run_in_thread(
            self._terminal.confirm, "Open that page yourself, and go on?"
        )
        return types.ElicitResult(action="accept" if agrees else "decline")

    def _prompt(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """Ask for each value; return None if the person declines."""
        properties: Mapping[str, Any] = schema.get("properties") or {}
        if not properties:
            return {} if self._terminal.confirm("Yes?") else None
        words = []
        self._terminal.say("(an empty line leaves a value out; Ctrl-C declines)", "dim")
        try:
            for name, one in properties.items():
                text = one_line(str(one.get("title") or name), 80) + _choices(one)
                default = one.get("default")
                shown = f" [{default if isinstance(default, str) else json.dumps(default)}]" if "default" in one else ""
                with self._terminal.lent():
                    typed = click.prompt(text + shown, default="", show_default=False, err=True)
                words += [f"{name}={typed}"] if typed else []
        except click.Abort:
            return None
        return self._read(schema, words)

    def _read(self, schema: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        asked = {"name": "answer", "description": "What the tool asks.", "inputSchema": {**schema, "type": "object"}}
        mine = [word for word in words if word.partition("=")[0] in properties or word.lstrip().startswith("{")]
        if words and not mine:
            name = words[0].partition("=")[0]
            known = ", ".join(properties) or "nothing"
            raise UsageError(f"--answer {name}: not asked for{did_you_mean(name, properties)}; asked for: {known}")
        return read_arguments(mine, sourced(asked, self._config).definition("any"))


def _choices(one: Mapping[str, Any]) -> str:
    found = one.get("enum") or [each.get("const") for each in one.get("oneOf", ()) if isinstance(each, dict)]
    return f" ({', '.join(map(str, found))})" if found else ""
