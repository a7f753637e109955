"""flexchat tools lint: checks each tool against each service's schema dialect."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.domain import Implementation, ToolDefinition
from flexchat.domain.text import counted
from flexchat.errors import ToolDefinitionError, did_you_mean
from flexchat.installing import how_to_install
from flexchat.schema.limits import schema_problems
from flexchat_sdk import SchemaDialect, SchemaNote
from flexchat_sdk.dialects.lint import ToolFinding, lint_tools, portable_definition

from .context import FAILED, OK, CommandContext, UsageError
from .parameters import FILE_NAME, command
from .standard_input import read_text_file
from .terminal import Style, Terminal

if TYPE_CHECKING:
    from flexchat.plugin.host import PluginHost

_STYLES: dict[str, Style] = {"refused": "red", "rewritten": "plain", "accepted": "dim"}
_PLACES = 3  # most places named in a line
_NO_TOOLS = "no tools: the configuration has none, or tools.enabled is false"


@command
@click.option(
    "--provider",
    "providers",
    metavar="NAME",
    multiple=True,
    help="a provider (openai), one of its modes (openai.strict), or all; repeatable (default: those of the config)",
)
@click.option(
    "--tools",
    "file",
    metavar="FILE",
    type=FILE_NAME,
    help="check the tools in a JSON file (a list, as sent to OpenAI or from MCP) instead",
)
@click.option(
    "--fix",
    is_flag=True,
    help="print the definitions that can be improved, as a JSON list to paste; no file is changed, and "
    "nothing is rewritten that would weaken the check of a call",
)
def lint(context: CommandContext, providers: tuple[str, ...], file: str | None, fix: bool) -> int:
    """Check the tools against each service's schema dialect.

    The exit status is 1 if a provider refuses one in every mode.
    """
    terminal = context.terminal
    tools, unusable, host, used = _tools(context, file)
    modes = _modes(host, providers, used)
    dialects = {name: dialect for name, (_, dialect) in modes.items()}
    fixed = []
    if fix:
        portable = {tool.name: portable_definition(tool) for tool in tools}
        fixed = [_as_data(tool) for tool, notes in portable.values() if notes]
        tools = [tool for tool, _ in portable.values()]
    findings = [*lint_tools(tools, dialects), *_of_unusable(unusable, dialects)]
    refused = _refused(findings, modes)
    if context.json:
        terminal.json(_report(findings, modes, refused) | ({"fixed": fixed} if fix else {}))
    elif fix:
        terminal.json(fixed)
        for sentence in filter(None, (finding.sentence for finding in findings)):
            terminal.say(sentence)
    else:
        _print(findings, terminal, f"no tools: {file} has none" if file else _NO_TOOLS)
    return FAILED if refused else OK


def _tools(
    context: CommandContext, file: str | None
) -> tuple[list[ToolDefinition], dict[str, str], PluginHost, list[str]]:
    """Return the tools, why others are unusable by their names, the plugins, and the providers in the configuration."""
    if file:
        tools, unusable = _read(Path(file))
        return tools, unusable, context.installed_plugins(context.read_config()), []
    chat, host = context.open_tools()
    used = [*dict.fromkeys(entry.provider for entry in chat.config.llms.values())]
    return chat.tools.get_registry().list(), {}, host, used


def _modes(host: PluginHost, chosen: Sequence[str], used: Sequence[str]) -> dict[str, tuple[str, SchemaDialect]]:
    """Return the selected dialects by name, each with the name of its provider.

    Raises:
        UsageError: A name is unknown, or no installed provider declares what it accepts.
    """
    by_provider = {
        name: {mode: (name, dialect) for mode, dialect in kind.schema_dialects.items()}
        for name, kind in host.providers.by_name.items()
        if kind.schema_dialects
    }
    everything = {mode: entry for modes in by_provider.values() for mode, entry in modes.items()}
    if not everything:
        raise UsageError(
            f"no installed provider declares which schemas it accepts: {how_to_install('flexchat-openai')} installs one"
        )
    if not chosen:
        return {mode: entry for name in used for mode, entry in by_provider.get(name, {}).items()} or everything
    choices = {mode: {mode: entry} for mode, entry in everything.items()} | by_provider | {"all": everything}
    selected: dict[str, tuple[str, SchemaDialect]] = {}
    for name in chosen:
        if name in choices:
            selected |= choices[name]
        elif name in host.providers.by_name:
            raise UsageError(f"the provider '{name}' does not declare which schemas it accepts")
        else:
            names = dict.fromkeys([*by_provider, *everything, "all"])
            raise UsageError(f"--provider {name}: unknown{did_you_mean(name, names)}; there are: {', '.join(names)}")
    return selected


def _read(file: Path) -> tuple[list[ToolDefinition], dict[str, str]]:
    from flexchat.config.document import MAX_BYTES

    try:
        data = json.loads(read_text_file(file, f"--tools {file}", most=MAX_BYTES))
    except RecursionError:
        raise UsageError(f"{file} is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}") from None
    entries = data.get("tools") if isinstance(data, dict) else data
    if not isinstance(entries, list):
        raise UsageError(f"{file} must contain a list of tools, or an object with such a list under 'tools'")
    tools: dict[str, ToolDefinition] = {}
    unusable: dict[str, str] = {}
    for index, entry in enumerate(entries, 1):
        name, tool, reason = _definition(entry, f"tool {index}")
        if name in tools or name in unusable:
            name = f"{name} (tool {index})"
            reason = reason or "an earlier tool already has this name; rename one of them"
        if tool is not None and not reason:
            tools[name] = tool
        else:
            unusable[name] = reason
    return [*tools.values()], unusable


def _definition(entry: Any, otherwise: str) -> tuple[str, ToolDefinition | None, str]:
    """Return the name of an entry, and its tool or the reason why FlexChat itself does not accept it."""
    table = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(table, dict):
        return otherwise, None, "a tool must be an object with name, description and parameters"
    name, description = table.get("name"), table.get("description")
    parameters = next((table[key] for key in ("parameters", "inputSchema", "input_schema") if key in table), None)
    name = name if isinstance(name, str) and name else otherwise
    try:
        tool = ToolDefinition(
            name=name,
            description=description if isinstance(description, str) else "",
            parameters={"type": "object", "properties": {}} if parameters is None else parameters,
            implementation=Implementation(type="mock"),
        )
    except ToolDefinitionError as error:
        return name, None, str(error)
    return name, tool, "; ".join(schema_problems(tool.parameters))


def _of_unusable(unusable: Mapping[str, str], dialects: Iterable[str]) -> Iterator[ToolFinding]:
    for name, reason in unusable.items():
        note = SchemaNote(severity="error", pointer="", keyword="", message=reason)
        yield from (ToolFinding(tool=name, dialect=each, outcome="refused", notes=(note,)) for each in dialects)


def _refused(findings: Iterable[ToolFinding], modes: Mapping[str, tuple[str, SchemaDialect]]) -> list[tuple[str, str]]:
    """Return the tools a provider refuses in all of its selected modes, each with the provider."""
    takes: dict[tuple[str, str], bool] = {}
    for finding in findings:
        key = finding.tool, modes[finding.dialect][0]
        takes[key] = takes.get(key, False) or finding.outcome != "refused"
    return [key for key, is_taken in takes.items() if not is_taken]


def _print(findings: Sequence[ToolFinding], terminal: Terminal, none: str) -> None:
    for tool, of_tool in itertools.groupby(findings, lambda finding: finding.tool):
        terminal.out(tool or "all tools together", "bold")
        alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for finding in of_tool:
            lines = tuple(_lines(finding.notes, every=terminal.verbose))
            alike.setdefault((finding.outcome, lines), []).append(finding.dialect)
        for (outcome, lines), dialects in alike.items():
            terminal.out(f"  {outcome:9}  {', '.join(dialects)}", _STYLES[outcome])
            for line in lines:
                terminal.paragraph(line, indent="      ")
    outcomes = [finding.outcome for finding in findings if finding.tool]
    counts = ", ".join(f"{outcomes.count(name)} {name}" for name in ("accepted", "rewritten", "refused"))
    if tools := len({finding.tool for finding in findings if finding.tool}):
        terminal.out(f"{counted(tools, 'tool')}: {counts}", "bold")
    else:
        terminal.say(none)


def _lines(notes: Sequence[SchemaNote], *, every: bool) -> list[str]:
    """Return one line for each message about something lost or wrong; for the rest, only the keywords."""
    by_message: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        if every or note.severity != "info":
            by_message.setdefault((note.severity, note.message), []).append(note.pointer)
    lines = []
    for severity in ("error", "warning", "info"):
        for (kind, message), places in by_message.items():
            if kind == severity:
                pointers = [place for place in dict.fromkeys(places) if place]
                more = f" and {len(pointers) - _PLACES} more" if len(pointers) > _PLACES else ""
                where = f"{', '.join(pointers[:_PLACES])}{more}: " if pointers else ""
                lines.append(f"{where}{message}")
    harmless = [] if every else [*dict.fromkeys(note.keyword for note in notes if note.severity == "info")]
    return lines + ([f"without loss: {', '.join(harmless)}"] if harmless else [])


def _report(
    findings: Iterable[ToolFinding], modes: Mapping[str, tuple[str, SchemaDialect]], refused: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    entries = []
    for finding in findings:
        entries.append(attrs.asdict(finding) | {"tool": finding.tool or None, "provider": modes[finding.dialect][0]})
    return {"findings": entries, "refused": [{"tool": tool, "provider": provider} for tool, provider in refused]}


def _as_data(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
