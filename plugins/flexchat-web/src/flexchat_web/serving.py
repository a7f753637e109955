"""What all requests share: the current chat, how it is replaced, and what the operator allows."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from flexchat import ConfigError, FlexChat, Problem, host
from flexchat.host import MAX_BYTES, ConfigDocument, ReadConfig, read_file

from .access_tokens import TokenVerifier
from .authentication import Authentication
from .kept_databases import databases_of_chat
from .serve_settings import TABLE

if TYPE_CHECKING:
    from flexchat.host import PluginHost

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5

QUESTIONS_EXPIRE_S = 7 * 86_400.0
"""How long a question of a kept turn is open, unless the configuration has questions.expires."""

_Seen = tuple[tuple[tuple[int, ...], ...], str]
"""A version of the file: its stat data and the digest of its bytes."""

_UNKNOWN = ()
"""What the system says of a file that was just read: nobody has asked, so the next look compares the bytes."""

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Settings:
    """The operator's limits for the server.

    Attributes:
        tokens: Tenant of each token. Without any, and without the other ways to identify clients, no token is required,
            and every client is the default tenant.
        token_file: Further tokens, with principals; it is read again when it changes.
        trusted_proxies: Addresses and networks whose headers of [serve.proxy] are read.
        hosts: Names a request's Host may have, without port; None for loopback's own; include "*" for any.
        origins: Origins of other pages that may call the API: "https://app.example".
        edit: Whether the configuration may be changed; default: only if hosts is None.
        max_body_bytes: Of a request without files; of theirs, the configuration's media.max_bytes.
        body_seconds: The longest time in which a body may arrive.
        allow_env: Environment variables that a configuration in a request may use.
        unheard_seconds: The longest time a turn continues without a listener; 0: it ends with the connection.
        most_unheard: Most such turns per tenant; beyond that, the one without a listener for longest is cancelled.
        resume: Whether turns left by processes that died are resumed, and accepted ones are run.
        accept_only: Whether turns are only accepted, and run by other processes: workers.
        hooks: Of every chat, as for FlexChat.from_config.
        migrate: Whether the first use of a database also brings its schema up to date.
        is_one_of_many: Whether other processes serve the same file, which is then all that they have in common.
    """

    tokens: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    token_file: Path | None = None
    trusted_proxies: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    origins: tuple[str, ...] = ()
    edit: bool = attrs.field()
    max_body_bytes: int = 32 * 1024 * 1024
    body_seconds: float = 30.0
    allow_env: frozenset[str] = frozenset()
    unheard_seconds: float = 60.0
    most_unheard: int = 32
    resume: bool = True
    accept_only: bool = False
    hooks: tuple[object, ...] = ()
    migrate: bool = True
    is_one_of_many: bool = False

    @edit.default
    def _on_this_machine(self) -> bool:
        return self.hosts is None


@attrs.define(eq=False)
class _Loan:
    """A chat, and how many users it has."""

    chat: FlexChat
    holders: int = 0
    replaced: bool = False


@attrs.frozen(kw_only=True)
class Facts:
    """What work on a configuration knows about a server, ready to be sent to another process; see Serving."""

    source: Path | None
    settings: Settings
    written: Mapping[str, Any]
    in_memory: bool
    folder: Path
    others: tuple[str, ...]
    notes: tuple[Problem, ...]
    config_problems: tuple[Problem, ...]
    secrets: Callable[[str], str]
    plain_tokens: tuple[str, ...] = attrs.field(repr=False)
    blocked: tuple[tuple[str, str], ...]

    @property
    def plugins(self) -> PluginHost:
        """The same plugins, loaded in this process."""
        return _installed(self.blocked)

    def mask(self, text: str) -> str:
        """Return a text without secrets and tokens."""
        for token in self.plain_tokens:
            text = text.replace(token, "***")
        return self.secrets(text)


@functools.cache
def _installed(blocked: tuple[tuple[str, str], ...]) -> PluginHost:
    return host.installed_plugins(dict(blocked))


class Serving:
    """The current chat. A turn keeps the one it began with; a replaced one is closed when its last turn ends.

    Args:
        source: The configuration's file, the result of reading it, or tables (the demo's, which cannot be saved).

    Attributes:
        authentication: How requests are identified.
        plugins: The plugins without those that the current configuration blocks.
        settings: What the operator allows.
        written: The current configuration as written: placeholders are not replaced.
        in_memory: Whether it came with a request and is not in a file.
        generation: Counts the configurations applied so far, from 1.
        reloaded_at: When the last one was: ISO 8601, UTC.
        config_problems: What is wrong with the file, if it was reread and cannot be used; the last good configuration
            stays in use.

    Raises:
        ConfigError: Everything that is wrong with the configuration.
    """

    def __init__(self, source: Path | ReadConfig | Mapping[str, Any], plugins: PluginHost, settings: Settings) -> None:
        self._installed, self.settings = plugins, settings
        self._others: tuple[Path, ...] = ()
        self._table: Any = None
        read, self.plugins, chat = self._read(source)
        self.source: Path | Mapping[str, Any] = read.path or read.written.data
        self.in_memory = False
        self.generation = 0
        self.reloaded_at = ""
        self.config_problems: tuple[Problem, ...] = ()
        self._lock = asyncio.Lock()
        self._loans: set[_Loan] = set()
        self._kept: dict[Callable[[Serving], Any], Any] = {}
        self.written: Mapping[str, Any] = read.written.data
        self._seen: _Seen | None = _UNKNOWN, read.digest
        self._current = self._put_in_force(chat)
        self._table = chat.config.tables.get(TABLE)
        if self._table is None and TABLE in read.document.data:
            text = "this table is not read, so every request would be admitted; flexchat plugins has the reason"
            raise ConfigError([Problem(path=TABLE, text=text)])
        self.authentication = Authentication(
            self._table,
            self.folder,
            TokenVerifier(self._create_fetcher),
            tokens=settings.tokens,
            token_file=settings.token_file,
            trusted_proxies=settings.trusted_proxies,
        )

    def chat(self) -> contextlib.AbstractAsyncContextManager[FlexChat]:
        """Lend the current chat, which stays open meanwhile."""
        return _Borrowing(self)

    @property
    def folder(self) -> Path:
        """The folder that a configuration's relative paths start from."""
        return self.source.absolute().parent if isinstance(self.source, Path) else Path.cwd()

    @property
    def others(self) -> tuple[str, ...]:
        """The files that the configuration includes, and those of its prompts, relative to its folder."""
        folder = os.path.realpath(self.folder)
        return tuple(os.path.relpath(path, folder) for path in self._others)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """The notes on the current configuration."""
        return self._current.chat.notes

    def mask(self, text: str) -> str:
        """Return a text without the current configuration's secrets and without tokens."""
        for token in self.authentication.plain_tokens:
            text = text.replace(token, "***")
        return self._current.chat.mask(text)

    def facts(self) -> Facts | None:
        """Return the data from which another process rebuilds this; None if its plugins could differ."""
        blocked = self.plugins.blocked
        if blocked is None:
            return None
        names = ("settings", "written", "in_memory", "folder", "others", "notes", "config_problems")
        return Facts(
            **{name: getattr(self, name) for name in names},
            source=self.source if isinstance(self.source, Path) else None,
            secrets=self._current.chat.mask,
            plain_tokens=self.authentication.plain_tokens,
            blocked=tuple(blocked.items()),
        )

    def shared(self, cls: Callable[[Serving], T]) -> T:
        """Return the single object of a class that all requests share, made of this one on first use.

        Its method ``aclose``, if it has one, is called when the server ends.
        """
        if cls not in self._kept:
            self._kept[cls] = cls(self)
        instance: T = self._kept[cls]
        return instance

    async def reload(self, tables: Mapping[str, Any] | None = None) -> None:
        """Apply the file's configuration, or other tables; all of it or, if it cannot be used, nothing.

        Args:
            tables: Serve these, in memory only; ``${VARIABLES}`` in them are not expanded.

        Raises:
            ConfigError: It cannot be used; the previous configuration stays in use.
        """
        if tables is not None and self.settings.is_one_of_many:
            text = "several processes serve this configuration: change its file, and all of them use it"
            raise ConfigError([Problem(path="", text=text)])
        async with self._lock:
            facts = self._facts()
            try:
                read, plugins, chat = await asyncio.to_thread(self._read, self.source if tables is None else tables)
            except ConfigError as error:
                if tables is None:
                    self._seen, self.config_problems = (facts, "") if facts else None, error.problems
                raise
            if tables is None:
                self._seen = _UNKNOWN, read.digest
            self.written, self.in_memory = read.written.data, tables is not None
            await self._exchange(chat, plugins)

    async def replace(self, document: ConfigDocument, save: Callable[[], None]) -> None:
        """Apply a configuration and save it; both or neither.

        Args:
            save: Writes the configuration's file; called in a thread once the configuration is known to be usable.

        Raises:
            ConfigError: It cannot be used; the previous configuration stays in use, as it does if save raises.
        """
        async with self._lock:
            read, plugins, chat = await asyncio.to_thread(self._read, document)
            try:
                await asyncio.to_thread(save)
            except BaseException:
                await chat.aclose()
                raise
            self.written, self.in_memory, self._seen = read.written.data, False, self._fingerprint()
            await self._exchange(chat, plugins)

    async def watch(self) -> None:
        """Reload whenever the file has changed, until cancelled. A file that cannot be used is logged."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            fingerprint = await asyncio.to_thread(self._fingerprint, self._seen)
            if fingerprint == self._seen or fingerprint is None:
                continue
            if self._seen is not None and fingerprint[1] == self._seen[1]:
                self._seen = fingerprint
                continue
            try:
                await self.reload()
            except ConfigError as error:
                count, first = host.counted(len(error.problems), "problem"), self.mask(str(error.problems[0]))
                log.warning("the changed configuration has %s, so the old one stays in use: %s", count, first)
            except Exception as error:  # noqa: BLE001  a plugin may raise anything, and the next change is watched for
                self._seen = fingerprint
                problem = self.mask(host.error_name(error))
                log.error("the changed configuration cannot be used, so the old one stays in use: %s", problem)
            else:
                log.warning("the changed configuration is in use")

    async def aclose(self) -> None:
        """Close everything, even chats in use."""
        await self.authentication.verifier.aclose()
        while self._kept:
            instance = self._kept.popitem()[1]
            if hasattr(instance, "aclose"):
                await instance.aclose()
        for loan in list(self._loans):
            self._loans.discard(loan)
            await loan.chat.aclose()

    def _create_fetcher(self, addresses: list[str]) -> Any:
        allow = [*self._current.chat.config.network.allow, *addresses]
        return self.plugins.fetchers.by_name["fetcher"].create(allow, None, host.Mask())

    def _read(
        self, source: Path | ReadConfig | ConfigDocument | Mapping[str, Any]
    ) -> tuple[ReadConfig, PluginHost, FlexChat]:
        read = host.read_config(source)
        self._others = tuple(read.document.others)  # even if it cannot be used: mending one of them is a change
        plugins = host.as_configured(self._installed, read)
        chat = FlexChat.from_config(read, plugins=plugins, hooks=self.settings.hooks)
        if hasattr(self, "authentication") and chat.config.tables.get(TABLE) != self._table:
            text = "it is read when the server starts, and not changed while it runs: start the server again"
            raise ConfigError([Problem(path=TABLE, text=text)])
        for database in databases_of_chat(chat).by_names.values():
            database.migrates = self.settings.migrate
        if chat.config.questions.expires_s is None:
            chat.questions_expire_s = QUESTIONS_EXPIRE_S
        return read, plugins, chat

    def _put_in_force(self, chat: FlexChat) -> _Loan:
        loan = _Loan(chat)
        self._loans.add(loan)
        self.generation += 1
        self.reloaded_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self.config_problems = ()
        return loan

    async def _exchange(self, chat: FlexChat, plugins: PluginHost) -> None:
        self.plugins = plugins
        chat.take_over(self._current.chat)
        old, self._current = self._current, self._put_in_force(chat)
        old.replaced = True
        await self._close_if_done(old)

    async def _close_if_done(self, loan: _Loan) -> None:
        if loan.replaced and not loan.holders and loan in self._loans:
            self._loans.discard(loan)
            await loan.chat.aclose()

    def _facts(self) -> tuple[tuple[int, ...], ...] | None:
        """Return the file status of the configuration's files; None if there is none, or one has disappeared."""
        if not isinstance(self.source, Path):
            return None
        files = [_facts_of(path) for path in (self.source, *self._others)]
        return tuple(files) if files[0] else None

    def _fingerprint(self, before: _Seen | None = None) -> _Seen | None:
        """Compute a fingerprint of the files' contents; None if there is no file or it cannot be read."""
        facts = self._facts()
        if facts is None or not isinstance(self.source, Path):
            return None
        if before is not None and facts == before[0]:
            return before
        try:
            return facts, host.digest_of(read_file(self.source, most=MAX_BYTES), *map(_content_of, self._others))
        except OSError:
            return None


class _Borrowing:
    """The use of a chat; a class, since requests enter it several times each."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def __aenter__(self) -> FlexChat:
        self._loan = self._serving._current
        self._loan.holders += 1
        return self._loan.chat

    async def __aexit__(self, *error: object) -> None:
        self._loan.holders -= 1
        await self._serving._close_if_done(self._loan)


def _facts_of(path: Path) -> tuple[int, ...]:
    try:
        facts = path.stat()
    except OSError:
        return ()
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _content_of(path: Path) -> bytes:
    try:
        return read_file(path, most=MAX_BYTES)
    except OSError:
        return b""
