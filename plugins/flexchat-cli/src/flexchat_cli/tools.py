"""flexchat tools: see the tools and their cost, run one by hand, and accept the changes of tool sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.domain import ToolDefinition
from flexchat.domain.prices import Cost
from flexchat.domain.sourced import ToolChange
from flexchat.domain.text import counted
from flexchat.errors import ToolSourceError, did_you_mean
from flexchat.tools.sources import SourceState
from flexchat_sdk.sources.lock import MISSING, Difference, differences

from .context import FAILED, OK, CommandContext, UsageError
from .explain import rule_label
from .parameters import TEXT, argument, command, completes
from .questions import Questions
from .terminal import Style, Terminal
from .tool_arguments import read_arguments, signature
from .tool_costs import BYTES_PER_TOKEN, ToolsCost, rule_cost

if TYPE_CHECKING:
    from flexchat.app import FlexChat
    from flexchat.plugin.host import PluginHost


_complete_tool = completes(lambda context: [tool.name for tool in _tools(context.open_tools()[0])])
tool_name = argument("name", metavar="NAME", shell_complete=_complete_tool, help="the tool's name")
"""The argument that names a tool."""

call_arguments = argument(
    "words",
    metavar="KEY=VALUE",
    nargs=-1,
    type=TEXT,
    help="its arguments, with the types of the tool's schema; or one JSON object",
)
"""The arguments of a call; ``read_arguments`` reads them."""


@command
def list_(context: CommandContext) -> None:
    """List the tools.

    Every tool is shown as a signature, with its description.
    """
    terminal = context.terminal
    chat, _ = context.open_tools()
    tools = _tools(chat)
    if context.json:
        terminal.json([_as_data(tool) for tool in tools])
        return
    for tool in tools:
        terminal.out(signature(tool), "bold")
        source = f", from {tool.source}" if tool.source is not None else ""
        terminal.paragraph(f"{tool.description} [{tool.implementation.type}{source}]", indent="    ")
    if not tools and not chat.tools.sources.by_name:
        terminal.say("no tools: the configuration has none, or tools.enabled is false")
    for state in chat.tools.sources.states():
        if not state.accepted:
            terminal.say(f"source '{state.name}' was never opened: flexchat tools accept {state.name} does it", "dim")


@command
@tool_name
async def show(context: CommandContext, name: str) -> None:
    """Print a tool's definition."""
    chat, host = context.open_tools()
    async with chat:
        context.terminal.json(_as_data(await find_tool(chat, host, name)))


@command
@tool_name
@call_arguments
@click.option(
    "--key", metavar="TEXT", help="for a tool that changes something: a repeated key returns the first result"
)
async def call(context: CommandContext, name: str, words: tuple[str, ...], key: str | None) -> int:
    """Run a tool: NAME key=value ….

    Its result is printed as JSON; with --json, together with the record of the call.
    """
    terminal = context.terminal
    chat, host = context.open_tools()
    async with chat:
        tool = await find_tool(chat, host, name)
        arguments, person = read_arguments(words, tool), Questions(context.terminal)
        result = await chat.call_tool(
            tool.name, arguments, origin="command line", idempotency_key=key, on_question=person
        )
    for note in result.notes:
        terminal.say(f"note: {note}", "dim")
    if context.json:
        terminal.json(result.to_dict())
    elif result.success:
        terminal.json(result.result)
    if not result.success:
        terminal.error(f"{name}: {result.explained()}")
    return OK if result.success else FAILED


def _tools(chat: FlexChat) -> list[ToolDefinition]:
    return chat.tools.get_registry().list()


async def find_tool(chat: FlexChat, host: PluginHost, name: str) -> ToolDefinition:
    """Find a tool of the chat by its name, opening the tool sources that may have it.

    Raises:
        UsageError: There is no such tool; the text lists the others, and the sources that could not be opened.
    """
    tool = chat.tools.get_registry().get(name)
    if tool is None and name in host.tools.conflicts:
        raise UsageError(host.tools.missing(name))
    sources = chat.tools.sources
    if tool is None and not all(state.accepted for state in sources.states()):
        candidate = await sources.find(name)
        tool = next(iter(chat.tools.permitted([candidate])), None) if candidate is not None else None
    if tool is None:
        names = [tool.name for tool in _tools(chat)]
        text = f"no tool is called '{name}'{did_you_mean(name, names)}; there are: {', '.join(names) or 'none'}"
        raise UsageError("; ".join([text, *sources.missing()]))
    return tool


