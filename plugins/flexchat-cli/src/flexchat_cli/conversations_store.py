"""Kept conversations for commands: where they are, which one is meant, and how turns are kept."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import attrs
import click
from flexchat.conversations.view import Conversations
from flexchat.domain import DEFAULT_TENANT, ChatRequest, ConversationInfo, ConversationTurn, StreamEvent, Turn
from flexchat.errors import ConfigError, PathError, StorageError, UnknownConversationError
from flexchat.turn.keeping import new_conversation_id

from .context import CommandContext
from .terminal import one_line
from .usage import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from flexchat.app import FlexChat
    from flexchat.plugin.contracts import ConversationStore
    from flexchat.plugin.host import PluginHost
    from flexchat.request import Asked

NO_KEEP = "FLEXCHAT_NO_KEEP"
"""The variable that keeps nothing unless an option or the configuration says so."""

_PAGE = 200
_SHORT_ID = 8


@attrs.frozen(kw_only=True)
class Keeping:
    """The options about storing and continuing a conversation.

    Attributes:
        go_on: Whether to continue the last one (-c).
        conversation: The id, or a prefix of it, of the one to continue (--conversation).
        keep: Whether to store it (--keep, --no-keep); None without either option.
        tenant: The owner of the conversations.
    """

    go_on: bool = False
    conversation: str | None = None
    keep: bool | None = None
    tenant: str = DEFAULT_TENANT


def keeping_options(kept: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of commands whose turns may be kept; ``kept`` describes the default.

    The command gets them as ``keeping``.
    """
    options = (
        click.option("-c", "--continue", "go_on", is_flag=True, help="continue the last conversation"),
        click.option(
            "--conversation",
            metavar="ID",
            shell_complete=complete_conversation,
            help="continue this one; the start of its id is enough",
        ),
        click.option(
            "--keep/--no-keep", " /-n", " /--no-log", default=None, help=f"keep the conversation or not ({kept})"
        ),
        tenant_option,
    )

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_keeping(
            *args: Any, go_on: bool, conversation: str | None, keep: bool | None, tenant: str, **values: Any
        ) -> Any:
            if go_on and conversation is not None:
                raise UsageError("-c continues the last conversation, --conversation another: use only one of them")
            keeping = Keeping(go_on=go_on, conversation=conversation, keep=keep, tenant=tenant)
            return command(*args, keeping=keeping, **values)

        return functools.reduce(lambda done, option: option(done), reversed(options), with_keeping)

    return added


tenant_option = click.option(
    "--tenant", metavar="NAME", default=DEFAULT_TENANT, help="whose conversations to use", show_default=False
)
"""The option that names the owner of the conversations."""


