"""flexchat ask and demo: one message, one answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import click
from flexchat.app import FlexChat
from flexchat.config.model import duration_s
from flexchat.domain import ChatRequest, TurnFinished
from flexchat.domain.text import counted
from flexchat.request import RequestOptions

from . import standard_input
from .answering import Answering, answering_options
from .as_in_llm import AskingCommand
from .attachments import attachment_option, folder_option, read_attachments, write_media
from .context import OK, CommandContext, UsageError, demo_option, report_notes, require_config, zero_config
from .conversations_store import NO_KEEP, Keeping, is_logged, keeping_options, open_kept
from .parameters import TEXT, argument, command
from .prompts import variables_option
from .questions import Questions
from .terminal import Style, Terminal
from .transcript import Transcript, report_pending, show_turn

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[^\n`]*\n", re.MULTILINE)


def message_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the parameters for the message, and for whether standard input is part of it."""
    no_stdin = "ignore standard input: for loops that read from it, and services"
    text = "the message; a pipe or a file on standard input is appended (with - at its end: any standard input)"
    words = argument("message", nargs=-1, type=TEXT, help=text)
    return words(click.option("--no-stdin", is_flag=True, help=no_stdin)(command))


def _time(text: str) -> datetime:
    """Return a time in ISO 8601, local without an offset, or in so long from now, for click."""
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.now(UTC) + timedelta(seconds=duration_s(text))
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).astimezone()
    raise click.BadParameter(f"'{text}' is neither a time such as 2026-12-24T18:00 nor a duration such as 2h")


@click.command(cls=AskingCommand)
@message_options
@click.option(
    "-f",
    "--fragment",
    "fragments",
    metavar="FILE|URL",
    type=TEXT,
    multiple=True,
    help="a text to put before the message: a file, an address, or - for standard input; repeatable",
)
@attachment_option
@folder_option
@click.option("-x", "--extract", is_flag=True, help="print the first ``` block of the answer alone, if it has one")
@click.option("--no-stream", is_flag=True, help="print the answer when it is complete, and nothing but the answer")
@click.option("--approve", "--ta", "--tools-approve", "approve", is_flag=True, help="ask before each call of a tool")
@click.option(
    "--td", "--tools-debug", "in_full", is_flag=True, help="show the calls of tools and their results in full"
)
@click.option("--save", metavar="NAME", help="ask nothing: save message and options as the prompt NAME, for -t")
@click.option("--queue", is_flag=True, help="keep the turn for a worker or flexchat serve, print its id, and return")
@click.option("--at", metavar="TIME", type=_time, help='with --queue, begin no earlier: "2026-12-24T18:00", or in "2h"')
@click.option(
    "--priority", metavar="N", type=int, help="with --queue: turns with a higher number begin first (default: 0)"
)
@answering_options
@variables_option
@demo_option
@keeping_options(f"default: kept, unless {NO_KEEP} is set or [conversations] has log = false")
@click.pass_obj
def ask(
    context: CommandContext,
    message: tuple[str, ...],
    no_stdin: bool,
    no_stream: bool,
    extract: bool,
    approve: bool,
    fragments: tuple[str, ...],
    attachments: tuple[str, ...],
    folder: str | None,
    in_full: bool,
    save: str | None,
    queue: bool,
    at: datetime | None,
    priority: int | None,
    answering: Answering,
    variables: Mapping[str, Any],
    keeping: Keeping,
) -> int:
    """Answer one message.

    The answer goes to standard output, everything else to standard error. Exit status 3: the turn is suspended until
    there is a reply to its question.
    """
    if (at is not None or priority is not None) and not queue:
        raise UsageError("--at and --priority are for turns that are stored for later: add --queue")
    if queue and folder is not None:
        raise UsageError("-O writes what an answer brings, and --queue waits for none: leave out one of them")
    if save is not None:
        if attachments:
            raise UsageError("--save keeps no attachments: leave out -a")
        _save(context, save, message, answering, variables)
        return OK
    needed = answering.needs_message and not fragments and not attachments
    if (*fragments, *attachments).count("-") > 1:
        raise UsageError("standard input can be read once: give one - only")
    use_stdin = not no_stdin and "-" not in (*fragments, *attachments)
    text = read_message(message, context.terminal, use_stdin=use_stdin, is_needed=needed)
    if fragments:
        from .standard_input import read_fragments

        text = "\n\n".join(part for part in (*asyncio.run(read_fragments(fragments, context.terminal)), text) if part)
    request = answering.request(text, variables, context)
    chat = answering.open(context)
    if answering.model is None:
        require_config(context)
        report_notes(chat, context)
    part = first_block if extract else None
    settings: RequestOptions = {**answering.message_options, "approve": approve}
    queued = {"at": at, "priority": priority or 0} if queue else None
    return asyncio.run(
        _ask(
            chat,
            request,
            settings,
            context,
            keeping,
            queued,
            attachments=attachments,
            folder=folder,
            streamed=not no_stream,
            part=part,
            in_full=in_full,
        )
    )


