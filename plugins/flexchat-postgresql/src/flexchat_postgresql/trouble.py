"""Error texts for failures of PostgreSQL, with advice and never with the password."""

from __future__ import annotations

import re

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict

# SQLSTATE codes, or two or three leading characters for a class: postgresql.org/docs/18/errcodes-appendix.
_REASONS = {
    "28": "refuses the user or the password: check both in dsn, and the server's pg_hba.conf",
    "3D000": "has no such database: create it, or correct dsn",
    "42501": "forbids it: let the user of dsn create and use the schema, or have the tables made by one who may",
    "53300": "has no connection left: lower pool_size, or raise the server's max_connections",
    "53100": "has no disk space left",
    "53": "has no resources left",
    "25006": "can only be read: dsn must name the primary server, not a standby",
    "57P03": "is starting up or shutting down: try again soon",
    "57P": "was shut down meanwhile: try again soon",
    "57014": "stopped the statement: its statement_timeout is too short",
    "40": "found two changes that excluded each other: try again",
    "54": "refuses what is too large",
}
_QUOTED = re.compile(r"""(?P<mark>["']).*?(?:(?P=mark)(?: \([0-9a-fA-F.:]+\))?|$)""")
_NO_VECTOR = "has no extension 'vector' (pgvector 0.7 or later): install it on the server, then CREATE EXTENSION vector"


@attrs.frozen
class Place:
    """A database's address.

    Attributes:
        shown: User, host, port and database, for error texts.
        secret: The password, to mask it in the server's messages; None without one.
    """

    shown: str
    secret: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, dsn: str) -> Place | None:
        """Parse a connection string; None if it is invalid."""
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.Error:
            return None
        if "@" in f"{parts.get('host')}{parts.get('user')}{parts.get('dbname')}":
            # An @ in the password that is not written as %40 ends the password early: the rest would be shown.
            return None
        host, port = parts.get("host") or parts.get("hostaddr") or "local", parts.get("port") or 5432
        user = f"{parts['user']}@" if parts.get("user") else ""
        password = parts.get("password")
        return cls(
            f"PostgreSQL at {user}{host}:{port}/{parts.get('dbname') or ''}", str(password) if password else None
        )

    def explained(self, error: Exception) -> str:
        """Format an error with its cause and remedy, in one sentence, with the password masked."""
        text = f"{self.shown} {_reason(error)}"
        return text.replace(self.secret, "***") if self.secret and len(self.secret) > 3 else text


def public_reason(error: Exception) -> str:
    """Format an error without the hosts, users and databases that libpq and the server quote."""
    return f"PostgreSQL {_QUOTED.sub('…', _reason(error))}"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer within connect_timeout_s: is the server running, and the address in dsn right?"
    code = getattr(error, "sqlstate", None) or ""
    message = " ".join(str(error).split())[:300]
    if "vector" in message and (code in ("0A000", "58P01") or (code == "42704" and '"vector"' in message)):
        return _NO_VECTOR
    if code == "42704" and "text search configuration" in message:
        return f"does not know this language: {message} (SELECT cfgname FROM pg_ts_config lists those it knows)"
    for prefix in (code, code[:3], code[:2]):
        if prefix in _REASONS:
            return f"{_REASONS[prefix]} ({message})"
    if isinstance(error, psycopg.OperationalError) and not code:
        # Without an SQLSTATE the error is libpq's own, which includes failed logins: it drops their code.
        if "authentication failed" in message or "no password supplied" in message:
            return f"{_REASONS['28']} ({message})"
        if "does not exist" in message and "database" in message:
            return f"{_REASONS['3D000']} ({message})"
        if "too many clients" in message or "remaining connection slots" in message:
            return f"{_REASONS['53300']} ({message})"
        return f"cannot be reached: is the server running, and the address in dsn right? ({message})"
    return f"refused: {message}"
