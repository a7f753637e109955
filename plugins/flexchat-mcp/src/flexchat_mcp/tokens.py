"""The file with one tenant's tokens of one server, readable by its owner only."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

from flexchat.host import DEFAULT_TENANT
from flexchat.plugin import FlexChatError
from flexchat.store import data_folder

LOCK_S = 40.0  # how long a program waits for another that renews the tokens: longer than that may take
_MAX_BYTES = 2 * 2**20


class TokensError(FlexChatError):
    """The file with a server's tokens cannot be used; the text names a remedy."""


class TokenFile:
    """What is kept between programs: tokens, the client as registered, and where it was registered.

    Args:
        url: The server's. Each has a file of its own: a token of one server is never sent to another.
        tenant: Whose tokens they are. Each tenant has a file of its own, and the default one that of servers which all
            share.

    Attributes:
        path: The file; it need not exist.
    """

    def __init__(self, url: str, tenant: str = DEFAULT_TENANT) -> None:
        self._whose = {"url": url} if tenant in ("", DEFAULT_TENANT) else {"url": url, "tenant": tenant}
        # No URL and no two names give the same bytes: NUL is in no URL, and surrogatepass keeps apart what is not text.
        identity = "\0".join(self._whose.values()).encode("utf-8", "surrogatepass")
        self.path = data_folder() / "mcp" / f"{hashlib.sha256(identity).hexdigest()[:32]}.json"

    def read(self) -> dict[str, Any]:
        """Read the stored tokens; empty without a file, or for another server or tenant.

        Raises:
            TokensError: It may be read by others, or cannot be read.
        """
        with self._converting_errors():
            try:
                # No symbolic links, which may lead to another user's file, and no blocking on a FIFO.
                number = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            except FileNotFoundError:
                return {}
            with os.fdopen(number, "rb") as file:
                # Checked on the open file: the path may lead to another one by now.
                self._refuse_unsafe(os.fstat(number))
                content = file.read(_MAX_BYTES)
        with contextlib.suppress(ValueError):
            data = json.loads(content)
            if isinstance(data, dict) and {k: data[k] for k in ("url", "tenant") if k in data} == self._whose:
                return data
        return {}

    def write(self, data: dict[str, Any]) -> None:
        """Replace the stored tokens atomically; the file is never readable by other users.

        Raises:
            TokensError: It cannot be written.
        """
        part = self.path.with_name(f".{secrets.token_hex(8)}")
        with self._converting_errors():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                # A new file, private from its creation, then renamed: readers see the old tokens or the new.
                number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(number, "w", encoding="utf-8") as file:
                    json.dump({**data, **self._whose}, file)
                    file.flush()
                    os.fsync(number)
                part.replace(self.path)
            finally:
                part.unlink(missing_ok=True)

    def delete(self) -> bool:
        """Forget everything; return whether there was anything.

        Raises:
            TokensError: The file cannot be deleted.
        """
        with self._converting_errors():
            try:
                self.path.unlink()
            except FileNotFoundError:
                return False
            return True

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Be the only one, of all programs and tasks, who renews or forgets what is kept.

        Raises:
            TokensError: Somebody else takes too long.
        """
        with self._converting_errors():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            # A lock file of its own: the file of the tokens is replaced by each write, and a lock on it would be lost.
            number = os.open(self.path.with_suffix(".lock"), flags, 0o600)
        try:
            try:
                await take_lock(number, LOCK_S)
            except TimeoutError:
                text = f"another program has been renewing the tokens for {LOCK_S:.0f} s: end it, or try again"
                raise TokensError(text) from None
            yield
        finally:
            os.close(number)

    async def forget(self) -> bool:
        """Delete, but not while a program renews: it would write down again what is to be forgotten.

        Raises:
            TokensError: As delete and alone.
        """
        async with self.locked():
            return self.delete()

    @property
    def state(self) -> tuple[int, ...]:
        """Changes with each write; empty if there is no file."""
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _refuse_unsafe(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise TokensError(f"{self.path} is not a file: remove it and sign in again")
        if os.name != "nt" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
            raise TokensError(f"{self.path} may be read by others: remove it and sign in again")

    @contextlib.contextmanager
    def _converting_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TokensError(f"{self.path} cannot be used: {error.strerror or error}") from None


_LOOK_S = 0.02
"""A call that waits for the lock in a thread could not be cancelled, so the lock is tried again and again."""


async def take_lock(number: int, within_s: float) -> None:
    """Acquire the lock of an open file; closing the file releases it.

    On a system without file locks, every caller gets it.

    Args:
        number: The file descriptor; each waiting caller needs one of its own.

    Raises:
        TimeoutError: Another process still holds the lock.
    """
    async with asyncio.timeout(within_s):
        while not _is_taken(number):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)  # the release of a file lock sends no notification


if sys.platform == "win32":
    import msvcrt

    def _is_taken(number: int) -> bool:
        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        except OSError:
            return True
        return True

else:
    import fcntl

    def _is_taken(number: int) -> bool:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True
