"""The tools and plugins that scenes share."""

from __future__ import annotations

import asyncio

import attrs
from flexchat import Document, ToolResult, UnknownConversationError, tool
from flexchat.plugin import hookimpl
from flexchat.store import Collection, ConversationStoreType, DocumentStoreType, RetrievalHits

from .recording import HANG, Streaming


@tool(effect="read")
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(effect="read")
async def fails(text: str) -> str:
    """Fail."""
    raise ValueError(f"cannot: {text}")


@tool(effect="write")
async def save(text: str) -> str:
    """Keep it."""
    return "saved"


@tool(effect="read")
def think(text: str) -> str:
    """Run in a thread."""
    return text


def racing():
    """Two tools of which the one that is called second ends first."""
    ended = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """End second."""
        await ended.wait()
        return "slow"

    @tool(effect="read")
    async def quick() -> str:
        """End first."""
        ended.set()
        return "quick"

    return [slow, quick]


def hanging(stage):
    """A tool that never ends."""

    @tool(effect="write")
    async def hangs() -> str:
        """Never end."""
        await stage.hang()

    return hangs


class Gate:
    """Refuses the tool echo with a sentence."""

    @hookimpl
    def flexchat_before_tool_call(self, tool):
        return ToolResult.failed(tool.name, "not today") if tool.name == "echo" else None


class Serving:
    """Answers in the tool's place."""

    @hookimpl
    async def flexchat_before_tool_call(self, tool):
        return ToolResult(success=True, tool_name=tool.name, result="from the gate")


class BrokenGate:
    """Raises where it should judge."""

    @hookimpl
    def flexchat_before_tool_call(self, tool):
        raise RuntimeError("the gate is broken")


class BrokenObserver:
    """Raises wherever it is told something."""

    @hookimpl
    def flexchat_turn_started(self):
        raise RuntimeError("the observer is broken")

    @hookimpl
    async def flexchat_turn_finished(self):
        raise RuntimeError("the observer is broken")


@attrs.frozen(kw_only=True)
class NoSettings:
    """Nothing can be set."""


class Shelf:
    """A document store with one book, at a distance; or one that fails, or does not answer."""

    def __init__(self, distance):
        self.distance = distance

    async def query(self, text, *, collection, top_k, where=None):
        if isinstance(self.distance, Exception):
            raise self.distance
        if self.distance is HANG:
            await asyncio.Event().wait()
        book = Document(text="Trains run on rails.", title="Trains", source="trains.txt", collection=collection)
        return RetrievalHits(documents=(book,), distances=(self.distance,), embedding="words")

    async def collections(self):
        return (Collection(name="books", description="All books."),)

    async def aclose(self):
        pass


def on_shelf(shelf):
    """A plugin that offers this document store."""

    class Shelves:
        @hookimpl
        def flexchat_register_document_stores(self):
            yield DocumentStoreType(name="shelf", config_class=NoSettings, create=lambda settings, context: shelf)

    return Shelves()


class Notebook:
    """Keeps conversations in memory, or fails to."""

    def __init__(self, reads=None, writes=None):
        self.kept, self.reads, self.writes = {}, reads, writes

    async def append(self, conversation, turn, *, tenant):
        if self.writes:
            raise self.writes
        self.kept.setdefault(conversation, []).append(turn)

    async def turns(self, conversation, *, tenant, last=None):
        if self.reads:
            raise self.reads
        if conversation not in self.kept:
            raise UnknownConversationError(conversation)
        return tuple(self.kept[conversation])

    async def aclose(self):
        pass


def in_notebook(notebook):
    """A plugin that offers this place for conversations."""

    class Notebooks:
        @hookimpl
        def flexchat_register_conversation_stores(self):
            yield ConversationStoreType(
                name="notebook", config_class=NoSettings, create=lambda settings, folder: notebook
            )

    return Notebooks()


class Splitting(Streaming):
    """A model that takes no format in a request that carries tools."""

    def combines_tools_and_format(self, model):
        return False


A, B = ("echo", {"text": "a"}), ("echo", {"text": "b"})
SAVE = ("save", {"text": "a"})
