"""The implementation type "mcp": a call of a server's tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from flexchat.host import value_problem
from flexchat.plugin import EffectUnknownError, ToolContext, ToolError, ToolSourceError

from .errors import AnswerLostError, AnswerTooLargeError, ServerUnusableError
from .person_behind import PersonBehind
from .results import text_of, value_of
from .settings import McpToolSettings
from .source import McpSource, said

if TYPE_CHECKING:
    from mcp import Client

_MOST_ERROR_CHARS = 8_000


async def run(settings: McpToolSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Call a tool and return what its answer says.

    Raises:
        ToolError: The server or the tool refused or failed, or the definition is no longer the accepted one.
        EffectUnknownError: The tool changes something, and its answer was lost.
    """
    if context.source is None:
        raise ToolError("this tool belongs to an MCP server that the configuration no longer has")
    name, tool = context.source.name, settings.tool
    is_write = context.tool.effect == "write"
    was_asked, person = False, PersonBehind(context)
    try:
        opened = cast(McpSource, await context.source.opened())
        if settings.resources and not opened.config.resources:
            raise ToolError(f"the MCP server '{name}' is configured without resources = true", nothing_done=True)
        name_of_key, key = opened.config.idempotency_meta, context.key
        meta = {name_of_key: key} if name_of_key is not None and key is not None else None

        async def request(client: Client) -> dict[str, Any]:
            from .connection import call_tool

            nonlocal was_asked
            was_asked = True
            if settings.resources:
                return await source.resources.answer(client, tool, params)
            return await call_tool(client, tool, params, meta, person.answer, report)

        async def report(progress: float, total: float | None, message: str | None) -> None:
            await context.report_progress(progress, total, message or "")

        async with opened.of(context.tenant) as source:
            if not settings.resources:
                await source.check(tool, settings.hash)
            result = await source.server.ask(
                request, may_repeat=not is_write, answer=person.answer, whose=context.turn_id or context.call_id
            )
    except (ToolSourceError, ServerUnusableError) as error:
        raise ToolError(f"the MCP server '{name}' cannot be used: {error}", nothing_done=True) from None
    except asyncio.CancelledError:
        if was_asked:
            raise
        text = f"the MCP server '{name}' was not ready in time"
        raise ToolError(text, nothing_done=True) from None  # no matter to a turn that was cancelled
    except AnswerTooLargeError as error:
        text = f"the answer of the MCP server '{name}' cannot be read: {error}"
        if is_write:
            raise EffectUnknownError(text, hint="it was called, and answered too much") from None
        raise ToolError(text, hint="ask for less at once") from None
    except AnswerLostError as error:
        text = f"the MCP server '{name}' did not answer: {error}"
        if is_write and error.may_have_acted:
            raise EffectUnknownError(text) from None
        may_have_acted = error.may_have_acted
        raise ToolError(text, retryable=not may_have_acted, nothing_done=not may_have_acted) from None
    except (ToolError, TimeoutError):
        raise
    except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
        raise _refused(name, error, is_write=is_write) from None
    try:
        return person.told(_value(result, settings, is_write=is_write))
    except ToolError as error:
        raise person.told_error(error) from None


def _value(result: Mapping[str, Any], settings: McpToolSettings, *, is_write: bool) -> Any:
    """Return what a result says.

    Raises:
        ToolError: It says that the tool failed, or is not what the tool's outputSchema says.
    """
    if result.get("isError"):
        texts = [text for block in result.get("content", ()) if (text := text_of(block)) is not None]
        raise ToolError("\n".join(texts)[:_MOST_ERROR_CHARS] or "the tool failed and does not say why")
    if settings.output is not None and not is_write:  # what has changed something is not turned into a failure
        if "structuredContent" not in result:
            raise ToolError("the tool's answer lacks the structured content that it promises")
        problem = value_problem(result["structuredContent"], settings.output)
        if problem is not None:
            raise ToolError(f"the tool's answer is not what it promises: {problem}")
    return value_of(result, settings.output)


def _refused(name: str, error: Exception, *, is_write: bool) -> ToolError:
    """Return what a refusal by the protocol, or an answer that is none, means."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError) and is_write:
        return EffectUnknownError(f"the MCP server '{name}': {said(error)}")
    return ToolError(f"the MCP server '{name}' refused the call: {said(error)}")
