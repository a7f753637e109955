"""The tool find_tools: its hits are in the later requests of the conversation."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from flexchat.plugin import Implementation, ImplementationType, ToolContext, ToolDefinition

if TYPE_CHECKING:
    from .ranking import ToolIndex

MAX_INDEXES = 16
"""Lists of tools whose indexes are kept: one for each rule, and for each set of tools that principals may use."""
MAX_DESCRIPTION_CHARS = 240

_building = threading.Lock()
_indexes: dict[tuple[int, ...], tuple[Mapping[str, ToolDefinition], ToolIndex]] = {}


@attrs.frozen(kw_only=True)
class FinderSettings:
    """Settings of the implementation; FlexChat takes them from [tools.search]."""

    hits: int = 5


async def run(settings: FinderSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Find tools and load them."""
    tools = context.deferred_tools()
    index = await context.run_in_thread(index_of, tools)
    hits = index.find(params["query"], settings.hits)
    context.load_tools([hit.tool for hit in hits])
    if not hits:
        hint = "No tool fits: name what it does, and for which service or thing, in other words."
        return {"tools": [], "hint": hint if tools else "Nothing can be found here: no rule answers that defers tools."}
    return {
        "tools": [{"name": hit.name, "description": shortened(hit.tool.description)} for hit in hits],
        "note": "You can call these tools from now on.",
    }


def index_of(tools: Mapping[str, ToolDefinition]) -> ToolIndex:
    """Return the index of these tools, made once for the same ones."""
    from .ranking import ToolIndex

    key = tuple(map(id, tools.values()))
    with _building:
        # Kept with the tools, whose ids could otherwise be those of others; the last used comes last.
        _indexes[key] = entry = _indexes.pop(key, None) or (tools, ToolIndex(tools))
        while len(_indexes) > MAX_INDEXES:
            del _indexes[next(iter(_indexes))]
    return entry[1]


def shortened(text: str) -> str:
    """Return a description on one line, as a model sees it among the hits."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_DESCRIPTION_CHARS else f"{text[: MAX_DESCRIPTION_CHARS - 1]}…"


FINDER_TYPE = ImplementationType(
    name="toolsearch", settings_class=FinderSettings, run=run, summary="find_tools: searches the deferred tools"
)

FIND_TOOLS = ToolDefinition(
    name="find_tools",
    description=(
        "Find tools that are not among yours yet: there are more than can be shown. Describe what you need to do, and "
        "with which service or thing; or give the exact name of a tool. The tools it finds can be called afterwards."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": 'For example "refund a payment in Stripe".'}
        },
        "required": ["query"],
    },
    implementation=Implementation(type="toolsearch"),
    effect="read",
    repeatable=True,
)
