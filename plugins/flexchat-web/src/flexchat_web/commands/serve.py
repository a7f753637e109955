"""flexchat serve: the HTTP API and the web page."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.host import counted
from flexchat.plugin import FlexChatError
from flexchat_cli import FILE_NAME, CommandContext, TurnLog, log_options, show_log

from .workers import inherited, is_worker, supervise

if TYPE_CHECKING:
    from flexchat_cli import Terminal

    from ..serving import Settings

TENANT = "default"
_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+/?")
MAX_UNHEARD_SECONDS = 86_400


class ServeError(FlexChatError):
    """The server cannot be started as requested; the text names a remedy."""

    exit_status = 2


class ListenError(ServeError):
    """The port is not available; the text names a remedy."""

    exit_status = 1


@attrs.frozen(kw_only=True)
class ServeOptions:
    """Where to listen, and what whom is allowed: the options of the command line, under their names."""

    host: str = "127.0.0.1"
    port: int = 8000
    token_file: str | None = None
    allow_host: Sequence[str] = ()
    allow_origin: Sequence[str] = ()
    trusted_proxy: Sequence[str] = ()
    read_only: bool = False
    edit: bool = False
    allow_env: Sequence[str] = ()
    unheard_seconds: float = 60.0
    no_resume: bool = False
    accept_only: bool = False
    no_migrate: bool = False
    workers: int = 1
    root_path: str = ""


@click.command
@click.option("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine only)")
@click.option("--port", type=int, default=8000, help="port (default 8000); 0 takes any free one")
@click.option("--reload", is_flag=True, help="reload the configuration when one of its files changes")
@click.option(
    "--token-file",
    metavar="FILE",
    type=FILE_NAME,
    help="who may use the server: lines of flexchat tokens add, read again when they change; or set a single token in "
    "the variable FLEXCHAT_TOKEN",
)
@click.option("--allow-host", metavar="NAME", multiple=True, help="also answer to this host name; repeatable")
@click.option("--allow-origin", metavar="URL", multiple=True, help="allow calls from pages of this site; repeatable")
@click.option(
    "--trusted-proxy",
    metavar="ADDRESS",
    multiple=True,
    help="believe X-Forwarded-Proto, X-Forwarded-For and the headers of [serve.proxy] of this proxy (an address or "
    "network); repeatable",
)
@click.option("--read-only", is_flag=True, help="do not let anyone change the configuration")
@click.option("--edit", is_flag=True, help="let users on other machines change the configuration, too")
@click.option(
    "--allow-env",
    metavar="NAME",
    multiple=True,
    help="environment variable that a configuration from the page may use; repeatable",
)
@click.option(
    "--unheard-seconds",
    metavar="SECONDS",
    type=float,
    default=60.0,
    help="how long an answer continues after its reader's connection is lost (default 60; 0: it ends with it)",
)
@click.option(
    "--no-resume", is_flag=True, help="leave turns that were interrupted when a process died; default: they are resumed"
)
@click.option(
    "--accept-only", is_flag=True, help="run no turns: accept those of kept conversations for workers, and stream them"
)
@click.option(
    "--no-migrate",
    is_flag=True,
    help="leave the databases' schemas to flexchat migrate; default: the first use brings them up to date",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 64),
    default=1,
    help="processes that share the port (default 1); all use a changed configuration, and a crashed one is replaced",
)
@click.option(
    "--root-path", metavar="PATH", default="", help="the path below which a proxy serves this server, such as /chat"
)
@click.option("--open", "open_page", is_flag=True, help="open the page in the browser")
@log_options
@click.pass_obj
def serve(
    context: CommandContext, /, host: str, port: int, reload: bool, open_page: bool, log: Any, **allowed: Any
) -> None:
    """Serve the HTTP API and the web page.

    Until the program is asked to stop.
    """
    terminal = context.terminal
    options = ServeOptions(host=host, port=port, **allowed)
    source, plugins = context.config_source()
    tables = source if isinstance(source, dict) else source.document.data
    folder = None if isinstance(source, dict) else source.document.folder
    settings = attrs.evolve(read_settings(options, terminal, tables=tables, folder=folder), hooks=(TurnLog(),))
    listening = inherited() or _listen(host, port)
    if options.workers > 1 and not is_worker():
        with listening:
            if isinstance(source, dict):
                raise ServeError(
                    f"--workers {options.workers}: processes share a configuration's file; flexchat init writes one"
                )
            url = _url(listening)
            terminal.out(f"FlexChat at {url}/ (config: {source.path}), {options.workers} processes")
            raise SystemExit(supervise(listening, options.workers))
    try:
        from ..app import create_app
        from .server import Server

        name = "none, the demo's" if isinstance(source, dict) else str(source.path)
        if isinstance(source, dict):
            terminal.say("no config found, so the rehearsal model answers; flexchat init openai writes a config", "dim")
            source = {**source, "conversations": {"provider": "sqlite"}}
        app = create_app(source, plugins=plugins, settings=settings, watch=reload or is_worker())
        url = _url(listening)
        if app.serving.notes:
            terminal.say(f"{name}: {counted(len(app.serving.notes), 'note')}; flexchat check shows them", "dim")

        def started() -> None:
            if is_worker():
                return
            terminal.out(f"FlexChat at {url}/ (config: {name})")
            if not _is_loopback(host):
                for line in _for_others(options, listening.getsockname()[1], app.serving.authentication.has_tokens):
                    terminal.say(line)
            if open_page:
                import webbrowser

                webbrowser.open(f"{url}/")

        with contextlib.suppress(KeyboardInterrupt), show_log(terminal, log):
            server = Server(
                app,
                started,
                verbose=terminal.verbose,
                waiting=lambda text: terminal.say(text, "dim"),
                proxies=options.trusted_proxy,
                root_path=options.root_path.rstrip("/"),
            )
            asyncio.run(server.serve(sockets=[listening]))
    finally:
        listening.close()


def read_settings(
    options: ServeOptions,
    terminal: Terminal,
    environ: Mapping[str, str] | None = None,
    *,
    tables: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Read the operator's settings from the command line and the environment.

    Args:
        tables: The configuration as written, which may identify users as well.
        folder: Its folder.

    Raises:
        ServeError, TokenFileError: A token is unusable, or required and missing.
    """
    from ..serving import Settings
    from ..token_file import require_token

    environ = os.environ if environ is None else environ
    if options.edit and options.read_only:
        raise ServeError("--edit lets others change the configuration, --read-only nobody: use only one of them")
    if not 0 <= options.port <= 65_535:
        raise ServeError(f"--port {options.port}: ports are 0 to 65535")
    if not 0 <= options.unheard_seconds <= MAX_UNHEARD_SECONDS:
        most = f"{MAX_UNHEARD_SECONDS:,}"
        raise ServeError(f"--unheard-seconds {options.unheard_seconds:g}: it takes 0 to {most} seconds")
    table = (tables or {}).get("serve")
    table = table if isinstance(table, Mapping) else {}
    token_file = Path(options.token_file) if options.token_file else None
    if token_file is None and isinstance(written := table.get("token_file"), str):
        token_file = (folder or Path()) / Path(written).expanduser()
    if token_file is not None:
        _check_token_file(token_file, terminal, (tables or {}).get("roles"))
    variable = environ.get("FLEXCHAT_TOKEN")
    tokens = {require_token(variable, "FLEXCHAT_TOKEN"): TENANT} if variable else {}
    loopback = _is_loopback(options.host)
    if not loopback and not (tokens or token_file or {"jwt", "proxy"} & table.keys()):
        raise ServeError(
            f"--host {options.host}: others could reach this server, so it needs a token: "
            "set FLEXCHAT_TOKEN, or name a --token-file (flexchat tokens add writes one)"
        )
    for origin in options.allow_origin:
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https") or not rest or "/" in rest:
            raise ServeError(f"--allow-origin {origin}: write it as https://app.example, without a path")
    if options.root_path and not _ROOT_PATH.fullmatch(options.root_path):
        raise ServeError(f"--root-path {options.root_path}: write it as /chat, a path without query")
    for proxy in options.trusted_proxy:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise ServeError(f"--trusted-proxy {proxy}: {error}; write 10.0.0.7 or 10.0.0.0/24") from None
    return Settings(
        tokens=tokens,
        token_file=token_file,
        trusted_proxies=tuple(options.trusted_proxy),
        hosts=_hosts(options.host, options.allow_host),
        origins=tuple(options.allow_origin),
        edit=(loopback or options.edit) and not options.read_only,
        allow_env=frozenset(options.allow_env),
        unheard_seconds=options.unheard_seconds,
        resume=not (options.no_resume or options.accept_only),
        accept_only=options.accept_only,
        migrate=not options.no_migrate,
        is_one_of_many=options.workers > 1,
    )


