"""The public names of ``flexchat_postgresql``, for type checkers and for the module itself."""

from .connections import Connection as Connection, Connections as Connections
from .config import PostgresConfig as PostgresConfig
