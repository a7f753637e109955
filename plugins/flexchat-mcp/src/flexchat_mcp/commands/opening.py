"""The servers of a configuration, for commands: nothing that is asked here accepts anything."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat import FlexChat
from flexchat.host import DEFAULT_TENANT, Mask, did_you_mean, secrets_of_environment
from flexchat.plugin import ToolError, ToolSourceContext
from flexchat_cli import CommandContext, Terminal, UsageError, argument

from ..errors import ServerError, TaskGoneError
from ..settings import McpConfig
from ..source import McpSource, describe_invalid
from ..tokens import TokenFile

if TYPE_CHECKING:
    from mcp import Client

NOT_CONFIGURED = "no MCP servers: the configuration has no [[tools.mcp]] tables, or tools.enabled is false"


def servers(chat: FlexChat) -> list[str]:
    """Return the names of a chat's MCP servers, in the order of the config."""
    return [name for name, source in chat.tools.sources.by_name.items() if isinstance(source.settings, McpConfig)]


def complete_server(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the servers whose names begin so."""
    context: CommandContext = ctx.obj
    return [name for name in servers(context.open_tools()[0]) if name.startswith(incomplete)]


server_argument = argument(
    "server", metavar="SERVER", shell_complete=complete_server, help="the server's name in the config"
)
optional_server_argument = argument(
    "server", metavar="SERVER", required=False, shell_complete=complete_server, help="only this one (default: all)"
)
tenant_option = click.option("--tenant", metavar="NAME", help="whose server to use, of those with per_tenant")


def choose_servers(chat: FlexChat, name: str | None, tenant: str | None = None) -> list[str]:
    """Return the servers a command is about: one, or all; for a tenant, those with per_tenant.

    Raises:
        UsageError: There is none, or none of that name.
    """
    if not (names := servers(chat)):
        raise UsageError(NOT_CONFIGURED)
    own = names if tenant is None else [each for each in names if chat.tools.sources.by_name[each].settings.per_tenant]
    if name is None and own:
        return own
    if name is None:
        raise UsageError("no MCP server has per_tenant = true, so all tenants share them; leave out --tenant")
    if name not in names:
        raise UsageError(f"no MCP server is called '{name}'{did_you_mean(name, names)}; configured: {', '.join(names)}")
    if name not in own:
        raise UsageError(f"{name} has no per_tenant = true, so all tenants share it; leave out --tenant")
    return [name]


@contextlib.asynccontextmanager
async def open_server(
    chat: FlexChat,
    name: str,
    terminal: Terminal | None = None,
    answers: Sequence[str] | None = None,
    *,
    tenant: str | None = None,
) -> AsyncIterator[McpSource]:
    """Open a server by itself; its list of tools does not change the lock.

    Args:
        terminal: The terminal of a person who can sign in and answer questions; None without one.
        answers: The person's answers, KEY=VALUE; None to ask for them.
        tenant: The owner of the server; None for the default tenant.
    """
    whose = tenant or DEFAULT_TENANT
    live = chat.tools.sources.by_name[name]
    context = ToolSourceContext(name=name, folder=live.folder, fetcher=chat.tools.fetcher)
    config: McpConfig = live.settings
    async with contextlib.AsyncExitStack() as stack:
        person = None
        if terminal is not None:
            from .answers import WAIT_S, Answers, browser

            signing_in = None
            if config.auth is not None and config.auth.oauth:
                opening = browser(terminal, port=config.auth.redirect_port, file=TokenFile(config.url or "", whose))
                signing_in = await stack.enter_async_context(opening)
                config = attrs.evolve(config, start_ms=config.start_ms + round(WAIT_S * 1000))
            person = Answers(terminal, live.settings, answers, signing_in)
        source = McpSource(config, context, person, whose)
        stack.push_async_callback(source.aclose)
        yield source


def target_of(config: McpConfig) -> str:
    """Format the command or URL of a server as one line, without secrets."""
    mask = Mask([*config.secrets(), *secrets_of_environment()])
    return mask(config.url if config.url is not None else shlex.join(config.argv))


def ask_server(
    context: CommandContext, server: str, ask: Callable[[Client], Awaitable[Any]], *, tenant: str | None
) -> Any:
    """Return what a configured server answers; one that wants a sign-in gets it at a terminal.

    Args:
        tenant: Whose server it is; None for the default tenant's.

    Raises:
        UsageError: There is no such server, or it refused.
        ServerError: There is no answer.
    """
    chat = context.open_tools()[0]
    (name,) = choose_servers(chat, server, tenant)

    async def answer() -> Any:
        async with chat, open_server(chat, name, context.terminal, tenant=tenant) as source:
            with converting_refusals(name):
                return await source.server.ask(ask, is_call=False)

    return asyncio.run(answer())


@contextlib.contextmanager
def converting_refusals(server: str) -> Iterator[None]:
    """Say what a server refuses.

    Raises:
        UsageError: It refused, or what was asked of it failed.
        ServerError: There is no answer.
    """
    try:
        yield
    except (ServerError, UsageError):
        raise
    except (ToolError, TaskGoneError) as error:
        raise UsageError(f"{server}: {error}") from None
    except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
        raise UsageError(f"{server} refused: {describe_invalid(error)}") from None
