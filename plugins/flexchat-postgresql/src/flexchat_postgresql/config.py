"""Settings of a PostgreSQL database."""

from __future__ import annotations

import re
from typing import Any

import attrs
from flexchat.store import key


def _address(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not re.match(r"(postgres|postgresql)://|\s*\w+\s*=", value):
        raise ValueError("dsn must be like postgresql://USER:PASSWORD@HOST:5432/DATABASE")


def _schema(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    too_long = len(value.encode("utf-8", "replace")) > 63
    if not value or too_long or "\0" in value or "%" in value or value.startswith("pg_"):
        raise ValueError("schema must be a name of 1 to 63 bytes, without %, that does not begin with pg_")


@attrs.frozen(kw_only=True)
class PostgresConfig:
    """Connection settings of a PostgreSQL database. Times are in seconds."""

    dsn: str = key("postgresql://USER:PASSWORD@HOST:5432/DATABASE.", secret=True, repr=False, validator=_address)
    schema: str = key("Schema of the tables; created if missing.", default="flexchat", validator=_schema)
    pool_size: int = key(
        "Connections at most.", default=5, validator=[attrs.validators.ge(1), attrs.validators.le(100)]
    )
    connect_timeout_s: float = key(
        "For a connection.", default=5.0, validator=[attrs.validators.gt(0), attrs.validators.le(300)]
    )


@attrs.frozen(kw_only=True)
class PostgresqlConfig(PostgresConfig):
    """The table conversations with ``provider = "postgresql"``."""
