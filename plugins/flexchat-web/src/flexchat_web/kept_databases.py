"""The databases of the stores that a chat has open."""

from __future__ import annotations

from flexchat import FlexChat
from flexchat.host import Databases, databases_of


def databases_of_chat(chat: FlexChat) -> Databases:
    """Return the databases of a chat's conversations and document stores."""
    stores = {f"stores.{name}": store for name, store in chat.stores.items()}
    return databases_of(stores if chat.conversations is None else {"conversations": chat.conversations.store, **stores})