def complete_conversation(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the conversations whose ids begin like this, for a shell."""
    from click.shell_completion import CompletionItem

    async def list_recent() -> list[ConversationInfo]:
        store, _ = conversation_store(ctx.obj)
        try:
            return [*await Conversations(store, ctx.params.get("tenant") or DEFAULT_TENANT).list(limit=_PAGE)]
        finally:
            await store.aclose()

    return [
        CompletionItem(short_id(info), help=info.title)
        for info in asyncio.run(list_recent())
        if info.id.startswith(incomplete)
    ]


def _sqlite_alone() -> PluginHost:
    """Return a host that has the default store only: loading all plugins takes longer than most of these commands."""
    from flexchat.plugin.host import PluginHost
    from flexchat_sqlite import plugin

    host = PluginHost()
    host.register(plugin, "sqlite")
    return host


def conversation_store(context: CommandContext) -> tuple[ConversationStore, bool]:
    """Return the configured store, or the default one, and whether one is configured.

    Raises:
        ConfigError: The table [conversations] has problems; the rest of the configuration does not matter.
    """
    from flexchat.conversations.opening import open_conversations  # imports sqlite3: not every command needs it
    from flexchat_sqlite.config import SqliteSettings
    from flexchat_sqlite.conversations import sqlite_conversations

    known = context.read_config()
    if known is not None:
        from flexchat.config.reading import read_config

        config = read_config(known)
        table = config.document.data.get("conversations")
        if table is not None:
            foreign = isinstance(table, dict) and table.get("provider", "sqlite") != "sqlite"
            store = open_conversations(config, context.load_plugins(config) if foreign else _sqlite_alone())
            if store is not None:
                return store, True
            raise ConfigError([problem for problem in config.problems if problem.path.startswith("conversations")])
    return sqlite_conversations(SqliteSettings(), None), False


def short_id(info: ConversationInfo) -> str:
    """Return the start of a conversation's id, enough to name it; ids chosen by the user are not shortened."""
    return info.id[:_SHORT_ID] if len(info.id) == len(new_conversation_id()) else info.id


async def find_conversation(conversations: Conversations, id: str) -> ConversationInfo:
    """Return the conversation with this id, or the only one whose id starts with it.

    Raises:
        UnknownConversationError: There is none.
        UsageError: There are several.
    """
    if not id:
        raise UnknownConversationError(id)
    try:
        return await conversations.get(id)
    except UnknownConversationError:
        found = [info async for info in every(conversations) if info.id.startswith(id)]
        if not found:
            raise
    if len(found) > 1:
        some = ", ".join(info.id for info in found[:3]) + (", …" if len(found) > 3 else "")
        raise UsageError(f"{len(found)} conversations start with '{id}': {some}")
    return found[0]


async def every(conversations: Conversations, search: str | None = None) -> AsyncGenerator[ConversationInfo, None]:
    """Yield all conversations, most recently used first."""
    before = None
    while True:
        page = await conversations.search(search or "", limit=_PAGE, before=before)
        for info in page:
            yield info
        if len(page) < _PAGE:
            return
        before = page[-1].id


class KeptChat:
    """A chat whose turns are kept in a conversation, in the conversations' store.

    Attributes:
        continued: What is known about the conversation; None if it is new.
        waiting: Ids of its turns that were interrupted.
    """

    def __init__(self, chat: FlexChat, conversations: Conversations, continued: ConversationInfo | None) -> None:
        self.continued = continued
        self.waiting: tuple[str, ...] = ()
        self._chat = chat
        self._conversations = conversations
        self._carried: tuple[ConversationTurn, ...] = ()
        chat.keep_in(conversations.store)
        self._id = continued.id if continued else new_conversation_id()

    async def respond(self, message: str | ChatRequest, **asked: Unpack[Asked]) -> Turn:
        """Answer a message and keep the turn."""
        return await self._chat.respond(message, **{**asked, **self._slot})

    def stream(
        self, message: str | ChatRequest, *, is_whole: bool = False, **asked: Unpack[Asked]
    ) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message piece by piece; the turn is stored with its last event."""
        return self._chat.stream(message, is_whole=is_whole, **{**asked, **self._slot})

    @property
    def _slot(self) -> Any:
        return {"conversation": self._id, "tenant": self._conversations.tenant}

    def continue_with(self, chat: FlexChat) -> None:
        """Answer with another chat from now on, in the same conversation."""
        chat.keep_in(self._conversations.store)
        self._chat = chat

    def begin(self) -> None:
        """Start another conversation with the next message."""
        self._id, self._carried = new_conversation_id(), ()

    async def take_back(self) -> ConversationTurn | None:
        """Continue in a copy of the conversation without its last turn; the original stays unchanged.

        Returns:
            The last turn; None if there is none.

        Raises:
            StorageError: The store cannot be read.
        """
        turns: Sequence[ConversationTurn] = self._carried
        if not turns:
            with contextlib.suppress(UnknownConversationError):
                turns = await self._conversations.turns(self._id)
        if not turns:
            return None
        self.begin()
        self._carried = tuple(turns[:-1])
        return turns[-1]

    async def carry(self) -> None:
        """Write down the turns that go along after take_back; call it before a message is answered.

        Raises:
            StorageError: The store cannot be written.
        """
        for turn in self._carried:
            await self._conversations.store.append(self._id, turn, tenant=self._conversations.tenant)
        self._carried = ()

    async def aclose(self) -> None:
        """Close the store."""
        await self._conversations.store.aclose()


async def open_kept(chat: FlexChat, context: CommandContext, keeping: Keeping, *, by_default: bool) -> KeptChat | None:
    """Return the chat with its turns stored according to the options; None if they are not to be stored.

    Args:
        by_default: Whether turns are stored without an option.

    Raises:
        UsageError: The options contradict each other.
        UnknownConversationError, StorageError: The conversation cannot be continued.
    """
    asked = keeping.go_on or keeping.conversation is not None or keeping.keep
    if keeping.keep is False:
        if keeping.go_on or keeping.conversation is not None:
            raise UsageError("a continued conversation is kept: leave out --no-keep")
        return None
    store, _ = conversation_store(context)
    try:
        if not (asked or by_default):
            await store.aclose()
            return None
        conversations = Conversations(store, keeping.tenant)
        continued = None
        if keeping.conversation is not None:
            continued = await find_conversation(conversations, keeping.conversation)
        else:  # even for a new one: report an unusable store before the first answer
            last = await conversations.list(limit=1)
            if keeping.go_on:
                continued = last[0] if last else None
        kept = KeptChat(chat, conversations, continued)
        if continued is not None and (journal := getattr(store, "journal", None)) is not None:
            kept.waiting = tuple(await journal.waiting(continued.id, tenant=keeping.tenant))
        return kept
    except BaseException:
        await store.aclose()
        raise


def is_configured(context: CommandContext) -> bool:
    """Return whether the configuration keeps conversations."""
    config = context.read_config()
    return config is not None and "conversations" in config.document.data


def is_logged(context: CommandContext) -> bool:
    """Return whether a turn of ask is stored without an option."""
    config = context.read_config()
    table = config.document.data.get("conversations") if config is not None else None
    if table is not None:
        return not isinstance(table, dict) or table.get("log", True) is not False
    return not context.demo and not os.environ.get(NO_KEEP)


async def open_or_note(
    chat: FlexChat, context: CommandContext, keeping: Keeping, *, by_default: bool
) -> KeptChat | None:
    """Open the chat as open_kept does; if storing is only the default, a failing store is reported as a note."""
    try:
        return await open_kept(chat, context, keeping, by_default=by_default)
    except (StorageError, PathError) as error:
        asked = keeping.keep or keeping.go_on or keeping.conversation is not None
        if asked or is_configured(context):
            raise
        context.terminal.say(f"note: this conversation is not kept: {error}", "dim")
        return None


def say_continued(kept: KeptChat, context: CommandContext, keeping: Keeping) -> None:
    """Report on standard error which conversation is continued, if that was requested."""
    if kept.continued is not None:
        turns = "1 turn" if kept.continued.turns == 1 else f"{kept.continued.turns} turns"
        title = one_line(kept.continued.title, 60)
        context.terminal.say(f"continuing {short_id(kept.continued)} ({turns}): {title}", "dim")
        for id in kept.waiting:
            text = f"its turn {id[:_SHORT_ID]} was interrupted: the next message ends it; or: flexchat turns resume"
            context.terminal.say(text, "dim")
    elif keeping.go_on:
        context.terminal.say("no conversation is kept yet: starting a new one", "dim")
