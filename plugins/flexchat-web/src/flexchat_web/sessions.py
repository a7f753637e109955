"""Tokens and sessions: the cookie of a browser has a random id, and what is stored does not reveal it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flexchat.store import data_folder
from flexchat_sqlite import Database
from starlette.requests import cookie_parser

from .token_file import digest_of

if TYPE_CHECKING:
    from .identity import Identity
    from .serving import Serving


COOKIE = "flexchat_session"


def bearer_of(headers: Mapping[str, str]) -> str:
    """Return the token in the header Authorization; empty if none."""
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    return bearer.strip() if kind.lower() == "bearer" else ""


def session_of(headers: Mapping[str, str]) -> str:
    """Return the id of a session in the header Cookie; empty if none."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")[:200]


def is_secure(scope: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Return whether a browser uses TLS, to this server or to a proxy, by the Origin header, which has been checked."""
    return scope.get("scheme") == "https" or headers.get("origin", "").startswith("https://")


def cookie(session: str, *, base: str, secure: bool) -> str:
    """Return the header Set-Cookie that keeps a session's id, out of reach of scripts and of other sites' pages.

    Args:
        session: Empty forgets the one that is kept.
        base: Path under which the application is mounted.
        secure: Whether the browser may send it by https only.
    """
    age = "" if session else "; Max-Age=0"
    flags = f"HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
    return f"{COOKIE}={session}; Path={base or '/'}{age}; {flags}"


MAX_AGE_S = 30 * 86_400
"""After which a browser signs in again."""

APPLICATION_ID = 0x666C7873  # "flxs"

_TABLES = "CREATE TABLE sessions (digest BLOB PRIMARY KEY, proof BLOB NOT NULL, ends REAL NOT NULL) WITHOUT ROWID"


class Sessions:
    """Sessions in a SQLite file of the user's data folder, so that they outlive the process.

    A row has digests only: of the id, and of the id with the digest of the token it was made with. So neither can be
    taken from the file, and a session ends with its token.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._opened: Database | None = None

    async def begin(self, token: str) -> str:
        """Return the id of a new session, for a token of the server.

        Raises:
            StorageError, PathError: It cannot be stored.
        """
        id, now = secrets.token_urlsafe(32), time.time()
        row = (_digest(id), _proof(id, digest_of(token)), now + MAX_AGE_S)

        def add(database: Any) -> None:
            database.execute("DELETE FROM sessions WHERE ends < ?", (now,))
            database.execute("INSERT INTO sessions VALUES (?, ?, ?)", row)

        await self._database.write(add)
        return id

    async def identity_of(self, id: str) -> Identity | None:
        """Return the identity that a session's token grants; None if the session or the token is gone or expired.

        Raises:
            StorageError, PathError: The sessions cannot be read.
        """
        row = await self._database.read_soon(
            lambda database: database.execute(
                "SELECT proof FROM sessions WHERE digest = ? AND ends > ?", (_digest(id), time.time())
            ).fetchone()
        )
        if row is None:
            return None
        authentication = self._serving.authentication
        digests = [digest for digest in authentication.digests if hmac.compare_digest(_proof(id, digest), row[0])]
        return authentication.of_digest(digests[0]) if digests else None

    async def end(self, id: str) -> None:
        """End a session, wherever else its cookie has been copied to."""
        await self._database.write(
            lambda database: database.execute("DELETE FROM sessions WHERE digest = ?", (_digest(id),))
        )

    async def aclose(self) -> None:
        """Close the file."""
        if self._opened is not None:
            await self._opened.aclose()

    @property
    def _database(self) -> Database:
        if self._opened is None:
            path = data_folder() / "sessions.db"
            self._opened = Database(path, kind="sessions", application_id=APPLICATION_ID, migrations=(_TABLES,))
        return self._opened


def _digest(id: str) -> bytes:
    return hashlib.sha256(id.encode("utf-8", "replace")).digest()


def _proof(id: str, token_digest: str) -> bytes:
    return hashlib.sha256(f"{id}\0{token_digest}".encode("utf-8", "replace")).digest()
