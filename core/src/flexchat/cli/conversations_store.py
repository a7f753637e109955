"""Kept conversations for commands: where they are, which one is meant, and how turns are kept."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator

from ..app import FlexChat
from ..conversations.view import Conversations
from ..domain import DEFAULT_TENANT, ChatRequest, ConversationInfo, StreamEvent, Turn
from ..errors import ConfigError, UnknownConversationError
from ..plugin.contracts import ConversationStore
from ..plugin.host import PluginHost
from ..turn.keeping import new_conversation_id
from .opening import load_plugins, the_config
from .terminal import one_line
from .usage import UsageError

_PAGE = 200
_SHORT_ID = 8


def add_keeping_arguments(parser: argparse.ArgumentParser, kept: str) -> None:
    """Add the options of commands whose turns may be kept; ``kept`` describes the default."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="go_on", action="store_true", help="continue the last conversation")
    which.add_argument("--conversation", metavar="ID", help="continue this one; the start of its id is enough")
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, help=f"keep the conversation or not ({kept})")
    add_tenant_argument(parser)


def add_tenant_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that says whose conversations are meant."""
    parser.add_argument("--tenant", metavar="NAME", default=DEFAULT_TENANT, help="whose conversations to use")


def conversation_store(args: argparse.Namespace) -> tuple[ConversationStore, bool]:
    """Return the configured store, or the default one, and whether one is configured.

    Raises:
        ConfigError: The table [conversations] has problems; the rest of the configuration does not matter.
    """
    from ..conversations.opening import open_conversations  # imports sqlite3: not every command needs it
    from ..conversations.sqlite_store import SqliteSettings, sqlite_conversations

    known = the_config(args)
    if known is not None:
        from ..config.reading import read_config

        config = read_config(known)
        table = config.document.data.get("conversations")
        if table is not None:
            foreign = isinstance(table, dict) and table.get("provider", "sqlite") != "sqlite"
            store = open_conversations(config, load_plugins(args, config) if foreign else PluginHost())
            if store is not None:
                return store, True
            raise ConfigError([problem for problem in config.problems if problem.path.startswith("conversations")])
    return sqlite_conversations(SqliteSettings(), None), False


def short_id(info: ConversationInfo) -> str:
    """Return the start of a conversation's id, enough to name it; ids chosen by the user are not shortened."""
    return info.id[:_SHORT_ID] if len(info.id) == len(new_conversation_id()) else info.id


async def find(conversations: Conversations, id: str) -> ConversationInfo:
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
        chat.keep_in(conversations.store)
        self._id = continued.id if continued else new_conversation_id()

    async def respond(self, message: str | ChatRequest) -> Turn:
        """Answer a message and keep the turn."""
        return await self._chat.respond(message, conversation=self._id, tenant=self._conversations.tenant)

    def stream(self, message: str | ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message piece by piece; with its last event the turn is kept."""
        return self._chat.stream(message, conversation=self._id, tenant=self._conversations.tenant)

    def begin(self) -> None:
        """Start another conversation with the next message."""
        self._id = new_conversation_id()

    async def aclose(self) -> None:
        """Close the store."""
        await self._conversations.store.aclose()


async def open_kept(chat: FlexChat, args: argparse.Namespace, *, by_default: bool) -> KeptChat | None:
    """Return the chat with its turns kept as the options say; None if nothing is to be kept.

    Args:
        by_default: Whether turns are kept if neither the options nor the configuration say so.

    Raises:
        UsageError: The options contradict each other.
        UnknownConversationError, StorageError: The conversation cannot be continued.
    """
    asked = args.go_on or args.conversation is not None or args.keep
    if args.keep is False:
        if args.go_on or args.conversation is not None:
            raise UsageError("a continued conversation is kept: leave out --no-keep")
        return None
    store, configured = conversation_store(args)
    try:
        if not (asked or configured or by_default):
            await store.aclose()
            return None
        conversations = Conversations(store, args.tenant)
        continued = None
        if args.conversation is not None:
            continued = await find(conversations, args.conversation)
        else:  # even for a new one: report an unusable store before the first answer
            last = await conversations.list(limit=1)
            if args.go_on:
                continued = last[0] if last else None
        kept = KeptChat(chat, conversations, continued)
        if continued is not None and (journal := getattr(store, "journal", None)) is not None:
            kept.waiting = tuple(await journal.waiting(continued.id, tenant=args.tenant))
        return kept
    except BaseException:
        await store.aclose()
        raise


def say_continued(kept: KeptChat, args: argparse.Namespace) -> None:
    """Report on standard error which conversation is continued, if that was requested."""
    if kept.continued is not None:
        turns = "1 turn" if kept.continued.turns == 1 else f"{kept.continued.turns} turns"
        title = one_line(kept.continued.title, 60)
        args.terminal.say(f"continuing {short_id(kept.continued)} ({turns}): {title}", "dim")
        for id in kept.waiting:
            text = f"its turn {id[:_SHORT_ID]} was interrupted: the next message ends it; or: flexchat turns resume"
            args.terminal.say(text, "dim")
    elif args.go_on:
        args.terminal.say("no conversation is kept yet: starting a new one", "dim")
