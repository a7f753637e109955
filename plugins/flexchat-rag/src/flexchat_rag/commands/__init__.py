"""flexchat rag …: filling document stores, and looking into them; and flexchat demo rag."""

from flexchat.plugin import Command

from . import add, delete, demo, export, list_, query, show, stats

COMMANDS = (
    Command(name="rag add", summary="read files and folders into a collection", **add.PARTS),
    Command(name="rag list", summary="list collections, or the sources of one", **list_.PARTS),
    Command(name="rag show", summary="show the passages of a source, or one by its id", **show.PARTS),
    Command(name="rag query", summary="search, and show what is found", **query.PARTS),
    Command(name="rag delete", summary="delete documents, sources or a collection", **delete.PARTS),
    Command(name="rag stats", summary="count passages, sources and characters", **stats.PARTS),
    Command(name="rag export", summary="write a collection as JSON lines, which rag add reads", **export.PARTS),
    *demo.COMMANDS,
)
