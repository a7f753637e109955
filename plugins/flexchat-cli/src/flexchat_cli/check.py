"""flexchat check and config schema: the problems and notes of a configuration, and its JSON Schema."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import click
from flexchat.assembly import Reviewed, as_configured, assemble, plugins_for, read_tables, run_checks, run_reviews
from flexchat.calls.manager import ToolManager
from flexchat.config.document import ConfigDocument
from flexchat.config.model import Config, ToolsTable
from flexchat.config.own_variables import OWN_NAMES
from flexchat.config.positions import KeyPath
from flexchat.config.reading import ReadConfig, read_config
from flexchat.domain.text import counted
from flexchat.errors import ConfigError, Problem, ToolClashError, UnknownToolFormatError, did_you_mean
from flexchat.llms.llm import Llms
from flexchat.plugin.contracts import MediaLimits
from flexchat.plugin.host import PluginHost
from flexchat.tools.registry import verify_trouble
from flexchat.turn.detection import VARIABLES
from flexchat.turn.matching import needs_of
from flexchat.turn.template import variables_of

from .context import OK, UNUSABLE, CommandContext, UsageError
from .conversations_store import tenant_option
from .parameters import FILE_NAME, argument, command
from .tool_costs import rule_cost

_MAX_NAMED = 10
_NOT_NEEDED = ("llms", "responses")
"""What a configuration of named prompts alone does without."""


@command
@argument(
    "file",
    required=False,
    type=FILE_NAME,
    metavar="FILE",
    help="the configuration (default: the one that would be used)",
)
@click.option("--grants", is_flag=True, help="list what roles grant and no kept turn has used; of the tenant --tenant")
@tenant_option
def check(context: CommandContext, file: str | None, grants: bool, tenant: str) -> int:
    """Check a configuration.

    Prints problems and notes, one line each, with file and line; the exit status is 2 if there are problems.
    """
    terminal = context.terminal
    context.config = file or context.config
    config, problems, notes = _check(context)
    path = context.config_file()
    unused_grants = asyncio.run(_unused_grants(context, tenant)) if grants and config is not None else []
    if context.json:
        data = {"problems": [*map(attrs.asdict, problems)], "notes": [*map(attrs.asdict, notes)]}
        unused = [] if config is None else _never_offered(config, _left_out(notes))
        report = {"file": str(path), "usable": config is not None, **data, "tools_no_rule_offers": unused}
        terminal.json({**report, **({"unused_grants": unused_grants} if grants else {})})
        return UNUSABLE if config is None else OK
    for note in notes:
        terminal.out(f"note: {note}", "dim")
    for problem in problems:
        terminal.out(str(problem))
    if config is None:
        terminal.out(f"{path} cannot be used: {counted(len(problems), 'problem')}", "red")
        return UNUSABLE
    for text in unused_grants:
        terminal.out(f"note: {text}", "dim")
    terminal.out(f"{path} is fine: {_contents(config, notes)}", "bold")
    return OK


async def _unused_grants(context: CommandContext, tenant: str) -> list[str]:
    async with context.open_chat() as chat:
        checks = [check for _, check in context.installed_plugins().config_checks.by_plugin()]
        return [text for check in checks if check.grants is not None for text in await check.grants(chat, tenant)]


def _check(context: CommandContext) -> tuple[Config | None, list[Problem], list[Problem]]:
    """Return the configuration, None if it is unusable; its problems; its notes."""
    try:
        read = context.read_config()
    except ConfigError as error:  # not even its plugins.block can be read
        return None, [*error.problems], []
    if read is None:
        raise UsageError("there is nothing to check: no flexchat.toml, .yaml or .json here; flexchat init writes one")
    host = context.installed_plugins(read)
    problems, notes = check_config(read, host)
    if _has_prompts_alone(read):  # ask -t needs no more, where a provider's model answers
        problems = [problem for problem in problems if problem.path not in _NOT_NEEDED]
    problems += _prompts(read)
    problems = [*ConfigError([*dict.fromkeys(problems)]).problems]  # by file and line, each once
    if problems or read.config is None:
        return None, problems, notes
    return read.config, [], [*notes, *_notes(read.config, read.document, host)]


def _has_prompts_alone(read: ReadConfig) -> bool:
    """Return whether a configuration has named prompts, but no model."""
    data = read.document.data
    return bool(read.config is not None and read.config.prompts) and not any(name in data for name in _NOT_NEEDED)


def _prompts(read: ReadConfig) -> Iterator[Problem]:
    """Yield the problems of the named prompts beyond the types of their keys."""
    from .answering import of_prompt

    for name, prompt in read.config.prompts.items() if read.config is not None else ():
        try:
            of_prompt(name, prompt, read.path.parent if read.path is not None else Path())
        except UsageError as error:
            yield read.document.problem(("prompts", name), str(error))


def _notes(config: Config, document: ConfigDocument, host: PluginHost) -> Iterator[Problem]:
    """Yield what a usable configuration does not do, although it looks as if it did."""
    for name in variables_of(config.topic.prompt or ""):
        if name not in VARIABLES:
            text = f"no variable is called '{name}'{did_you_mean(name, VARIABLES)}; it stays in the text"
            yield document.problem(("topic", "prompt"), text)
    known = (*OWN_NAMES, *config.variables)
    for index, rule in enumerate(config.responses):
        for name in variables_of(rule.prompt):
            if name not in known:
                hint = "each message must bring it along (variables, --var)"
                text = f"no variable is called '{name}'{did_you_mean(name, known)}; {hint}"
                yield document.problem(("responses", index, "prompt"), text)
    if not needs_of(config, config.stores).documents and not _has_search(config.tools, host):
        for service in config.stores:
            text = "no rule asks for its documents: {{rag_context}} in a prompt shows them to the model"
            yield document.problem(("stores", service), text)


def _never_offered(config: Config, left_out: set[str]) -> list[str]:
    """Return the names of the usable tools that no rule offers."""
    tools = config.tools
    using = [rule.tools for rule in config.responses if (rule.tools.enabled if rule.tools else tools.apply_globally)]
    if tools.enabled is False or any(own is None or not own.allowed_tools for own in using):
        return []
    offered = {name for own in using if own is not None for name in own.allowed_tools or ()}
    # With sources, an entry with only its name may change a source's tool, which a rule may offer as SOURCE/*.
    entries = [entry for entry in tools.registry if entry.implementation is not None or not tools.sources]
    return [entry.name for entry in entries if entry.name not in offered | left_out]


def _left_out(notes: list[Problem]) -> set[str]:
    """Return the names of the unusable tools that are left out (tools.on_error = "leave out")."""
    matches = (re.match(r"tool '([^']+)' is left out: ", note.text) for note in notes)
    return {match[1] for match in matches if match}


def _has_search(table: ToolsTable, host: PluginHost) -> bool:
    """Return whether a tool may search document stores."""
    offered = host.tools.by_name
    kinds = [
        entry.implementation.type if entry.implementation else offered[entry.name].implementation.type
        for entry in table.registry
        if entry.implementation or entry.name in offered
    ]
    return table.enabled is not False and any(kind not in ("builtin", "mock") for kind in kinds)


def _contents(config: Config, notes: list[Problem]) -> str:
    sources = sum(map(len, config.tools.sources.values()))
    has_tools = config.tools.registry or (config.llms and not sources)
    numbers = [(sources, "tool source"), (len(config.responses), "rule"), (len(config.prompts), "named prompt")]
    numbers += [(len(config.stores), "document store")]
    parts = [counted(len(config.llms), "llm")] if config.llms else []
    parts += [_tools(config, _left_out(notes))] if has_tools else []
    parts += [counted(number, noun) for number, noun in numbers if number]
    return ", ".join([*parts, *(["conversations are kept"] if config.conversations is not None else [])])


def _tools(config: Config, left_out: set[str]) -> str:
    entries = len(config.tools.registry)
    if entries and config.tools.enabled is False:
        return f"0 tools ({entries} switched off)"
    remarks = [f"{len(left_out)} left out"] if left_out else []
    unused = _never_offered(config, left_out)
    if unused:
        more = f" and {len(unused) - _MAX_NAMED} more" if len(unused) > _MAX_NAMED else ""
        remarks.append(f"no rule offers {', '.join(unused[:_MAX_NAMED])}{more}")
    return counted(entries - len(left_out), "tool") + (f" ({'; '.join(remarks)})" if remarks else "")


@command
def schema(context: CommandContext) -> None:
    """Print the JSON Schema of a config.

    It includes the installed plugins' parts.
    """
    from .editor_schema import config_schema

    context.terminal.json(config_schema(context.installed_plugins()))


def check_config(
    source: str | Path | ConfigDocument | ReadConfig | Mapping[str, Any], plugins: PluginHost | None = None
) -> tuple[list[Problem], list[Problem]]:
    """Return a configuration's problems, and things only worth noting; opens no connection."""
    try:
        reading = read_config(source)
    except ConfigError as error:
        return list(error.problems), []
    host = plugins or plugins_for(reading)
    problems: tuple[Problem, ...] = ()
    try:
        parts = assemble(reading, host, [], {}, review=False)
    except ConfigError as error:
        problems = error.problems
    else:
        for path, text in _clashes(parts.config, parts.tools):
            reading.problem(path, text)
        # Reads the accepted tools of sources, and opens nothing.
        notes: list[tuple[KeyPath, str]] = [*parts.tools.sources.notes()]
        notes += _unknown_names(parts.config, parts.tools) if parts.tools.sources.by_name else ()
        notes += _expensive_rules(parts.config, parts.tools, parts.llms)
        notes += _unread_media(parts.config, parts.llms) if "media" in reading.document.data else ()
        for path, text in notes:
            reading.note(path, text)
        if parts.config.tools.sources:  # a start does not read the accepted tools; once they are loaded, they count
            parts.tools.get_registry().names()
        reviewed = Reviewed(config=parts.config, tools=parts.tools, llms=parts.llms, plugins=host, may_take_long=True)
        run_reviews(reading, host, reviewed)
    run_checks(reading, as_configured(host, reading), at_start=False)
    return [*dict.fromkeys([*problems, *reading.problems])], [*dict.fromkeys(reading.notes)]


