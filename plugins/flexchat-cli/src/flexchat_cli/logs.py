"""flexchat logs: the last questions and answers of all kept conversations."""

from __future__ import annotations

from typing import Any

import click
from flexchat.conversations.export import to_the_minute
from flexchat.conversations.view import Conversations
from flexchat.domain import ConversationInfo, ConversationTurn, UserMessage
from flexchat.domain.text import counted

from .context import CommandContext
from .conversations_store import (
    complete_conversation,
    every,
    find_conversation,
    open_conversations,
    short_id,
    tenant_option,
)
from .model_names import saved_names
from .parameters import TEXT, limit_option, run_async
from .usage import UsageError


@click.command
@limit_option(3, "-n", "--limit", "--count", noun=" of turns")
@click.option("-r", "--response", is_flag=True, help="print the last answer, and nothing else")
@click.option(
    "--conversation",
    metavar="ID",
    shell_complete=complete_conversation,
    help="only this conversation; the start of its id is enough",
)
@click.option("-q", "--search", metavar="WORDS", type=TEXT, help="only turns that contain all these words")
@click.option("-m", "--model", metavar="NAME", help="only turns that this model answered: LLM/MODEL, or one of the two")
@tenant_option
@click.pass_obj
@run_async
async def logs(
    context: CommandContext,
    limit: int,
    response: bool,
    conversation: str | None,
    search: str | None,
    model: str | None,
    tenant: str,
) -> None:
    """Print the last turns of kept conversations.

    The newest one comes last, as in a conversation.
    """
    if conversation is not None and search is not None:
        raise UsageError("--conversation names one conversation, --search looks in all: use only one of them")
    limit = 1 if response else limit
    async with open_conversations(context, tenant) as conversations:
        if conversation is not None:
            info = await find_conversation(conversations, conversation)
            turns = await conversations.turns(info.id, last=limit if model is None else None)
            entries = [(info, turn) for turn in turns if _is_of(turn, model)][-limit:]
        else:
            entries = await _last(conversations, limit, search, model)
    terminal = context.terminal
    if context.json:
        terminal.json([_as_data(info, turn) for info, turn in entries])
        return
    if not entries:
        which = (" that contains these words" if search else "") + (" of this model" if model else "")
        terminal.say(f"no turn is kept{which}", "dim")
    for number, (info, turn) in enumerate(entries):
        if response:
            terminal.out(turn.answer)
            continue
        if number:
            terminal.out()
        tokens = sum(count or 0 for count in (turn.usage.input_tokens, turn.usage.output_tokens)) if turn.usage else 0
        about = [f"{turn.llm}/{turn.model}", *([counted(tokens, "token")] if tokens else [])]
        ended = "" if turn.status == "done" else f", {turn.status}"
        terminal.out(f"{to_the_minute(turn.at)}  {short_id(info)}  {', '.join(about)}{ended}", "dim")
        terminal.out(f"> {_user_message(turn)}", "bold")
        terminal.write_markdown(turn.answer or turn.error)
        terminal.end_line()


async def _last(
    conversations: Conversations, limit: int, search: str | None, model: str | None
) -> list[tuple[ConversationInfo, ConversationTurn]]:
    """Return the newest turns, oldest first. A conversation last used before all of them cannot have one of them."""
    entries: list[tuple[ConversationInfo, ConversationTurn]] = []
    async for info in every(conversations, search):
        if len(entries) == limit and info.used_at < entries[0][1].at:
            break
        turns = await conversations.turns(info.id, last=limit if search is None and model is None else None)
        entries += [(info, turn) for turn in turns if _has_words(turn, search or "") and _is_of(turn, model)]
        entries = sorted(entries, key=lambda pair: pair[1].at)[-limit:]
    return entries


def _has_words(turn: ConversationTurn, words: str) -> bool:
    """Return whether a turn contains all these words; the store's search knows only which conversations do."""
    text = turn.text.casefold()
    return all(word in text for word in words.casefold().split())


def _is_of(turn: ConversationTurn, model: str | None) -> bool:
    """Return whether *model*, with or without its llm, or the model of that alias, answered a turn."""
    if model is None:
        return True
    full_model = saved_names().aliases.get(model, model)
    return full_model in (turn.llm, turn.model, f"{turn.llm}/{turn.model}")


def _user_message(turn: ConversationTurn) -> str:
    return next((message.content for message in turn.messages if isinstance(message, UserMessage)), "")


def _as_data(info: ConversationInfo, turn: ConversationTurn) -> dict[str, Any]:
    return {
        "conversation": info.id,
        "turn": turn.id,
        "at": turn.at,
        "status": turn.status,
        "message": _user_message(turn),
        "answer": turn.answer,
        "error": turn.error or None,
        "llm": turn.llm,
        "model": turn.model,
        "usage": turn.usage.to_dict() if turn.usage else None,
    }
