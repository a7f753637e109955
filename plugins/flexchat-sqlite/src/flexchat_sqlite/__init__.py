"""Conversations, turns and effects in SQLite, the default store; and the database other stores are built on."""

from flexchat.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
