"""Documents for FlexChat: an embedded store with hybrid search, and ingestion of files.

from flexchat_rag import add_files

async with FlexChat.from_config("flexchat.toml") as chat:
    report = await add_files(chat.stores["documents"], "docs")
"""

from flexchat.host import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
