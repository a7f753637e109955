"""``flexchat tools record``: create a mock from one call of the real tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click
from flexchat import FlexChat
from flexchat.host import Mask, PluginHost, path_exists
from flexchat.plugin import ToolDefinition, ToolResult
from flexchat.store import replacing
from flexchat_cli import (
    FAILED,
    FILE_NAME,
    OK,
    CommandContext,
    Terminal,
    UsageError,
    call_arguments,
    find_tool,
    read_arguments,
    tool_name,
)
from flexchat_sdk import toml_table


@click.command
@tool_name
@call_arguments
@click.option("--yes", is_flag=True, help="call it without asking, even if it changes something")
@click.option("--out", metavar="FILE", type=FILE_NAME, help="a new .toml or .json file; default: print TOML")
@click.pass_obj
def record(context: CommandContext, name: str, words: tuple[str, ...], yes: bool, out: str | None) -> int:
    """Call a tool once and print a mock that returns the same result."""
    terminal = context.terminal
    chat, host = context.open_tools()
    path = _new_file(out)
    tool, result = asyncio.run(_call(chat, host, name, words, terminal, yes=yes))
    if result is None:
        terminal.say("nothing was called", "dim")
        return FAILED
    if not result.success:
        terminal.error(f"{tool.name}: {result.explained()}")
        return FAILED
    mock = record_mock(tool, result.result, chat.mask)
    is_json = context.json or (path is not None and path.suffix == ".json")
    text = None if is_json else _toml(mock.entry)
    if text is None and not is_json:
        if path is not None:
            raise UsageError(f"the answer has a null, which TOML cannot express: name a .json file instead of {path}")
        terminal.say("note: the answer has a null, which TOML cannot express: this is JSON", "dim")
    text = text or json.dumps({"tools": {"registry": [mock.entry]}}, ensure_ascii=False, indent=2) + "\n"
    if path is None:
        terminal.write(text)
    else:
        with replacing(path) as file:
            file.write(text)
        terminal.say(f"{path}: the mock of {tool.name}")
    if mock.masked:
        terminal.say(f"masked, since it looks like a secret: {', '.join(mock.masked)}")
    return OK


async def _call(
    chat: FlexChat, host: PluginHost, name: str, words: Sequence[str], terminal: Terminal, *, yes: bool
) -> tuple[ToolDefinition, ToolResult | None]:
    """Call the tool after confirmation. Returns the tool and its result; None if the user declined."""
    async with chat:
        tool = await find_tool(chat, host, name)
        arguments = read_arguments(words, tool)
        if tool.effect != "read" and not yes and not _is_confirmed(tool, terminal):
            return tool, None
        return tool, await chat.call_tool(tool.name, arguments, origin="command line")


def _new_file(name: str | None) -> Path | None:
    if name is None:
        return None
    out = Path(name)
    if out.suffix not in (".toml", ".json"):
        raise UsageError(f"--out {name}: a config is a .toml or a .json file")
    if path_exists(out):
        raise UsageError(f"--out {name}: the file exists already; leave --out away, and copy what is printed")
    return out


def _is_confirmed(tool: ToolDefinition, terminal: Terminal) -> bool:
    if not terminal.interactive():
        raise UsageError(f"{tool.name} changes something, and there is no terminal to ask at: --yes calls it")
    return terminal.confirm(f"{tool.name} changes something, for real. Call it?")


def _toml(entry: dict[str, Any]) -> str | None:
    """Format the tool as TOML; None if it contains a null, which TOML cannot express."""
    tables = {"[[tools.registry]]": {**entry}}
    tables["[tools.registry.implementation]"] = tables["[[tools.registry]]"].pop("implementation")
    try:
        return "\n".join(toml_table(header, table) for header, table in tables.items())
    except TypeError:
        return None


@attrs.frozen
class RecordedMock:
    """A mock tool for a config.

    Attributes:
        entry: Its table of tools.registry.
        masked: JSONPaths of values that were masked as likely secrets: "$.items[0].token".
    """

    entry: dict[str, Any]
    masked: tuple[str, ...]


def record_mock(tool: ToolDefinition, answer: Any, mask: Mask) -> RecordedMock:
    """Create a mock that returns *answer*, with the tool's output_schema or else one inferred from the answer.

    Args:
        answer: JSON data.
    """
    masked_answer = mask.data(answer)
    masked = tuple(_differences("$", answer, masked_answer))
    schema = getattr(tool.implementation.settings, "output_schema", None)
    if masked or not schema:
        schema = shape_of(masked_answer)  # Masked values may violate the tool's output_schema.
    entry: dict[str, Any] = {name: getattr(tool, name) for name in ("name", "description", "effect", "parameters")}
    entry["implementation"] = {"type": "mock", "mock_response": masked_answer, "output_schema": schema}
    return RecordedMock(entry, masked)


def shape_of(*values: Any) -> dict[str, Any]:
    """Infer a JSON Schema that all *values* satisfy: their types and their common properties."""
    types = sorted({_type(value) for value in values})
    if "integer" in types and "number" in types:
        types.remove("integer")
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    objects = [value for value in values if isinstance(value, Mapping)]
    if objects:
        names = list(dict.fromkeys(name for each in objects for name in each))
        schema["properties"] = {name: shape_of(*(each[name] for each in objects if name in each)) for name in names}
        schema["required"] = [name for name in names if all(name in each for each in objects)]
    lists = [value for value in values if _type(value) == "array"]
    items = [item for each in lists for item in each]
    if items:
        schema["items"] = shape_of(*items)
    return schema


def _type(value: Any) -> str:
    kinds: Mapping[str, Any] = {
        "null": type(None), "boolean": bool, "integer": int, "number": float, "string": str,
        "object": Mapping, "array": Sequence,
    }  # fmt: skip  # bool is a subclass of int, and str a Sequence: the order matters
    return next(name for name, kind in kinds.items() if isinstance(value, kind))


def _differences(place: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, Mapping):
        for name, value in before.items():
            yield from _differences(f"{place}.{name}", value, after[name])
    elif isinstance(before, (list, tuple)):
        for index, value in enumerate(before):
            yield from _differences(f"{place}[{index}]", value, after[index])
    elif before != after:
        yield place
