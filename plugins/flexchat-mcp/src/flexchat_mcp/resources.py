"""A server's resources as two tools: one lists them, one reads them.

Their definitions are ours, whatever the server has to read: what was accepted stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flexchat.host import did_you_mean
from flexchat.plugin import SourcedTool, ToolError
from flexchat_sdk import clean_text

from .listing import MAX_ENTRIES, digest, pages
from .settings import McpConfig

if TYPE_CHECKING:
    from mcp import Client

LIST, READ = "list_resources", "read_resource"
MAX_LISTED = 50  # entries in one answer of the tool

_MAX_ABOUT_CHARS = 200
_METHOD_NOT_FOUND = -32601
_UNKNOWN = (-32602, -32002)  # a URI that the server does not know: by 2026-07-28, and by the revisions before


def resource_tools(server: str, config: McpConfig) -> list[SourcedTool]:
    """Return the two tools."""
    find = {"type": "string", "maxLength": 200, "description": "Only those that have this in their address or text."}
    start = {"type": "integer", "minimum": 0, "description": "Which one to begin with; next_start of the last answer."}
    uri = {
        "type": "string",
        "minLength": 1,
        "maxLength": 4096,
        "description": "As listed, as named in a tool's result, or made of a template.",
    }
    about = f"List what the MCP server '{server}' has to read: resources, and templates of further ones, by their URIs."
    reading = f"Read a resource of the MCP server '{server}', by its URI."
    return [
        _tool(LIST, about, {"find": find, "start": start}, [], config.call_timeout_ms),
        _tool(READ, reading, {"uri": uri}, ["uri"], config.call_timeout_ms),
    ]


def _tool(
    name: str, description: str, properties: Mapping[str, Any], required: list[str], timeout_ms: int | None
) -> SourcedTool:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    listed = {"name": name, "description": description, "inputSchema": schema}
    return SourcedTool(
        name=name,
        description=description,
        parameters=schema,
        implementation="mcp",
        settings={"tool": name, "hash": digest(listed), "resources": True},
        effect="read",
        timeout_ms=timeout_ms,
    )


class Resources:
    """What the two tools of a server answer.

    Args:
        server: What the config calls it.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._uris: list[str] = []

    async def answer(self, client: Client, tool: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of one of them, as the protocol writes the result of a call.

        Raises:
            ToolError: The server has no resources, or none with this URI.
            MCPError, ValidationError: It refuses, or answers something else.
        """
        if client.server_capabilities.resources is None:
            raise ToolError(f"the MCP server '{self._server}' has no resources")
        if tool == READ:
            return {"content": await self._read(client, params["uri"])}
        resources, templates = await resources_of(client)
        self._uris = [one["uri"] for one in resources]
        part = _part(resources, templates, params.get("find") or "", params.get("start") or 0)
        return {"content": [], "structuredContent": part}

    async def _read(self, client: Client, uri: str) -> list[dict[str, Any]]:
        from mcp.shared.exceptions import MCPError

        try:
            contents = await contents_of(client, uri)
        except MCPError as error:
            if error.code not in _UNKNOWN:
                raise
            near = did_you_mean(uri, self._uris)
            text = f"the MCP server '{self._server}' cannot read it: {error.message} ({error.code}){near}"
            raise ToolError(text) from None
        if not contents:
            return [{"type": "text", "text": f"[{uri}: it is empty]"}]
        blocks: list[dict[str, Any]] = []
        for each in contents:
            if len(contents) > 1:
                blocks.append({"type": "text", "text": f"{each['uri']}:"})
            blocks.append({"type": "resource", "resource": each})
        return blocks


async def resources_of(client: Client) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a server's resources and its templates, as the protocol writes them; none if it has no such thing."""
    from mcp.shared.exceptions import MCPError

    if client.server_capabilities.resources is None:
        return [], []
    resources = await pages(client.list_resources, "resources")
    try:
        return resources, await pages(client.list_resource_templates, "resource_templates")
    except MCPError as error:
        if error.code != _METHOD_NOT_FOUND:
            raise
        return resources, []


async def contents_of(client: Client, uri: str) -> list[dict[str, Any]]:
    """Read a resource's contents in the protocol's form: one or several, each a text or bytes."""
    result = await client.read_resource(uri)
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in result.contents]


def _part(
    resources: Sequence[Mapping[str, Any]], templates: Sequence[Mapping[str, Any]], find: str, start: int
) -> dict[str, Any]:
    """Return a part of what a server has, from an entry on: resources, then templates."""
    entries = [entry for each in (*resources, *templates) if (entry := _describe(each)) is not None]
    if find:
        entries = [e for e in entries if any(find.casefold() in str(text).casefold() for text in e.values())]
    part = entries[start : start + MAX_LISTED]
    page: dict[str, Any] = {
        "resources": [entry for entry in part if "uri" in entry],
        "templates": [entry for entry in part if "uriTemplate" in entry],
        "total": len(entries),
    }
    if start + len(part) < len(entries):
        page["next_start"] = start + len(part)
    if len(resources) == MAX_ENTRIES or len(templates) == MAX_ENTRIES:
        page["note"] = f"no more than {MAX_ENTRIES:,} are listed; others can be read by their URIs"
    return page


def _describe(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Describe a resource or template for the model; None if it is not for models."""
    audience = (entry.get("annotations") or {}).get("audience")
    if audience and "assistant" not in audience:
        return None
    description = {key: entry[key] for key in ("uri", "uriTemplate") if key in entry}
    texts = {"name": entry.get("title") or entry.get("name"), "description": entry.get("description")}
    for key, text in texts.items():
        about = " ".join(clean_text(text or "").split())
        if about and about not in description.values():
            description[key] = about if len(about) <= _MAX_ABOUT_CHARS else about[: _MAX_ABOUT_CHARS - 1] + "…"
    return description | {key: entry[key] for key in ("mimeType", "size") if key in entry}
