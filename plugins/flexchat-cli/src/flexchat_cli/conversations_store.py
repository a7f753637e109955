"""Kept conversations for commands: where they are, which one is meant, and how turns are kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import click
from flexchat.conversations.view import Conversations
from flexchat.domain import DEFAULT_TENANT, ConversationInfo, ConversationTurn
from flexchat.domain.journal import UNFINISHED, JournaledTurn
from flexchat.domain.text import counted
from flexchat.errors import ConfigError, PathError, StorageError, UnknownConversationError
from flexchat.turn.recording import new_conversation_id

from .context import CommandContext, UsageError
from .parameters import Command, option_group
from .terminal import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from flexchat.app import FlexChat
    from flexchat.plugin.contracts import ConversationStore, TurnJournal
    from flexchat.plugin.host import PluginHost
    from flexchat.request import RequestOptions

NO_KEEP = "FLEXCHAT_NO_KEEP"
"""The variable with which nothing is kept unless an option or the configuration requests it."""

_PAGE = 200
SHORT_ID = 8
"""Characters of an id that are shown, and enough to name it."""


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

    def __attrs_post_init__(self) -> None:
        if self.go_on and self.conversation is not None:
            raise UsageError("-c continues the last conversation, --conversation another: use only one of them")
        if self.keep is False and self.is_continuing:
            raise UsageError("a continued conversation is kept: leave out --no-keep")

    @property
    def is_continuing(self) -> bool:
        """Whether an option names a conversation to continue."""
        return self.go_on or self.conversation is not None

    @property
    def is_requested(self) -> bool:
        """Whether an option asks for a stored conversation."""
        return bool(self.is_continuing or self.keep)


tenant_option = click.option(
    "--tenant", metavar="NAME", default=DEFAULT_TENANT, help="whose conversations to use", show_default=False
)
"""The option that names the owner of the conversations."""


def complete_conversation(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the conversations whose ids begin like this, for a shell."""
    from click.shell_completion import CompletionItem

    async def complete() -> list[CompletionItem]:
        async with open_conversations(ctx.obj, ctx.params.get("tenant") or DEFAULT_TENANT) as conversations:
            infos = await conversations.list(limit=_PAGE)
        return [CompletionItem(short_id(info), help=info.title) for info in infos if info.id.startswith(incomplete)]

    return asyncio.run(complete())


def keeping_options(default: str) -> Callable[[Command], Command]:
    """Add the options of commands whose turns may be kept; the command receives them as ``keeping``.

    Args:
        default: When turns are kept without an option, for the help.
    """
    return option_group(
        "keeping",
        Keeping,
        click.option("-c", "--continue", "go_on", is_flag=True, help="continue the last conversation"),
        click.option(
            "--conversation",
            metavar="ID",
            shell_complete=complete_conversation,
            help="continue this one; the start of its id is enough",
        ),
        click.option(
            "--keep/--no-keep", " /-n", " /--no-log", default=None, help=f"keep the conversation or not ({default})"
        ),
        tenant_option,
    )


def _sqlite_alone() -> PluginHost:
    """Return a host that has the default store only: loading all plugins takes longer than most of these commands."""
    from flexchat.plugin.host import PluginHost
    from flexchat_sqlite import plugin

    host = PluginHost()
    host.register(plugin, "sqlite")
    return host


def open_store(context: CommandContext) -> contextlib.aclosing[ConversationStore]:
    """Open the store of the conversations for a with statement, which closes it; see conversation_store."""
    return contextlib.aclosing(conversation_store(context))


@contextlib.asynccontextmanager
async def open_conversations(context: CommandContext, tenant: str) -> AsyncIterator[Conversations]:
    """Open the kept conversations of a tenant; see conversation_store."""
    async with open_store(context) as store:
        yield Conversations(store, tenant)


def conversation_store(context: CommandContext) -> ConversationStore:
    """Return the configured store, or the default one.

    Raises:
        ConfigError: The table [conversations] has problems; the rest of the configuration does not matter.
    """
    from flexchat.conversations import opening  # imports sqlite3: not every command needs it
    from flexchat_sqlite.plugin import SqliteSettings, create_conversations

    loaded = context.read_config()
    if loaded is not None:
        from flexchat.config.reading import read_config

        config = read_config(loaded)
        table = config.document.data.get("conversations")
        if table is not None:
            foreign = isinstance(table, dict) and table.get("provider", "sqlite") != "sqlite"
            store = opening.open_conversations(config, context.load_plugins(config) if foreign else _sqlite_alone())
            if store is not None:
                return store
            raise ConfigError([problem for problem in config.problems if problem.path.startswith("conversations")])
    return create_conversations(SqliteSettings(), None)


def short_id(info: ConversationInfo) -> str:
    """Return the start of a conversation's id, enough to name it; ids chosen by the user are not shortened."""
    return info.id[:SHORT_ID] if len(info.id) == len(new_conversation_id()) else info.id