def find_check_problems(reading: ReadConfig, host: PluginHost) -> list[Problem]:
    """Return the problems of a usable configuration found only by checks that do not run at start."""
    host = as_configured(host, reading)
    read_tables(reading, host)
    run_checks(reading, host, at_start=False)
    return reading.problems


def _clashes(config: Config, manager: ToolManager) -> Iterator[tuple[KeyPath, str]]:
    """Yield each rule that would offer two tools of one name, as far as the tools are known."""
    for index, rule in enumerate(config.responses):
        try:
            manager.offer_to(rule)
        except ToolClashError as error:
            yield ("responses", index, "tools"), str(error)


def _unknown_names(config: Config, manager: ToolManager) -> Iterator[tuple[KeyPath, str]]:
    """Yield each name that no tool has; at start it could have been that of a source's tool."""
    registry = manager.get_registry()
    unopened = [state.name for state in manager.sources.states() if not state.accepted]

    def describe_unknown(name: str) -> str:
        if unopened:
            them = ", ".join(unopened)
            return f"no tool is called '{name}' yet; it may come from a source that was never opened: {them}"
        return f"no tool is called '{name}'{did_you_mean(name, registry.names())}"

    for index, rule in enumerate(config.responses):
        for at, name in enumerate((rule.tools and rule.tools.allowed_tools) or ()):
            if not registry.has(name) and not name.endswith("/*"):
                yield ("responses", index, "tools", "allowed_tools", at), describe_unknown(name)
        for at, pattern in enumerate((rule.tools and rule.tools.show) or ()):
            if not unopened and not registry.matching([pattern]):
                yield ("responses", index, "tools", "show", at), describe_unknown(pattern)
    for index, entry in enumerate(config.tools.registry):
        path: KeyPath = ("tools", "registry", index)
        tool = registry.get(entry.name)
        if tool is None and entry.implementation is None:
            yield (*path, "name"), describe_unknown(entry.name)
        trouble = verify_trouble(tool, registry) if tool is not None else None
        if trouble is not None:
            yield (*path, "verify"), trouble