def read_message(words: Sequence[str], terminal: Terminal, *, use_stdin: bool, is_needed: bool = True) -> str:
    """Return the message: the words, followed by the content of a pipe or a file on standard input.

    Args:
        is_needed: Whether there must be one; it may be empty if not.

    Raises:
        UsageError: There is no message, or standard input is not text.
    """
    has_dash = bool(words) and words[-1] == "-"
    words = words[:-1] if has_dash else words
    message = " ".join(words)
    if words and not message.strip():
        raise UsageError("the message is empty")
    if has_dash and not use_stdin:
        raise UsageError("a - asks for standard input, and --no-stdin ignores it: give only one of them")
    if not is_needed and not has_dash:
        beside = _beside(terminal, is_patient=not message) if use_stdin else ""
        return "\n\n".join(part for part in (message, beside) if part)
    if not words and not has_dash and (not use_stdin or (sys.stdin is not None and sys.stdin.isatty())):
        raise UsageError('ask needs a message: flexchat ask "What is 17% of 230?"')
    if not words or has_dash:
        if sys.stdin is None:  # closed by the caller
            raise UsageError("ask needs a message: none is given, and standard input is closed")
        text = standard_input.read_text(terminal).strip()
        if not message and not text:
            raise UsageError("the message on standard input is empty")
    else:
        text = _beside(terminal) if use_stdin else ""
    return "\n\n".join(part for part in (message, text) if part)


def _beside(terminal: Terminal, *, is_patient: bool = False) -> str:
    """Read what standard input adds to a message of words, and report it; empty if nothing.

    Args:
        is_patient: Whether to wait for a pipe until it ends, however long it is silent.
    """
    if not standard_input.is_given():
        return ""
    if standard_input.is_shared():
        terminal.say("note: standard input is being read by a surrounding loop and is ignored; a - adds it", "dim")
        return ""
    if not is_patient and standard_input.is_silent(terminal):
        terminal.say("note: nothing arrived on standard input, which is ignored; a - waits for its end", "dim")
        return ""
    text = standard_input.read_text(terminal).strip()
    if text:
        lines = text.count("\n") + 1
        size = f"{counted(lines, 'line')}, {counted(len(text), 'character')}"
        terminal.say(f"standard input: {size} appended to the message (--no-stdin ignores it)", "dim")
    return text


