"""flexchat approvals …: the questions that wait for a reply, the replies, and the approvals that count again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import click
import flexchat_cli as cli
from flexchat import FlexChat, Turn, TurnNotWaitingError, UnknownQuestionError, UnknownTurnError
from flexchat.host import json_error_message, visible
from flexchat.plugin import Question, Reply
from flexchat.store import PendingQuestion, TurnJournal
from flexchat_cli import CommandContext, UsageError

from ..questions import counts_again

_SHORT_ID = 13  # characters of an id that are shown, and enough to name it: call_ and 8 more
_KEPT_S = 7 * 24 * 3600.0
_SCOPES = {"": "once per conversation", "conversation": "in its conversation", "always": "for its tenant"}

_id = cli.argument("id", metavar="ID", help="its id, or the start of it")


@cli.command
@click.option("--all", "is_all", is_flag=True, help="also those that are closed")
@cli.limit_option(50)
@cli.tenant_option
async def list_(context: CommandContext, is_all: bool, limit: int, tenant: str) -> None:
    """List the questions that wait for a reply, the newest first, with all arguments."""
    async with _open_journal(context) as journal:
        questions = await journal.questions(tenant=tenant, states=None if is_all else ("open",), limit=limit)
    if context.json or not questions:
        context.show([each.to_dict() for each in questions], "no question waits for a reply")
        return
    for each in questions:
        state = f"expires {_minute(each.expires_at)}" if each.state == "open" else _state_of(each)
        kind = each.question.details.get("policy") or each.question.tool
        context.terminal.out(f"{each.id[:_SHORT_ID]}  {_minute(each.asked_at)}  {state}  {visible(str(kind))}", "dim")
        context.terminal.out(f"  {visible(each.question.message)}")
    if any(each.state == "open" for each in questions):
        context.terminal.say("to reply: flexchat approvals approve ID, or reject ID", "dim")


@cli.command
@_id
@cli.tenant_option
async def show(context: CommandContext, id: str, tenant: str) -> None:
    """Print a question with all arguments, and its reply if it has one."""
    async with _open_journal(context) as journal:
        pending = await journal.question(id, tenant=tenant)
    terminal = context.terminal
    if context.json:
        terminal.json(pending.to_dict())
        return
    details = pending.question.details
    names = ("tool", "source", "policy", "rule", "effect", "origin")
    terminal.fields([("id", pending.id), ("state", _state_of(pending)), ("question", pending.question.message)])
    terminal.fields((name, details.get(name) or (pending.question.tool if name == "tool" else "")) for name in names)
    terminal.fields([("asked", pending.asked_at), ("expires", pending.expires_at), ("replied", pending.replied_at)])
    terminal.fields([("used by", pending.used_by), ("conversation", pending.conversation), ("turn", pending.turn)])
    if pending.reply is not None:
        terminal.fields([("reply", pending.reply.action), ("reason", pending.reply.why)])
        _print_json(context, "replied with", pending.reply.content)
    _print_json(context, "arguments", details.get("arguments"))
    if not pending.question.digest:
        _print_json(context, "--answer", pending.question.schema)


@cli.command
@_id
@click.option("--edit", metavar="JSON", type=cli.TEXT, help="other arguments, which are asked about again")
@click.option("--answer", metavar="JSON", type=cli.TEXT, help="the answer to a question that is no approval")
@click.option(
    "--remember",
    type=click.Choice(["conversation", "always"]),
    help="approve this tool with these arguments in this conversation, or always for this tenant",
)
@click.option("--note", metavar="TEXT", type=cli.TEXT, help="a remark, for the record of the call")
@click.option("--no-wait", is_flag=True, help="let another process go on with the turn")
@cli.tenant_option
async def approve(
    context: CommandContext,
    id: str,
    edit: str | None,
    answer: str | None,
    remember: Literal["conversation", "always"] | None,
    note: str | None,
    no_wait: bool,
    tenant: str,
) -> int:
    """Let a call run, once, go on with its turn here, and print the answer."""
    content: dict[str, Any] = {"arguments": _object("--edit", edit)} if edit is not None else {}
    content |= {"note": note} if note is not None else {}
    if edit is not None and (answer is not None or remember is not None):
        raise UsageError("--edit approves nothing yet, since the edited call is asked about again: use it alone")
    if answer is not None:
        content |= _object("--answer", answer)
    reply = Reply(action="accept", content=content, remember=remember or "")
    return await _reply(context, id, reply, no_wait, tenant, is_edit=edit is not None)


@cli.command
@_id
@click.option("--reason", metavar="TEXT", type=cli.TEXT, default="", help="why; the model reads it")
@click.option("--no-wait", is_flag=True, help="let another process go on with the turn")
@cli.tenant_option
async def reject(context: CommandContext, id: str, reason: str, no_wait: bool, tenant: str) -> int:
    """Refuse a call, go on with its turn here, and print the answer."""
    return await _reply(context, id, Reply(action="decline", why=reason), no_wait, tenant)


@cli.command
@cli.limit_option(50)
@cli.tenant_option
async def rules_list(context: CommandContext, limit: int, tenant: str) -> None:
    """List the approvals that count again, the newest first."""
    async with _open_journal(context) as journal:
        rows = [row for row in await journal.questions(tenant=tenant, remembered="", limit=limit) if counts_again(row)]
    table_rows = []
    for row in rows:
        scope = next((name for name, key in row.question.remember.items() if key == row.remembered), "")
        what = row.question.tool if scope == "" else visible(row.question.message) or row.question.tool
        where = f" ({row.conversation})" if scope != "always" and row.conversation else ""
        table_rows.append(
            (row.id[:_SHORT_ID], _minute(row.replied_at), row.replied_by, _SCOPES.get(scope, scope), what + where)
        )
    data = [row.to_dict() for row in rows]
    context.show_rows(data, ("id", "since", "by", "counts", "call"), table_rows, "no approval counts again")
    if rows and not context.json:
        context.terminal.say("to end one: flexchat approvals rules revoke ID", "dim")


@cli.command
@_id
@cli.tenant_option
async def rules_revoke(context: CommandContext, id: str, tenant: str) -> None:
    """End an approval that counts again: such calls are asked about from now on."""
    async with _open_journal(context) as journal:
        try:
            pending = await journal.question(id, tenant=tenant)
        except UnknownQuestionError as error:
            problem = str(error).partition(" (")[0]
            raise UsageError(f"{problem}; flexchat approvals rules list shows what counts again") from None
        if not pending.remembered:
            raise UsageError(f"the reply to '{pending.id[:_SHORT_ID]}' does not count again")
        revoked = await journal.revoke(pending.id, tenant=tenant)
    context.show(revoked.to_dict(), f"{revoked.id[:_SHORT_ID]} is revoked; calls that are running are not stopped")


async def _reply(
    context: CommandContext, id: str, reply: Reply, no_wait: bool, tenant: str, *, is_edit: bool = False
) -> int:
    terminal, turn = context.terminal, None
    async with _open_chat(context) as chat:
        pending = await chat.question(id, tenant=tenant)
        id = pending.id
        if is_edit and not pending.question.digest:
            raise UsageError(f"--edit: {id[:_SHORT_ID]} is no approval, so there is nothing to edit; see --answer")
        await chat.answer(id, reply, by=cli.user_name(), tenant=tenant, resume=False)
        pending = await chat.question(id, tenant=tenant)
        verb = _verb_of(pending.question, reply)
        then = "a process that runs such turns goes on with it"
        if not no_wait:
            terminal.say(f"{id[:_SHORT_ID]} is {verb}", "dim")  # on the disk: now only the turn can fail
            person = cli.Questions(terminal, keeps=True)
            try:
                turn = await chat.resume(pending.turn, tenant=tenant, on_question=person)
            except (TurnNotWaitingError, UnknownTurnError):
                then = "the process that runs its turn goes on"
            pending = await chat.question(id, tenant=tenant)
    if context.json:
        terminal.json({"question": pending.to_dict(), "turn": turn.to_dict() if turn is not None else None})
    elif turn is not None:
        _print_turn(context, turn)
    else:
        terminal.say(f"{id[:_SHORT_ID]} is {verb}; {then}", "dim")
    return cli.PENDING if turn is not None and turn.pending else cli.OK


def _print_turn(context: CommandContext, turn: Turn) -> None:
    terminal = context.terminal
    for record in () if turn.pending else turn.failed_calls:
        terminal.say(f"{record.tool}: {record.result.explained()}", "dim")
    if turn.content:
        terminal.out(turn.content)
    for each in turn.pending:
        terminal.say(f"its turn waits for another reply: {visible(each.question.message)}")
        terminal.say(f"  flexchat approvals approve {each.id[:_SHORT_ID]}, or reject {each.id[:_SHORT_ID]}", "dim")


@contextlib.asynccontextmanager
async def _open_journal(context: CommandContext) -> AsyncIterator[TurnJournal]:
    async with contextlib.aclosing(cli.conversation_store(context)) as store:
        journal = getattr(store, "journal", None)
        if journal is None:
            raise UsageError("the store of the conversations keeps no journal of turns, and so no questions")
        yield journal


@contextlib.asynccontextmanager
async def _open_chat(context: CommandContext) -> AsyncIterator[FlexChat]:
    chat = context.open_chat()
    async with contextlib.aclosing(cli.conversation_store(context)) as store, chat:
        chat.keep_in(store)
        # The turn was suspended, so that its next question must be able to wait as well.
        chat.questions_expire_s = chat.questions_expire_s or _KEPT_S
        yield chat


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        why = json_error_message(error) if isinstance(error, json.JSONDecodeError) else str(error)
        raise UsageError(f"{option} is no JSON: {why}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{option} must be a JSON object, such as '{{\"amount\": 5}}'")
    return value


def _print_json(context: CommandContext, name: str, data: Any) -> None:
    """Print data in full, invisible characters escaped."""
    if data:
        context.terminal.out(f"{name}:")
        for line in json.dumps(data, ensure_ascii=False, indent=2).split("\n"):
            context.terminal.out(f"  {visible(line)}")


def _state_of(pending: PendingQuestion) -> str:
    if pending.state != "replied" or pending.reply is None:
        return pending.state
    return f"{_verb_of(pending.question, pending.reply)} by {pending.replied_by or 'the user'}"


def _verb_of(question: Question, reply: Reply) -> str:
    if reply.action != "accept":
        return "rejected" if reply.action == "decline" else "closed"
    if not question.digest:
        return "answered"
    return "edited" if "arguments" in reply.content else "approved"


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")
