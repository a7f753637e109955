"""flexchat chat: a conversation. Ctrl-C stops the answer, not the program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click
from flexchat.app import FlexChat
from flexchat.domain import ConversationInfo, MediaPart, ToolCallRecord, Turn, UserMessage
from flexchat.domain.media import describe_media
from flexchat.domain.text import counted
from flexchat.errors import FlexChatError, did_you_mean
from flexchat.request import RequestOptions

from .answering import Answering, answering_options
from .attachments import read_attachments, write_media
from .context import FAILED, OK, PENDING, CommandContext, UsageError, demo_option, report_notes, require_config
from .conversations_store import NO_KEEP, Keeping, KeptConversation, is_configured, keeping_options, open_kept
from .parameters import command
from .prompts import variables_option
from .questions import Questions
from .standard_input import announce_wait, expect_utf8
from .terminal import StreamError, Terminal, one_line
from .tool_arguments import signature, summary
from .transcript import Spending, report_pending, show_turn

_HELP = {
    "/tools": "list the tools",
    "/new": "start a new conversation",
    "/undo": "take back the last turn; what its tools did stays done",
    "/model": "let another model answer: /model openai/gpt-5.2; without a name: show which answered last",
    "/usage": "the tokens and the cost of this conversation so far",
    "/attach": "attach a file or an address to the next message: /attach photo.png",
    "/pin": "send the next message again with each later one, however long the conversation is",
    "/system": "set the system prompt: /system TEXT; without a text: the configuration's again",
    "/help": "show this",
    "/quit": "end (so do /exit, exit, quit and Ctrl-D)",
}
_ENDS = ("/quit", "/exit", "quit", "exit", None)


@command
@click.option("--approve", is_flag=True, help="ask before each call of a tool")
@answering_options
@variables_option
@demo_option
@keeping_options(f"default: at a terminal unless {NO_KEEP} is set, or if configured")
def chat(
    context: CommandContext, approve: bool, answering: Answering, variables: Mapping[str, Any], keeping: Keeping
) -> int:
    """Hold a conversation.

    It is held on the terminal, or with the lines of standard input. With --json, one line of JSON is printed per turn.
    Without a person at the terminal, a failed turn makes the exit status 1, and a last one that is suspended 3.
    """
    terminal = context.terminal
    if sys.stdin is None:
        raise StreamError("chat reads standard input, which is closed")
    chat = answering.open(context)
    if answering.model is None:
        require_config(context)
        report_notes(chat, context)
    interactive = terminal.interactive()
    if interactive:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  gives input() arrow keys and a history
        terminal.say("/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends", "dim")
    else:
        expect_utf8()
    with asyncio.Runner() as runner, contextlib.ExitStack() as closing:
        closing.callback(lambda: runner.run(chat.aclose()))
        by_default = is_configured(context) or (interactive and not os.environ.get(NO_KEEP))
        kept = runner.run(open_kept(chat, context, keeping, by_default=by_default))
        if kept is not None:
            close = kept.aclose
            closing.callback(lambda: runner.run(close()))
            if interactive and kept.continued is None:
                terminal.say("this conversation is kept on this machine; --no-keep keeps nothing", "dim")
        talk = _Talk(chat, kept, context, answering, runner, variables, closing, approve=approve)
        failures = talk.go()
    return OK if interactive else FAILED if failures else talk.status


@attrs.define(eq=False)
class _Talk:
    """A conversation at the terminal: its messages, its store, and the event loop it runs on."""

    chat: FlexChat
    kept: KeptConversation | None
    context: CommandContext
    answering: Answering
    runner: asyncio.Runner
    variables: Mapping[str, Any]
    closing: contextlib.ExitStack
    approve: bool = attrs.field(kw_only=True)
    attached: tuple[MediaPart, ...] = attrs.field(default=(), init=False)
    pins_next: bool = attrs.field(default=False, init=False)
    turns: list[Turn] = attrs.field(factory=list, init=False)
    spent: Spending = attrs.field(factory=Spending, init=False)
    before: ConversationInfo | None = attrs.field(init=False)
    interactive: bool = attrs.field(init=False)
    model: str = attrs.field(default="", init=False)
    status: int = attrs.field(default=OK, init=False)

    def __attrs_post_init__(self) -> None:
        self.before = self.kept.continued if self.kept is not None else None
        self.interactive = self.terminal.interactive()

    @property
    def terminal(self) -> Terminal:
        return self.context.terminal

    def go(self) -> int:
        """Answer line after line; return how many turns failed."""
        failures = 0
        while (line := self._next_line()) not in _ENDS:
            if line and line.startswith("/"):
                self._command(line)
            elif line:
                failures += not self._turn(line)
        return failures

    def _next_line(self) -> str | None:
        try:
            if not self.interactive:
                with announce_wait(self.terminal, "a line on standard input"):
                    return input().strip()
            with self.terminal.lend_stdout():  # otherwise input() would not edit lines
                return input("> ").strip()
        except UnicodeDecodeError:
            raise UsageError("standard input is not UTF-8: iconv -t UTF-8 converts it") from None
        except (EOFError, KeyboardInterrupt) as end:
            if self.interactive:
                self.terminal.out()
            elif isinstance(end, KeyboardInterrupt):
                raise
            return None

    def _command(self, line: str) -> None:
        name, _, text = line.partition(" ")
        match name:
            case "/model" if not text.strip():
                self.terminal.say(self.model or "no model has answered yet")
            case "/model":
                self._answer_otherwise(attrs.evolve(self.answering, model=text.strip()))
            case "/system":
                self._answer_otherwise(attrs.evolve(self.answering, system=text.strip() or None))
            case "/attach":
                self._attach(text.strip())
            case "/pin":
                self.pins_next = True
                self.terminal.say("the next message", "dim")
            case "/usage":
                self._print_usage()
            case "/tools":
                tools = self.chat.tools.get_registry().list()
                for tool in tools:
                    self.terminal.say(f"{signature(tool)}  {summary(tool)}")
                if not tools:
                    self.terminal.say("no tools")
            case "/undo":
                self._undo()
            case "/new":
                self.turns, self.spent, self.before = [], Spending(), None
                if self.kept is not None:
                    self.kept.begin()
                self.terminal.say("a new conversation", "dim")
            case "/help":
                for name, what in _HELP.items():
                    self.terminal.say(f"{name:8}{what}")
            case unknown:  # the slash that all have in common does not count as a similarity
                hint = did_you_mean(unknown[1:], [name[1:] for name in _HELP]).replace("'", "'/", 1)
                self.terminal.say(f"no command {unknown}{hint}; /help lists them")

    def _attach(self, name: str) -> None:
        try:
            self.attached += self.runner.run(read_attachments([name] if name else [], self.chat, self.terminal))
        except FlexChatError as error:
            self.terminal.error(str(error))
        if not name:
            names = ", ".join(map(describe_media, self.attached))
            self.terminal.say(names or "nothing is attached to the next message")

    def _answer_otherwise(self, answering: Answering) -> None:
        """Let another model, or another system prompt, answer from now on; the conversation goes on."""
        try:
            chat = answering.open(self.context)
        except FlexChatError as error:
            self.terminal.error(str(error))
            return
        self.closing.callback(lambda: self.runner.run(chat.aclose()))
        self.chat, self.answering = chat, answering
        if self.kept is not None:
            self.kept.continue_with(chat)
        self.terminal.say("from the next message on", "dim")

    def _turn(self, message: str) -> bool:
        """Answer a message and return whether that went well."""
        try:
            turn = self.runner.run(self._answer(message))
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            self.terminal.say("stopped", "dim")
            return False
        except FlexChatError as error:
            self._remember(error.turn)
            self.terminal.end_line()
            self.terminal.error(str(error))
            if self.context.json:
                ended = {"turn": error.turn.to_dict()} if error.turn is not None else {}
                self.terminal.json({"error": str(error), "type": type(error).__name__, **ended}, one_line=True)
            return False
        if self.status != PENDING:
            self._remember(turn)
            self.model = f"{turn.response.llm}/{turn.response.model}"
        return True

    def _remember(self, turn: Turn | None) -> None:
        """Count what a turn took, however it ended, and add it to the history, if no store does so."""
        if turn is None:
            return
        self.spent += Spending.of(turn)
        if self.kept is None:
            self.turns.append(turn)

    def _print_usage(self) -> None:
        """Print the tokens and the cost of this conversation, including turns that were undone: they were paid for."""
        spent, before = self.spent, self.before
        if spent.turns:
            self.terminal.say(f"{counted(spent.turns, 'turn')}: {spent.tokens()}, {spent.cost}")
        elif before is None:
            self.terminal.say("no turn yet")
        for why in spent.cost.unpriced:
            self.terminal.say(f"not in it: {why}", "dim")
        if before is not None:
            earlier = "cost unknown" if before.cost is None else before.cost.explained()
            self.terminal.say(f"before that: {counted(before.turns, 'turn')}, {earlier}")

    def _undo(self) -> None:
        """Undo the last turn, completed or not. A stored conversation stays unchanged; a copy continues it."""
        if self.kept is not None:
            try:
                turn = self.runner.run(self.kept.take_back())
            except FlexChatError as error:
                self.terminal.error(str(error))
                return
            messages, calls = (turn.messages, turn.tool_calls) if turn is not None else ((), ())
        else:
            last = self.turns.pop() if self.turns else None
            messages, calls = (last.response.messages, last.response.tool_calls) if last is not None else ((), ())
        if not messages:
            self.terminal.say("there is nothing to take back")
            return
        message = next((message.content for message in messages if isinstance(message, UserMessage)), "")
        self.terminal.say(f"taken back: {one_line(message, 60)}", "dim")
        if done := self._lasting(calls or ()):
            self.terminal.say(f"what its tools did stays done: {', '.join(done)}")
        if self.kept is not None:
            text = "the kept conversation is unchanged; the next message starts a copy of it without that turn"
            self.terminal.say(text, "dim")

    def _lasting(self, calls: Sequence[ToolCallRecord]) -> list[str]:
        """Return the names of the tools that may have changed something."""
        effects = {tool.name: tool.effect for tool in self.chat.tools.get_registry().list()}
        ran = [call.tool for call in calls if call.tool in effects or call.result.success]
        return [name for name in dict.fromkeys(ran) if effects.get(name) != "read"]

    async def _answer(self, message: str) -> Turn:
        earlier = [turn for turn in self.turns if turn.replay]
        attached, self.attached = self.attached, ()
        request = self.answering.request(
            message,
            self.variables,
            self.context,
            history=[message for turn in earlier for message in turn.response.messages],
            topic=(earlier[-1].profile.topic or None) if earlier else None,
            attachments=attached,
        )
        person = Questions(self.terminal, keeps=self.kept is not None and self.chat.questions_expire_s > 0)
        settings: RequestOptions = {**self.answering.message_options, "on_question": person, "approve": self.approve}
        settings["pin"], self.pins_next = self.pins_next, False
        try:
            if self.kept is not None:
                await self.kept.carry()
                settings |= self.kept.options
            if self.context.json:
                turn = await self.chat.respond(request, **settings)
                self.terminal.json(turn.to_dict(), one_line=True)
            else:
                turn = await show_turn(self.chat.stream(request, **settings), self.terminal, person=person)
            write_media(turn, None, self.terminal)
            self.status = report_pending(turn, self.terminal, person)
            return turn
        except asyncio.CancelledError as stopped:
            self._remember(getattr(stopped, "turn", None))
            raise