async def _ask(
    chat: FlexChat,
    request: ChatRequest,
    asked: RequestOptions,
    context: CommandContext,
    keeping: Keeping,
    queued: Mapping[str, Any] | None,
    *,
    attachments: Sequence[str],
    folder: str | None,
    streamed: bool,
    part: Callable[[str], str] | None,
    in_full: bool,
) -> int:
    terminal = context.terminal
    async with contextlib.AsyncExitStack() as closing:
        await closing.enter_async_context(chat)
        if attachments:
            request = attrs.evolve(request, attachments=await read_attachments(attachments, chat, terminal))
        kept = await open_kept(chat, context, keeping, by_default=is_logged(context))
        if kept is not None:
            closing.push_async_callback(kept.aclose)
            asked |= kept.options
        if queued is not None:
            if kept is None:
                raise UsageError("a turn that runs later is kept: leave out --no-keep")
            id = await chat.submit(request, **queued, **asked)
            terminal.json({"turn": id, **kept.options}) if context.json else terminal.out(id)
            return OK
        person = Questions(terminal, keeps=kept is not None and chat.questions_expire_s > 0)
        asked |= {"on_question": person}
        if context.json:
            turn = await chat.respond(request, **asked)
            terminal.json(turn.to_dict())
        else:
            events = chat.stream(request, is_whole=not streamed or part is not None, **asked)
            turn = await show_turn(events, terminal, streamed=streamed, part=part, in_full=in_full, person=person)
    write_media(turn, folder, terminal)
    return report_pending(turn, terminal, person)


def _save(
    context: CommandContext, name: str, message: Sequence[str], answering: Answering, variables: Mapping[str, Any]
) -> None:
    from .prompts import save_prompt

    if answering.prompt is not None or answering.functions:
        raise UsageError("--save takes neither -t nor --functions: it makes a prompt of what is typed")
    table = {
        "prompt": " ".join(message),
        "system": answering.system,
        "model": answering.named_model,
        "tools": list(answering.tools),
        "options": dict(answering.options),
        "schema": answering.schema,
        "variables": dict(variables),
    }
    table = {key: value for key, value in table.items() if value}
    if not table:
        raise UsageError("--save needs a message, or options to save: -s, -m, -T, -o, --schema")
    file = save_prompt(context, name, table)
    context.terminal.say(f"saved in {file}: flexchat ask -t {name}", "dim")


def first_block(text: str) -> str:
    """Extract the first fenced block of a Markdown text; the text if it has none. An open fence ends at the end.

    The indentation of the fence, as in a list, is removed from each line of the block.
    """
    match = _FENCE.search(text)
    if match is None:
        return text
    indent, fence = match.groups()
    end = re.compile(rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE).search(text, match.end())
    block = text[match.end() : end.start() if end else None]
    if indent:
        block = re.sub(rf"^[ \t]{{1,{len(indent)}}}", "", block, flags=re.MULTILINE)
    return block.rstrip("\r\n")


QUESTION = "What is 17% of 230, and what time is it in Tokyo?"
NEXT_STEP = (
    "The tools ran for real, the model is a rehearsal. "
    "A real one: flexchat init openai (or: ollama, gemini, anthropic, local)"
)
_INDENT = "       "


@command
@argument("message", nargs=-1, type=TEXT, help=f"your own question, instead of: {QUESTION}")
def demo(context: CommandContext, message: tuple[str, ...]) -> None:
    """See a turn with tool calls; needs no key.

    The rehearsal model answers, with the installed tools; --config shows a turn of your configuration.
    """
    if context.config:
        chat = context.open_chat()
    else:
        host = context.installed_plugins()
        chat = FlexChat.from_config(zero_config(host), plugins=host)
    asyncio.run(_show(chat, " ".join(message) or QUESTION, context))


async def _show(chat: FlexChat, question: str, context: CommandContext) -> None:
    terminal = context.terminal

    def step(text: str, style: Style) -> None:
        terminal.out(_INDENT + text, style)

    async with chat:
        if context.json:
            terminal.json((await chat.respond(question)).to_dict())
            return
        terminal.out(f"You:   {question}", "bold")
        transcript = Transcript(terminal, step, streamed=False)
        async with contextlib.aclosing(chat.stream(question)) as events:
            async for event in events:
                if isinstance(event, TurnFinished):
                    answer = event.turn.content.replace("\n", f"\n{_INDENT}")
                    terminal.out(f"Model: {answer}")
                else:
                    transcript.show(event)
    if not context.config:
        terminal.out()
        terminal.out(NEXT_STEP)