def _expensive_rules(config: Config, manager: ToolManager, llms: Llms) -> Iterator[tuple[KeyPath, str]]:
    budget = config.tools.budget_tokens
    for index, rule in enumerate(config.responses):
        if not manager.offered_to(rule) or rule.llm not in llms:
            continue
        try:
            _, cost = rule_cost(rule, manager, llms)
        except (ToolClashError, UnknownToolFormatError):
            continue
        if cost.tokens > budget:
            yield (
                ("responses", index, "tools"),
                f"its {len(cost.by_tool)} tools take about {cost.tokens:,} tokens of every request (budget_tokens is "
                f"{budget:,}): allow fewer or set [tools.search]; flexchat tools cost --rule {index + 1} shows them",
            )


def _unread_media(config: Config, llms: Llms) -> Iterator[tuple[KeyPath, str]]:
    """Yield each rule whose model reads text only, of a configuration that provides for attachments."""
    for index, rule in enumerate(config.responses):
        llm, model = llms.resolve(rule.llm, rule.model)
        limits_of: Callable[[str], MediaLimits] | None = getattr(llm.provider, "media_limits", None)
        if limits_of is not None and not limits_of(model).types:
            text = f"{llm.name}/{model} reads text only: attachments ([media]) other than texts and PDFs are refused"
            yield ("responses", index), text