def _as_data(tool: ToolDefinition) -> dict[str, Any]:
    names = ("source", "effect", "approve", "parameters", "timeout_ms", "retry", "exclusive", "repeatable")
    values = {name: value for name in names if (value := getattr(tool, name)) not in (None, False)}
    values |= {"retry": attrs.asdict(tool.retry)} if tool.retry is not None else {}
    return {"name": tool.name, "description": tool.description, "implementation": tool.implementation.type, **values}


_MAX_SHOWN = 10


_complete_rule = completes(
    lambda context: [rule.name for rule in context.open_tools()[0].config.responses if rule.name]
)


@command
@click.option(
    "--rule", metavar="RULE", shell_complete=_complete_rule, help="only this rule: its number, from 1, or its name"
)
def cost(context: CommandContext, rule: str | None) -> None:
    """Estimate the cost of each rule's tools in every request.

    The dearest tools come first; -v shows all.
    """
    terminal = context.terminal
    chat, _ = context.open_tools()
    costs: list[tuple[int, str, ToolsCost, Cost]] = []
    for index in _rules(chat, rule):
        entry = chat.config.responses[index]
        form, estimate = rule_cost(entry, chat.tools, chat.llms)
        llm, model = chat.llms.resolve(entry.llm, entry.model)
        costs.append((index, form, estimate, llm.cost_of_reading(model, estimate.tokens)))
    if context.json:
        terminal.json(
            [
                {"rule": index, "name": chat.config.responses[index].name, "format": form}
                | {"tokens": estimate.tokens, "cost": cost.to_dict()}
                | {"tools": estimate.by_tool, "unsendable": estimate.unsendable}
                for index, form, estimate, cost in costs
            ]
        )
        return
    for each in costs:
        _show_cost(terminal, chat, *each)
    for state in chat.tools.sources.states():
        if not state.accepted:
            terminal.say(f"without the tools of source '{state.name}', which nobody has opened yet", "dim")
    terminal.say(f"estimates: {BYTES_PER_TOKEN} bytes of JSON a token, not cached; services count differently", "dim")


def _show_cost(terminal: Terminal, chat: FlexChat, index: int, form: str, cost: ToolsCost, price: Cost) -> None:
    label = rule_label(index, chat.config.responses[index].name)
    if cost.unsendable:
        names = ", ".join(cost.unsendable)
        terminal.say(f"{label}: {form} cannot be sent {names}; flexchat tools lint says why", "red")
    if not cost.by_tool:
        terminal.out(f"{label}: no tools", "dim")
        return
    tools = counted(len(cost.by_tool), "tool")
    terminal.out(f"{label}: {tools}, about {counted(cost.tokens, 'token')} as sent to {form}, {price}", "bold")
    tools_shown = [*cost.by_tool.items()][: None if terminal.verbose else _MAX_SHOWN]
    width = len(f"{tools_shown[0][1]:,}")
    for name, tokens in tools_shown:
        terminal.out(f"  {tokens:{width},}  {name}")
    if len(tools_shown) < len(cost.by_tool):
        more = counted(len(cost.by_tool) - len(tools_shown), "cheaper one")
        terminal.out(f"  {' ' * width}  and {more}; -v shows all", "dim")


def _rules(chat: FlexChat, name: str | None) -> list[int]:
    rules = chat.config.responses
    if name is None:
        return [*range(len(rules))]
    indexes = [index for index, rule in enumerate(rules) if name in (str(index + 1), rule.name)]
    if not indexes:
        names = [rule.name for rule in rules if rule.name]
        last = f"rules are numbered 1 to {len(rules)}" if rules else "there are no rules"
        raise UsageError(f"--rule {name}: no such rule{did_you_mean(name, names)} ({last})")
    return indexes


_MAX_PLACES = 12
_MAX_TOOLS = 50
_MAX_CHARS = 160
_STYLES: dict[str, Style] = {"new": "plain", "changed": "plain", "gone": "red"}
_KINDS = ("new", "changed", "gone")


_complete_source = completes(lambda context: context.open_tools()[0].tools.sources.by_name)


@command
@argument(
    "source", metavar="SOURCE", required=False, shell_complete=_complete_source, help="only this source (default: all)"
)
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
        terminal.json([_state_as_data(name, state) for name, state in states.items()])
    else:
        for name, state in states.items():
            _show_changes(terminal, name, state, is_first=name not in accepted)
    failed = any(isinstance(state, ToolSourceError) or state.changes for state in states.values())
    return FAILED if failed else OK


@command
@argument("source", metavar="SOURCE", shell_complete=_complete_source, help="the source's name")
@argument("tools", metavar="TOOL", nargs=-1, help="only these tools (default: all)")
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


def _show_changes(terminal: Terminal, name: str, state: SourceState | ToolSourceError, *, is_first: bool) -> None:
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


def _state_as_data(name: str, state: SourceState | ToolSourceError) -> dict[str, Any]:
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