async def find_conversation(
    conversations: Conversations, id: str, *, may_be_unfinished: bool = False
) -> ConversationInfo:
    """Return the conversation with this id, or the only one whose id starts with it.

    Args:
        may_be_unfinished: Whether it may be one whose first turn has not ended.

    Raises:
        UnknownConversationError: There is none.
        UsageError: There are several, or its first turn has not ended.
    """
    if not id:
        raise UnknownConversationError(id)
    try:
        return await conversations.get(id)
    except UnknownConversationError:
        infos = [info async for info in every(conversations) if info.id.startswith(id)]
        first_turns = [turn for turn in await unfinished_first_turns(conversations) if turn.conversation.startswith(id)]
        if not infos and not first_turns:
            raise
    infos += map(ConversationInfo.begun_by, first_turns)
    if len(infos) > 1:
        some = ", ".join(info.id for info in infos[:3]) + (", …" if len(infos) > 3 else "")
        raise UsageError(f"{len(infos)} conversations start with '{id}': {some}")
    for turn in () if may_be_unfinished else first_turns:
        raise UsageError(
            f"the first turn of '{infos[0].id}' has not ended ({turn.state}): flexchat turns show {turn.id[:SHORT_ID]}"
        )
    return infos[0]


async def unfinished_first_turns(conversations: Conversations, words: str = "") -> Sequence[JournaledTurn]:
    """Return the first turns of conversations that are not in the store yet, the newest first; see first_turns."""
    journal: TurnJournal | None = getattr(conversations.store, "journal", None)
    if journal is None:
        return []
    turns = await journal.list(tenant=conversations.tenant, states=UNFINISHED, limit=_PAGE)
    return await conversations.first_turns(turns, words)


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


class KeptConversation:
    """The conversation in which a chat keeps its turns, in the conversations' store.

    Attributes:
        continued: What is known about the conversation; None if it is new.
    """

    def __init__(self, chat: FlexChat, conversations: Conversations, continued: ConversationInfo | None) -> None:
        self.continued = continued
        self._conversations = conversations
        self._carried: tuple[ConversationTurn, ...] = ()
        self._id = continued.id if continued else new_conversation_id()
        self.continue_with(chat)

    @property
    def options(self) -> RequestOptions:
        """The options with which the chat keeps a turn in the conversation."""
        return {"conversation": self._id, "tenant": self._conversations.tenant}

    def continue_with(self, chat: FlexChat) -> None:
        """Keep another chat's turns as well, in the same conversation."""
        chat.keep_in(self._conversations.store)

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


def is_configured(context: CommandContext) -> bool:
    """Return whether the configuration keeps conversations."""
    return "conversations" in context.config_data()


def is_logged(context: CommandContext) -> bool:
    """Return whether a turn of ask is stored without an option."""
    table = context.config_data().get("conversations")
    if table is not None:
        return not isinstance(table, dict) or table.get("log", True) is not False
    return not context.demo and not os.environ.get(NO_KEEP)


async def _last_begun(
    conversations: Conversations, journal: TurnJournal, last: list[ConversationInfo]
) -> list[ConversationInfo]:
    """Return the last conversation, given the last one in which a turn has ended: its newest turn may not have."""
    for turn in await journal.list(tenant=conversations.tenant, states=UNFINISHED, limit=1):
        if not last or turn.began_at > last[0].used_at:
            try:
                return [await conversations.get(turn.conversation)]
            except UnknownConversationError:  # it is its first
                return [ConversationInfo.begun_by(turn)]
    return last


async def open_kept(
    chat: FlexChat, context: CommandContext, keeping: Keeping, *, by_default: bool
) -> KeptConversation | None:
    """Return the conversation that keeps the chat's turns according to the options; None if they are not kept.

    A conversation that is continued is reported on standard error; and so is a store that fails, if storing is only the
    default.

    Args:
        by_default: Whether turns are stored without an option.

    Raises:
        UnknownConversationError, StorageError: The conversation cannot be continued.
    """
    if keeping.keep is False or not (keeping.is_requested or by_default):
        return None
    try:
        async with contextlib.AsyncExitStack() as on_error:
            store = await on_error.enter_async_context(open_store(context))
            conversations = Conversations(store, keeping.tenant)
            if keeping.conversation is not None:
                last = [await find_conversation(conversations, keeping.conversation, may_be_unfinished=True)]
            else:  # even for a new one: report an unusable store before the first answer
                last = [*await conversations.list(limit=1)]
            journal = getattr(store, "journal", None) if keeping.is_continuing else None
            if keeping.go_on and journal is not None:
                last = await _last_begun(conversations, journal, last)
            continued = last[0] if last and keeping.is_continuing else None
            waiting = (
                await journal.list_interrupted(continued.id, tenant=keeping.tenant) if journal and continued else ()
            )
            on_error.pop_all()
    except (StorageError, PathError) as error:
        if keeping.is_requested or is_configured(context):
            raise
        context.terminal.say(f"note: this conversation is not kept: {error}", "dim")
        return None
    if continued is not None:
        turns, title = counted(continued.turns, "turn"), one_line(continued.title, 60)
        context.terminal.say(f"continuing {short_id(continued)} ({turns}): {title}", "dim")
    elif keeping.go_on:
        context.terminal.say("no conversation is kept yet: starting a new one", "dim")
    for id in waiting:
        text = f"its turn {id[:SHORT_ID]} has not ended, and a new message may end it; or: flexchat turns resume"
        context.terminal.say(text, "dim")
    return KeptConversation(chat, conversations, continued)
