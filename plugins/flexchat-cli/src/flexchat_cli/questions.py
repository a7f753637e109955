"""Questions of tools, asked of the person at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import click
from flexchat.config.wording import visible
from flexchat.domain import Implementation, QuestionAnswered, ToolDefinition
from flexchat.domain.questions import NOBODY, Question, Reply
from flexchat.plugin.foreign import run_in_thread
from flexchat.schema.check import value_problem
from flexchat.schema.limits import UncheckedError

from .context import UsageError, user_name
from .terminal import Terminal, one_line
from .tool_arguments import read_object, read_value

_MAX_CHARS = 20_000
_MAX_LINE = 64 * 1024
_YES = ("y", "yes")
_SCOPES = {"conversation": "yes for this conversation", "always": "yes always"}


class Questions:
    """Asks the person at the terminal one question after the other; None without an interactive terminal.

    It reads lines without a thread: the thread of a cancelled turn would still consume the next line.

    Args:
        keeps: Whether the questions are kept: then Ctrl-C leaves them open.

    Attributes:
        unasked: The tools whose questions found no terminal.
    """

    def __init__(self, terminal: Terminal, *, keeps: bool = False) -> None:
        self._terminal, self._keeps = terminal, keeps
        self._turns = asyncio.Lock()
        self._left: set[str] = set()  # ids of questions that Ctrl-C left open
        self.unasked: set[str] = set()

    async def __call__(self, question: Question) -> Reply | None:
        """Return the reply; see OnQuestion."""
        if not self._terminal.interactive():
            self.unasked.add(question.tool)
            return None
        async with self._turns:
            if not self._keeps:
                return _signed(await self._ask(question))
            # Ctrl-C leaves this question, and those after it, to be answered later, instead of ending the turn.
            loop, asking = asyncio.get_running_loop(), asyncio.ensure_future(self._ask(question))
            if self._left:
                asking.cancel()
            with _at_interrupt(lambda *_: loop.call_soon_threadsafe(asking.cancel)):
                try:
                    await asyncio.wait({asking})
                finally:
                    asking.cancel()
            if not asking.cancelled():
                return _signed(asking.result())
            self._left.add(question.id)
            return None

    def see(self, event: object) -> None:
        """Watch the turn: it ends, as by Ctrl-C elsewhere, if it goes on without a reply to a question left open."""
        if isinstance(event, QuestionAnswered) and event.question.id in self._left and event.reply.why == NOBODY:
            signal.raise_signal(signal.SIGINT)

    async def _ask(self, question: Question) -> Reply:
        self._terminal.end_line()
        if question.digest:
            return await self._approve(question)
        who = f"{question.tool} asks" if question.tool else "the tool asks"
        self._terminal.say(f"{who}: {one_line(question.message, _MAX_CHARS)}")
        if question.url:
            self._terminal.say(f"  {one_line(question.url, _MAX_CHARS)}")
            agreed = await self._agrees("Open that page yourself, and go on?")
            return Reply(action="accept" if agreed else "decline")
        content = await self._filled_in(question.schema or {})
        return Reply(action="decline") if content is None else Reply(action="accept", content=content)

    async def _approve(self, question: Question) -> Reply:
        """Show the call in full, and return the person's decision about it."""
        _discard_typed()
        self._say_in_full(f"{question.tool or 'a tool'} needs approval: {question.message}")
        if (arguments := question.details.get("arguments")) is not None:
            self._say_in_full(json.dumps(arguments, ensure_ascii=False, indent=2, default=repr))
        scopes = {scope[:1]: scope for scope in question.remember if scope}  # without a name: any yes counts again
        ways = {"y": "yes", "n": "no", "r": "no with a reason"}
        ways |= {"e": "edit"} if "arguments" in fields_of(question.schema or {}) else {}
        ways |= {letter: _SCOPES.get(scope, f"yes, {scope}") for letter, scope in scopes.items()}
        prompt = f"Approve? {', '.join(map(' '.join, ways.items()))} [n]:"
        while True:
            match (await self._line(prompt) or "no").lower():
                case "n" | "no":
                    return Reply(action="decline")
                case "y" | "yes":
                    return Reply(action="accept")
                case "r":
                    return Reply(action="decline", why=await self._line("Reason:") or "")
                case "e" if "e" in ways:
                    if (content := await self._edit(question)) is not None:
                        return Reply(action="accept", content=content)
                case letter if letter in scopes:
                    return Reply(action="accept", remember=scopes[letter])

    async def _edit(self, question: Question) -> dict[str, Any] | None:
        """Return the reply with the edited arguments; None if they are unchanged, or not valid."""
        arguments = question.details.get("arguments")
        try:
            if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
                before = visible(json.dumps(arguments, ensure_ascii=False, indent=2, default=repr))
                # Ctrl-C is for the editor meanwhile, which is in the same process group.
                with self._terminal.lend_stdout(), _at_interrupt(lambda *_: None):
                    text = await run_in_thread(functools.partial(click.edit, before, extension=".json"))
            else:
                text = await self._line("Arguments, as a JSON object on one line:")
            content = {"arguments": read_object(text) if text else arguments}
            problem = (
                "unchanged" if content["arguments"] == arguments else value_problem(content, question.schema or {})
            )
        except (click.ClickException, UncheckedError, UsageError, ValueError) as error:  # ValueError: not UTF-8
            problem = str(error)
        if problem:
            self._say_in_full(f"  {problem}")
            return None
        return content

    def _say_in_full(self, text: str) -> None:
        text = visible(text)
        self._terminal.say(self._terminal.symbol(text, text.encode("ascii", "backslashreplace").decode()))

    async def _filled_in(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """Ask for each value; return None if the person declines."""
        fields = fields_of(schema)
        if not fields:
            return {} if await self._agrees("Yes?") else None
        self._terminal.say("(an empty line leaves a value out; Ctrl-D declines)", "dim")
        values: dict[str, Any] = {}
        for name, one in fields.items():
            while True:
                typed = await self._line(f"{_title(name, one)}:")
                if typed is None:
                    return None
                values.pop(name, None)
                try:
                    if typed:
                        values |= read_answer(schema, name, typed)
                    elif "default" in one:
                        values[name] = one["default"]
                except UsageError as error:
                    self._terminal.say(f"  {error}")
                    continue
                problem = _problem(name, values, schema)
                if not problem:
                    break
                self._terminal.say(f"  {problem}")
        return values

    async def _agrees(self, text: str) -> bool:
        return ((await self._line(f"{text} [y/N]:")) or "").strip().lower() in _YES

    async def _line(self, prompt: str) -> str | None:
        """Return the next line that is typed; None if there is none any more."""
        with self._terminal.lend_stdout():
            click.echo(f"{prompt} ", nl=False, err=True)
        read = b""
        try:
            read = await _typed()
        finally:
            if not read:  # also if the reply came from elsewhere
                self._terminal.say("")
        return read.decode(sys.stdin.encoding or "utf-8", "replace").strip() if read else None


def fields_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields of a form by name; a value that is not a schema counts as one that accepts anything."""
    properties = schema.get("properties")
    fields = properties if isinstance(properties, Mapping) else {}
    return {name: one if isinstance(one, Mapping) else {} for name, one in fields.items()}


def read_answer(schema: Mapping[str, Any], name: str, text: str) -> dict[str, Any]:
    """Return a field of a form with the value that was typed for it, in the type that its schema names.

    Raises:
        UsageError: It should be JSON, and is not.
    """
    form = ToolDefinition(
        name="answer",
        description="What the tool asks.",
        parameters={**schema, "type": "object"},
        implementation=Implementation(type="asked"),
    )
    return {name: read_value(name, text, form)}


def _problem(name: str, values: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """Validate one field, or its absence; return the problem, or None."""
    required = schema.get("required")
    is_required = isinstance(required, list | tuple) and name in required
    alone = {name: values[name]} if name in values else {}
    only = {**schema, "properties": {name: fields_of(schema)[name]}, "required": [name] if is_required else []}
    try:
        return value_problem(alone, only)
    except UncheckedError as error:
        return f"it holds {error}"


def _title(name: str, one: Mapping[str, Any]) -> str:
    items = one.get("items")
    several = _choices(items) if isinstance(items, Mapping) else []
    choices = ["true", "false"] if one.get("type") == "boolean" else _choices(one)
    suffix = f" (a JSON list of: {', '.join(several)})" if several else f" ({', '.join(choices)})" if choices else ""
    if "default" in one:
        default = one["default"]
        suffix += f" [{default if isinstance(default, str) else json.dumps(default)}]"
    return one_line(str(one.get("title") or name), 80) + (f" {one_line(suffix, 400)}" if suffix else "")


def _choices(one: Mapping[str, Any]) -> list[str]:
    """Return the values among which a schema lets one choose."""
    choices = one.get("enum")
    for key in ("oneOf", "anyOf"):
        if not choices and isinstance(one.get(key), list | tuple):
            titled = [each for each in one[key] if isinstance(each, Mapping) and "const" in each]
            choices = [f"{each['const']}: {each['title']}" if each.get("title") else each["const"] for each in titled]
    return [*map(str, choices)] if isinstance(choices, list | tuple) else []


def _signed(reply: Reply) -> Reply:
    return attrs.evolve(reply, by=user_name())


@contextlib.contextmanager
def _at_interrupt(handler: Callable[..., object]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _discard_typed() -> None:
    """Discard the lines typed so far: they answer nothing that is shown from now on."""
    with contextlib.suppress(ImportError, OSError):  # ImportError: Windows
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


async def _typed() -> bytes:
    """Return a line from standard input, with its end; empty if the input has ended."""
    loop = asyncio.get_running_loop()
    number = sys.stdin.fileno()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not line.done():
            try:
                line.set_result(os.read(number, _MAX_LINE))  # a terminal gives a whole line
            except OSError:  # the terminal is gone
                line.set_result(b"")

    try:
        loop.add_reader(number, read)
    except NotImplementedError:  # Windows
        text: str = await run_in_thread(sys.stdin.readline)
        return text.encode()
    try:
        return await line
    finally:
        loop.remove_reader(number)
