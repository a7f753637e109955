"""The public names of ``flexchat_sqlite``, for type checkers and for the module itself."""

from .conversations import SqliteConversations as SqliteConversations
from .database import Database as Database
