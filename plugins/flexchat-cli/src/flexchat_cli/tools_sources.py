"""flexchat tools diff and accept: shows the changes of tool sources, and accepts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from flexchat.domain.sourced import ToolChange
from flexchat.domain.text import counted
from flexchat.errors import ToolSourceError
from flexchat.tools.sources import SourceState
from flexchat_sdk.sources.differences import MISSING, Difference, differences

from .context import CommandContext
from .parameters import argument, run_async
from .terminal import Style, Terminal
from .tool_arguments import signature
from .usage import FAILED, OK, UsageError

_MAX_PLACES = 12
_MAX_TOOLS = 50
_MAX_CHARS = 160
_STYLES: dict[str, Style] = {"new": "plain", "changed": "plain", "gone": "red"}
_KINDS = ("new", "changed", "gone")


def _complete_source(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in ctx.obj.open_tools()[0].tools.sources.by_name if name.startswith(incomplete)]


@click.command
@argument(
    "source",
    metavar="SOURCE",
    required=False,
    shell_complete=_complete_source,
    help="only this source (default: all)",
)
@click.pass_obj
@run_async
async def diff(context: CommandContext, source: str | None) -> int:
    """Show the changes in tool sources since their tools were accepted.

    The exit status is 1 if anything has.
    """
    terminal = context.terminal
    chat, _ = context.open_tools()
    if source is not None:
        chat.tools.sources.state(source)  # report a wrong name before any source is opened
    names = [source] if source is not None else [*chat.tools.sources.by_name]
    if not names:
        raise UsageError("no tool sources: the configuration has no [[tools.TYPE]] tables, or tools.enabled is false")
    accepted = {state.name for state in chat.tools.sources.states() if state.accepted}
    states: dict[str, SourceState | ToolSourceError] = {}
    async with chat:
        for name in names:
            try:
                states[name] = await chat.tools.sources.look(name)
            except ToolSourceError as error:
                states[name] = error
    if context.json:
        terminal.json([_as_data(name, state) for name, state in states.items()])
    else:
        for name, state in states.items():
            _show(terminal, name, state, is_first=name not in accepted)
    failed = any(isinstance(state, ToolSourceError) or state.changes for state in states.values())
    return FAILED if failed else OK


@click.command
@argument("source", metavar="SOURCE", shell_complete=_complete_source, help="the source's name")
@argument("tools", metavar="TOOL", nargs=-1, help="only these tools (default: all)")
@click.pass_obj
@run_async
async def accept(context: CommandContext, source: str, tools: tuple[str, ...]) -> None:
    """Accept the current tools of a source.

    The source is opened, and the accepted changes are printed.
    """
    terminal = context.terminal
    chat, _ = context.open_tools()
    sources = chat.tools.sources
    is_first = not sources.state(source).accepted
    async with chat:
        changes = await sources.accept(source, [*tools])
    state = sources.state(source)
    if context.json:
        terminal.json({"source": source, "accepted": [_change(change) for change in changes]})
        return
    for change in changes:
        terminal.out(f"accepted  {change.kind:7}  {change.name}")
    if is_first:
        terminal.out(f"{counted(len(state.tools), 'tool')} of {source} accepted")
    elif not changes:
        terminal.out(f"{source}: nothing has changed")
    for name, why in state.left_out.items():
        terminal.say(f"{name} is left out: {why}")
    terminal.say(f"kept in {sources.lock_path}", "dim")


def _show(terminal: Terminal, name: str, state: SourceState | ToolSourceError, *, is_first: bool) -> None:
    if isinstance(state, ToolSourceError):
        terminal.error(str(state))
        return
    counts = [f"{number} {kind}" for kind in _KINDS if (number := sum(c.kind == kind for c in state.changes))]
    if is_first and not state.changes:
        counts = [f"opened for the first time: {counted(len(state.tools), 'tool')} accepted"]
    terminal.out(f"{name}: {', '.join(counts) or 'as accepted'}", "bold")
    for change in state.changes[:_MAX_TOOLS]:
        terminal.out(f"  {change.kind:7}  {change.name}", _STYLES[change.kind])
        for warning in change.warnings:
            terminal.out(f"           {_shorten(warning)}", "red")
        for line in _lines(change):
            terminal.out(f"           {line}", "dim")
    if len(state.changes) > _MAX_TOOLS:
        terminal.out(f"  and {len(state.changes) - _MAX_TOOLS} more; --json shows all", "dim")
    for tool, why in state.left_out.items():
        terminal.out(f"  left out {tool}: {why}", "dim")
    if state.changes:
        terminal.say(f"flexchat tools accept {name} accepts the current tools", "dim")


def _lines(change: ToolChange) -> Iterator[str]:
    """Yield what a person needs to decide."""
    if change.kind == "gone":
        yield "still offered: it can still be called" if change.offered else "not offered any more"
    elif change.accepted is None or change.now is None:
        tool = change.now
        if tool is not None:
            yield f"{signature(tool.definition('', ''))} [{tool.effect}]"
            yield _shorten(tool.description)
    else:
        places = differences(change.accepted, change.now)
        for each in places[:_MAX_PLACES]:
            yield from _difference(each)
        if len(places) > _MAX_PLACES:
            yield f"and {len(places) - _MAX_PLACES} more places; --json shows all"
        left_out = "left out until you accept this: it can no longer be called"
        yield "offered as accepted until you accept this" if change.offered else left_out


def _difference(difference: Difference) -> Iterator[str]:
    before, now = difference.before, difference.now
    if before is MISSING:
        yield f"+ {difference.place}: {_shorten(now)}"
    elif now is MISSING:
        yield f"- {difference.place}: {_shorten(before)}"
    elif max(len(_shorten(before)), len(_shorten(now))) < 40:
        yield f"~ {difference.place}: {_shorten(before)} → {_shorten(now)}"
    else:
        yield f"~ {difference.place}:"
        yield f"    - {_shorten(before)}"
        yield f"    + {_shorten(now)}"


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"


def _as_data(name: str, state: SourceState | ToolSourceError) -> dict[str, Any]:
    if isinstance(state, ToolSourceError):
        return {"source": name, "error": str(state)}
    changes = [_change(change) for change in state.changes]
    return {"source": name, "changes": changes, "left_out": dict(state.left_out)}


def _change(change: ToolChange) -> dict[str, Any]:
    data: dict[str, Any] = {"tool": change.name, "kind": change.kind, "offered": change.offered}
    if change.accepted is not None and change.now is not None:
        data["differences"] = [difference.to_dict() for difference in differences(change.accepted, change.now)]
    if change.now is not None:
        data |= {"now": change.now.to_dict(), "warnings": [*change.warnings]}
    return data
