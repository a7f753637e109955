"""What a chat offers to MCP clients: its tools, prompts and resources, in a fixed order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import attrs
from flexchat import FlexChat, NotPermittedError, UnknownCollectionError
from flexchat.host import ResponseRule, RuleTools, read_file
from flexchat.plugin import ToolDefinition
from flexchat.store import DocumentStore, located

from .contents import resource_content
from .settings import McpServerConfig, ServedPrompt, ServedResource

ASK, GET_RESULT = "ask", "get_result"
MAX_ATTACHMENTS = 100
SCHEME = "flexchat"
PAGE = 100
MAX_FILE_BYTES = 16 * 2**20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_Item = TypeVar("_Item", ServedPrompt, ServedResource)
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")

ASK_TOOL: Mapping[str, Any] = {
    "name": ASK,
    "title": "Ask the chat",
    "description": "Ask FlexChat's chat, which has tools and documents of its own, and get its answer. Pass the "
    "conversation of an earlier answer to go on with it.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "minLength": 1, "description": "The message."},
            "conversation": {"type": "string", "minLength": 1, "description": "Id of a conversation to go on with."},
            "attachments": {
                "type": "array",
                "maxItems": MAX_ATTACHMENTS,
                "description": "Images, PDFs, sounds, videos and texts of the message.",
                "items": {
                    "type": "object",
                    "properties": {
                        "data": {"type": "string", "minLength": 1, "description": "The file, in Base64."},
                        "mimeType": {"type": "string", "description": "Its type, if it is known."},
                        "name": {"type": "string", "description": "Its name."},
                    },
                    "required": ["data"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["message"],
        "additionalProperties": False,
    },
    "outputSchema": {
        "type": "object",
        "properties": {"answer": {"type": "string"}, "conversation": {"type": ["string", "null"]}},
        "required": ["answer"],
    },
    "annotations": {"readOnlyHint": False, "openWorldHint": True},
}
RESULT_TOOL: Mapping[str, Any] = {
    "name": GET_RESULT,
    "title": "Result of an earlier call",
    "description": "Return the result of a call that was waiting for a person's reply, by the id that the call "
    "returned.",
    "inputSchema": {
        "type": "object",
        "properties": {"call": {"type": "string", "minLength": 1, "description": "The id."}},
        "required": ["call"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


class Catalog:
    """What one chat offers. Tools of sources may change; the others are looked up once."""

    def __init__(self, chat: FlexChat) -> None:
        self.chat = chat
        self.settings: McpServerConfig = chat.config.tables.get("mcp_server") or McpServerConfig()
        self._tools: Mapping[str, ToolDefinition] | None = None

    @property
    def keeps(self) -> bool:
        """Whether calls can be kept, and wait for replies."""
        return self.chat.journal is not None

    async def tools(self) -> Mapping[str, ToolDefinition]:
        """Return the tools under the names that clients use, sorted by them."""
        if self._tools is not None:
            return self._tools
        manager, by_name = self.chat.tools, dict[str, ToolDefinition]()
        for rule in self._rules():
            await manager.ready_for(rule)
            offer = manager.offer_to(rule)
            for tool in offer.list():
                name = tool.name if _NAME.fullmatch(tool.name) else offer.wire_name(tool.name)
                by_name.setdefault(name, tool)
        for name in self.own():
            by_name.pop(name, None)
        tools = dict(sorted(by_name.items()))
        if not manager.sources.by_name and not manager.is_restricted:  # then it depends on who asks
            self._tools = tools
        return tools

    def own(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the tools that are FlexChat itself."""
        own = {ASK: ASK_TOOL} if self.settings.chat and self.chat.config.responses else {}
        return {**own, GET_RESULT: RESULT_TOOL} if self.keeps else own

    async def listed_tools(self) -> list[Mapping[str, Any]]:
        """Return all tools as tools/list shows them."""
        return [*self.own().values(), *(_listed(name, tool) for name, tool in (await self.tools()).items())]

    def prompt(self, name: str) -> ServedPrompt | None:
        """Return the prompt of this name; None if there is none."""
        return next((prompt for prompt in self._permitted(self.settings.prompts) if prompt.name == name), None)

    def listed_prompts(self) -> list[dict[str, Any]]:
        """Return the prompts as prompts/list shows them."""
        prompts = []
        for prompt in self._permitted(self.settings.prompts):
            arguments = [
                {"name": each.name, "description": each.description, "required": each.required}
                for each in prompt.arguments
            ]
            prompts.append({"name": prompt.name, "description": prompt.description, "arguments": arguments})
        return prompts

    async def listed_resources(self, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of resources as resources/list shows them, and the cursor of the next page, if there is one.

        Raises:
            ValueError: The cursor is none of ours.
        """
        places = await self._places()
        if cursor is None:
            own = [_resource(each) for each in self._permitted(self.settings.resources) if not each.slots]
            return own, f"{places[0]}/" if places else None
        place, _, last = cursor.rpartition("/")
        if place not in places:
            raise ValueError("the cursor is not one that this server has returned")
        name, collection = map(unquote, place.split("/"))
        documents = await self._stores()[name].list(collection=collection, limit=PAGE, after=unquote(last) or None)
        listed = [
            {
                "uri": _uri(name, collection, document.id or ""),
                "name": document.title,
                "description": document.source or f"document of {name}/{collection}",
                "mimeType": "text/plain",
            }
            for document in documents
        ]
        if len(documents) == PAGE:
            return listed, f"{place}/{quote(documents[-1].id or '', safe='')}"
        following = places[places.index(place) + 1 :]
        return listed, f"{following[0]}/" if following else None

    def listed_templates(self) -> list[dict[str, Any]]:
        """Return the templates as resources/templates/list shows them."""
        listed = [_resource(each, key="uriTemplate") for each in self._permitted(self.settings.resources) if each.slots]
        if self._stores():
            listed.append(
                {
                    "uriTemplate": f"{SCHEME}://{{store}}/{{collection}}/{{id}}",
                    "name": "document",
                    "description": "A document of a store, by its id.",
                    "mimeType": "text/plain",
                }
            )
        return listed

    def resource(self, uri: str) -> tuple[ServedResource, Mapping[str, str]] | None:
        """Return the config's resource at an address, with the values of its slots; None if it has none."""
        for each in self._permitted(self.settings.resources):
            if (slots := each.match(uri)) is not None:
                return each, slots
        return None

    def content(self, resource: ServedResource) -> dict[str, Any]:
        """Return the content of a resource that is a text or a file. Raises OSError."""
        if resource.text is not None:
            return resource_content(resource.uri, resource.mime_type or "text/plain", resource.text)
        assert resource.file is not None
        data = read_file(located(resource.file), most=MAX_FILE_BYTES)
        return resource_content(resource.uri, resource.mime_type, data)

    async def document(self, uri: str) -> dict[str, Any] | None:
        """Return the content of a document at an address; None if there is none."""
        parts = uri.removeprefix(f"{SCHEME}://").split("/")
        if not uri.startswith(f"{SCHEME}://") or len(parts) != 3:
            return None
        store_name, collection, id = map(unquote, parts)
        store = self._stores().get(store_name)
        if store is None:
            return None
        try:
            document = await _find(store, collection, id)
        except (UnknownCollectionError, NotPermittedError):
            return None
        return None if document is None else resource_content(uri, "text/plain", document)

    def _permitted(self, items: Sequence[_Item]) -> Sequence[_Item]:
        """Return the prompts or resources without those of tools that the current principal may not use."""
        manager = self.chat.tools
        if not manager.is_restricted:
            return items
        tools = manager.get_registry()
        return [each for each in items if each.tool is None or tools.has(each.tool)]

    def _rules(self) -> Sequence[ResponseRule]:
        rules = self.chat.config.responses
        if self.settings.tools is None:
            return rules
        rule = rules[0] if rules else ResponseRule(llm="")
        return [attrs.evolve(rule, tools=RuleTools(allowed_tools=self.settings.tools))]

    def _stores(self) -> Mapping[str, DocumentStore]:
        if not self.settings.documents:
            return {}
        return {name: store for name, store in self.chat.stores.items() if hasattr(store, "list")}  # type: ignore[misc]

    async def _places(self) -> list[str]:
        places = []
        for name, store in sorted(self._stores().items()):
            places += [f"{quote(name, safe='')}/{quote(each.name, safe='')}" for each in await store.collections()]
        return places


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a prompt's text with the arguments in the place of {{name}}; those not given are empty."""
    return _SLOT.sub(lambda match: values.get(match[1], ""), text)


def output_of(tool: ToolDefinition) -> Mapping[str, Any] | None:
    """Return the JSON Schema of a tool's result, if it has one."""
    settings = tool.implementation.settings
    output = settings.get("output") if isinstance(settings, Mapping) else getattr(settings, "output", None)
    return output if isinstance(output, Mapping) else None


def _listed(name: str, tool: ToolDefinition) -> dict[str, Any]:
    settings = tool.implementation.settings
    title = settings.get("title") if isinstance(settings, Mapping) else getattr(settings, "title", None)
    output = output_of(tool)
    return {
        "name": name,
        **({"title": title} if isinstance(title, str) and title else {}),
        "description": tool.description,
        "inputSchema": dict(tool.parameters),
        **({"outputSchema": dict(output)} if output is not None else {}),
        "annotations": {
            "readOnlyHint": tool.effect == "read",
            "destructiveHint": tool.effect == "write",
            "idempotentHint": tool.effect != "write",
        },
    }


def _resource(resource: ServedResource, key: str = "uri") -> dict[str, Any]:
    kind = {"mimeType": resource.mime_type} if resource.mime_type else {}
    return {key: resource.uri, "name": resource.name, "description": resource.description, **kind}


def _uri(store: str, collection: str, id: str) -> str:
    return f"{SCHEME}://{'/'.join(quote(part, safe='') for part in (store, collection, id))}"


async def _find(store: DocumentStore, collection: str, id: str) -> str | None:
    # Stores list in the order of ids, starting after one: the id itself follows the greatest text before it.
    if not id:
        return None
    before = f"{id[:-1]}{chr(max(ord(id[-1]) - 1, 0))}\U0010ffff".encode("utf-8", "replace").decode()
    for document in await store.list(collection=collection, limit=PAGE, after=before):
        if document.id == id:
            return document.text
    return None
