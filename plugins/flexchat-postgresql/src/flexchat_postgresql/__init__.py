"""PostgreSQL storage for FlexChat's conversations, turns and effects.

PostgresConfig, the settings of a database, and Connections are public, for packages that add tables of their own.
"""

from typing import TYPE_CHECKING, Any

from .plugin import PostgresConfig

if TYPE_CHECKING:
    from .connections import Connection, Connections

__all__ = ["Connection", "Connections", "PostgresConfig"]


def __getattr__(name: str) -> Any:
    """Import psycopg on first access."""
    if name not in ("Connection", "Connections"):
        raise AttributeError(f"module 'flexchat_postgresql' has no attribute {name!r}")
    from . import connections

    return getattr(connections, name)