def _hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...]:
    wild = host in ("0.0.0.0", "::", "")
    own = [socket.gethostname()] if wild else [host]
    return tuple(dict.fromkeys(["localhost", "127.0.0.1", "::1", *own, *allowed]))


def _check_token_file(file: Path, terminal: Terminal, roles: Any) -> None:
    from ..token_file import TokenFileError, describe_unknown, read_token_file, unknown_roles

    lines = read_token_file(file)
    if not lines:
        raise TokenFileError(
            f"--token-file {file}: it contains no token; flexchat tokens add --token-file {file} TENANT"
        )
    mode = file.stat().st_mode
    if os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        terminal.say(f"note: others can read {file}, which holds tokens: chmod 600 {file}", "dim")
    for role, number in unknown_roles(lines, roles).items() if isinstance(roles, Mapping) else ():
        terminal.say(f"note: {file}:{number}: {describe_unknown(role, roles)}", "dim")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        address = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        # asyncio sets TCP_NODELAY only where the protocol is given; without it, each answer waits 40 ms for an ACK.
        listening = socket.socket(*address[:3])
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address[4])
            listening.listen(2_048)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"port {port} is in use, perhaps by another flexchat serve: --port 0 takes any free one"
            ) from None
        if error.errno == errno.EACCES:
            raise ListenError(
                f"port {port} is reserved for privileged users: choose one from 1024 up, such as --port 8000"
            ) from None
        raise ListenError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _for_others(options: ServeOptions, port: int, has_tokens: bool) -> list[str]:
    """Return who else can reach a server that listens on the network, by which names, and how they sign in."""
    names = [name for name in _hosts(options.host, options.allow_host) if not _is_loopback(name) and name != "*"]
    places = " or ".join(f"http://{f'[{name}]' if ':' in name else name}:{port}/" for name in names)
    token = f"a token of {options.token_file}" if options.token_file else "the token in FLEXCHAT_TOKEN"
    return [
        f"others on the network can reach it: {places} (--allow-host adds a name or an address)",
        *([f"they sign in on the page with {token}; programs send Authorization: Bearer TOKEN"] if has_tokens else []),
    ]
