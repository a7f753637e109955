"""A server's tools: listed page by page, and as tools of a source."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
from flexchat.host import did_you_mean, schema_problems
from flexchat.plugin import SourcedTool, ToolSourceError
from flexchat_sdk import clean_schema, clean_text

from .settings import McpConfig

if TYPE_CHECKING:
    from mcp import Client

MAX_PAGES, MAX_TOOLS = 200, 2_000  # a longer list is refused: it never ends, or no model can use it
MAX_ENTRIES = 2_000  # other lists are read no further
DEFAULT_LIFE_S = 300.0  # how long a list counts as fresh if its server gives it no life
MIN_LIFE_S = 10.0  # a list is asked for no more often, however short a life its server gives it

_HEADERS = "its inputSchema has an x-mcp-header that the protocol does not allow"
_DEFINES = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")


@attrs.frozen
class Listing:
    """What a server listed.

    Attributes:
        tools: As the protocol writes them, in the server's order.
        left_out: Why others cannot be tools, by name.
        until: When it is to be asked for again, by time.monotonic().
        connection: Which connection of the server it was asked of, counted from 1.
        has_resources: Whether it declares resources.
        hashes: The digest of each tool, by name.
    """

    tools: Sequence[Mapping[str, Any]]
    until: float
    connection: int = 0
    has_resources: bool = False
    left_out: Mapping[str, str] = attrs.field(factory=dict)
    hashes: Mapping[str, str] = attrs.field(init=False)

    @hashes.default
    def _hashes(self) -> Mapping[str, str]:
        return {tool["name"]: digest(tool) for tool in self.tools}


async def list_tools(client: Client) -> Listing:
    """Ask for all pages.

    Raises:
        ToolSourceError: The list does not end.
    """
    from mcp.shared.exceptions import MCPError
    from mcp_types import METHOD_NOT_FOUND

    from .streams import LISTED

    tools: list[Mapping[str, Any]] = []
    left_out: dict[str, str] = {}
    life_s, next_cursor = DEFAULT_LIFE_S, None
    has_resources = client.server_capabilities.resources is not None
    try:
        async for page in _pages(client.list_tools):
            repaired = (page.meta or {})[LISTED]
            usable = {tool.name for tool in page.tools}  # the SDK leaves out those with headers that may not be sent
            left_out |= {tool["name"]: _HEADERS for tool in repaired["tools"] if tool["name"] not in usable}
            tools += [tool for tool in repaired["tools"] if tool["name"] in usable]
            left_out |= repaired["left_out"]
            if len(tools) > MAX_TOOLS:
                raise ToolSourceError(f"it lists more than {MAX_TOOLS:,} tools")
            if "ttl_ms" in page.model_fields_set:
                life_s = min(life_s, max(page.ttl_ms / 1000, MIN_LIFE_S))
            next_cursor = page.next_cursor
    except MCPError as error:
        # Some servers have tools and do not declare it; only one that refuses the list has none.
        if error.code != METHOD_NOT_FOUND or client.server_capabilities.tools is not None:
            raise
        tools, left_out = [], {}
    if next_cursor is not None:
        raise ToolSourceError("its list of tools does not end: a page leads back, or there are too many")
    return Listing(tools, time.monotonic() + life_s, has_resources=has_resources, left_out=left_out)


async def _pages(fetch: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """Yield the pages of a list, until one is the last or leads back."""
    cursor: str | None = None
    cursors: set[str] = set()
    for _ in range(MAX_PAGES):
        page = await fetch(cursor=cursor)
        yield page
        cursor = page.next_cursor
        # A server that repeats a cursor would be asked for ever.
        if cursor is None or cursor in cursors:
            return
        cursors.add(cursor)


async def pages(fetch: Callable[..., Awaitable[Any]], field: str) -> list[dict[str, Any]]:
    """Return the entries of a list of the SDK's client, as the protocol writes them: the first MAX_ENTRIES.

    Args:
        fetch: Returns a page, given its cursor.
        field: Where the SDK has a page's entries.
    """
    entries: list[dict[str, Any]] = []
    async for page in _pages(fetch):
        entries += [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in getattr(page, field)]
        if len(entries) >= MAX_ENTRIES:
            break
    return entries[:MAX_ENTRIES]


def select_tools(tools: Sequence[Mapping[str, Any]], config: McpConfig) -> list[Mapping[str, Any]]:
    """Return the tools that the config includes and does not exclude."""

    def fits(name: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    return [
        tool
        for tool in tools
        if (not config.include or fits(tool["name"], config.include)) and not fits(tool["name"], config.exclude)
    ]


def remarks(listing: Listing, config: McpConfig) -> list[str]:
    """List the settings without effect, given the tools that a server lists, one sentence each."""
    names = [tool["name"] for tool in listing.tools]
    notes = [
        f"'{pattern}' fits no tool{did_you_mean(pattern, names)}" for pattern in unused_patterns(listing.tools, config)
    ]
    if config.resources and not listing.has_resources:
        notes.append("resources = true has no effect: it has no resources")
    for tool in listing.tools:
        if "outputSchema" in tool and (problem := _output_problem(tool)):
            notes.append(
                f"'{tool['name']}': its results are not checked, because its outputSchema is unusable: {problem}"
            )
    return notes


def _output_problem(tool: Mapping[str, Any]) -> str | None:
    output = tool["outputSchema"]
    problems = schema_problems(output) if isinstance(output, Mapping) else ["it is not an object"]
    return problems[0] if problems else None


def unused_patterns(tools: Sequence[Mapping[str, Any]], config: McpConfig) -> list[str]:
    """Return the patterns of the config that fit no tool."""
    names = [tool["name"] for tool in tools]
    patterns = dict.fromkeys([*config.include, *config.exclude, *(key for key in config.effects if key not in _HINTS)])
    return [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def to_sourced_tool(tool: Mapping[str, Any], config: McpConfig) -> SourcedTool:
    """Convert a listed tool for its source; core removes invisible characters from description and parameters."""
    title = tool.get("title") or tool.get("annotations", {}).get("title")
    settings: dict[str, Any] = {"tool": tool["name"], "hash": digest(tool)}
    if title:
        settings["title"] = clean_text(title)
    if "outputSchema" in tool and not _output_problem(tool):
        settings["output"] = clean_schema(tool["outputSchema"])
    if tool.get("annotations"):
        settings["annotations"] = {key: value for key, value in tool["annotations"].items() if key != "title"}
    effect = effect_of(tool, config.effects)
    return SourcedTool(
        name=tool["name"],
        description=next((t for t in (tool.get("description"), title) if t and clean_text(t)), tool["name"]),
        parameters={"type": "object", **tool["inputSchema"]},
        implementation="mcp",
        settings=settings,
        effect=effect,
        honours_key=_honours_key(config, effect),
        timeout_ms=config.call_timeout_ms,
    )


def configured(config: McpConfig, accepted: SourcedTool, _: SourcedTool | None) -> SourcedTool:
    """Return an accepted tool with what the configuration decides about it now."""
    changed = attrs.evolve(accepted, timeout_ms=config.call_timeout_ms)
    if not accepted.settings.get("resources"):
        tool = {"name": accepted.settings.get("tool"), "annotations": accepted.settings.get("annotations") or {}}
        effect = effect_of(tool, config.effects)
        changed = attrs.evolve(changed, effect=effect, honours_key=_honours_key(config, effect))
    return accepted if changed == accepted else changed


def _honours_key(config: McpConfig, effect: str) -> bool:
    return config.idempotency_meta is not None and effect == "write"


def digest(tool: Mapping[str, Any]) -> str:
    """Return a hash of everything in a definition that a model or a program may rely on."""
    text = json.dumps({key: tool[key] for key in _DEFINES if key in tool}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


Effect = Literal["read", "idempotent", "write"]
_HINTS = ("readOnlyHint", "idempotentHint")


def effect_of(tool: Mapping[str, Any], effects: Mapping[str, Effect]) -> Effect:
    """Determine a tool's effect from the config: by its name, by the first pattern, or by a trusted hint."""
    name, hints = tool["name"], tool.get("annotations", {})
    if name in effects:
        return effects[name]
    for pattern, effect in effects.items():
        if pattern not in _HINTS and fnmatch.fnmatchcase(name, pattern):
            return effect
    return next((effects[hint] for hint in _HINTS if hint in effects and hints.get(hint) is True), "write")
