"""Documents for FlexChat: an embedded store with hybrid search, and ingestion of files.

from flexchat_rag import add_files

async with FlexChat.from_config("flexchat.toml") as chat:
    report = await add_files(chat.stores["documents"], "docs")
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ingest.pipeline import IngestOptions, IngestReport, add_files
    from .ingest.records import FieldMapping

__all__ = ["FieldMapping", "IngestOptions", "IngestReport", "add_files"]


def __getattr__(name: str) -> Any:
    """Import the public names on first access: every command imports this package."""
    if name not in __all__:
        raise AttributeError(f"module 'flexchat_rag' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.ingest.pipeline"), name)
