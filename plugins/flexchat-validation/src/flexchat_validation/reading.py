"""Reads validation cases and models, from a configuration and from files, with everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ChatRequestError, ConfigError, FlexChatError, Problem
from flexchat.host import UnknownNameError, did_you_mean, format_path

from .arguments import shorten
from .case_files import ReadCase, cases_in, named_files, rows_of
from .cases import Case, ExpectedTurn, ValidationTable, table_of
from .checking import Offered, find_issues

if TYPE_CHECKING:
    from flexchat import FlexChat
    from flexchat.host import Config, ConfigDocument, LLMEntry, ReadConfig


@attrs.frozen(kw_only=True)
class Cases:
    """Cases that can be tried; no two have the same name."""

    cases: tuple[Case, ...] = ()

    def chosen(self, names: Iterable[str] = (), tags: Iterable[str] = ()) -> tuple[Case, ...]:
        """Return those with one of these names and one of these tags; default: all.

        Raises:
            ConfigError: There is no case with that name, or none with that tag.
        """
        names, tags = tuple(names), tuple(tags)
        existing = [case.name for case in self.cases]
        used = {tag for case in self.cases for tag in case.tags}
        wrong = [f"no case is called '{name}'{did_you_mean(name, existing)}" for name in names if name not in existing]
        wrong += [f"no case has the tag '{tag}'{did_you_mean(tag, used)}" for tag in tags if tag not in used]
        if wrong:
            raise ConfigError([Problem(path="", text=text) for text in wrong])
        return tuple(
            case
            for case in self.cases
            if (not names or case.name in names) and (not tags or not set(tags).isdisjoint(case.tags))
        )


@attrs.frozen(kw_only=True)
class Imported:
    """The result of reading another program's tests.

    Attributes:
        notes: What could not be imported, one sentence each.
    """

    cases: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()


def read_cases(
    chat_config: Config, folder: Path | None, *, files: Sequence[Path] = (), tools: Collection[str] = ()
) -> Cases:
    """Return the cases of a configuration, of the files it names, and of further files.

    Args:
        folder: The folder the configuration's file names are relative to; None for the working folder.
        files: Files in addition to those the configuration names.
        tools: Tools that exist in addition to the registry's; see tool_names.

    Raises:
        ConfigError: Everything that is wrong with them.
    """
    cases, problems = usable_cases(chat_config, folder, files=files, tools=tools)
    if problems:
        raise ConfigError(problems)
    return cases


def tool_names(chat: FlexChat) -> tuple[str, ...]:
    """Return the names that cases may have in their ``tools``: those of tools, and SOURCE/* for all of a source."""
    tools = chat.tools.get_registry().list()
    return tuple(dict.fromkeys([tool.name for tool in tools] + [f"{tool.source}/*" for tool in tools if tool.source]))


def usable_cases(
    chat_config: Config,
    folder: Path | None,
    *,
    files: Sequence[Path] = (),
    tools: Collection[str] = (),
    document: ConfigDocument | None = None,
) -> tuple[Cases, tuple[Problem, ...]]:
    """Return the usable cases, and everything that is wrong with the others; arguments as for read_cases.

    Args:
        document: The configuration as written: problems then have its line numbers, and the cases of a table that could
        not be read as a whole are checked one by one.
    """
    table = table_of(chat_config)
    offered = Offered.of(chat_config, tools)
    read, problems = (
        rows_of(document, ("validation", "cases"), offered) if document is not None else _of_code(table.cases, offered)
    )
    paths, missing = named_files(table.files, folder or Path(), document)
    problems += missing
    for file in dict.fromkeys([*paths, *files]):
        in_file, wrong = cases_in(file, offered)
        read += in_file
        problems += wrong
    problems += _twice(read)
    usable = {one.case.name: one.case for one in reversed(read) if one.usable}  # of two with the same name, the first
    return Cases(cases=tuple(reversed(usable.values()))), tuple(problems)


def check_cases(cases: Iterable[Case], chat_config: Config | None = None) -> list[str]:
    """Check cases created in code or imported; return the problems, one sentence each, with the case's name."""
    offered = Offered.of(chat_config) if chat_config is not None else Offered()
    return [f"case '{case.name}': {issue.sentence()}" for case in cases for issue in find_issues(case, offered)]


def turns_of(case: Case) -> tuple[ExpectedTurn, ...]:
    """Return a case's messages with what each should lead to: its turns, or the case itself as the only one."""
    fields = {field.name: getattr(case, field.name) for field in attrs.fields(ExpectedTurn)}
    return case.turns or (ExpectedTurn(**{**fields, "message": case.message or ""}),)


def aspects_of(case: Case) -> tuple[str, ...]:
    """Return the ASPECTS that a case shows, in their order.

    Several calls only show whether a model makes them in one answer if their order is free and no tool fails first.
    """
    turns = turns_of(case)
    answers = case.possible_answers or ()
    fails = any(mock.error is not None for mock in case.mocks.values())
    several = len(answers) > 1 or any(len(turn.calls or ()) > 1 and turn.order == "any" for turn in turns)
    calls = bool(answers) or any(turn.calls for turn in turns)
    is_shown_by_aspect = {
        "right_tool": calls,
        "right_arguments": calls,
        "abstains": any(turn.no_call for turn in turns),
        "parallel": several and not fails,
        "recovers": fails,
    }
    return tuple(aspect for aspect, is_shown in is_shown_by_aspect.items() if is_shown)


def expects(case: Case) -> str:
    """Format the expectation of a case as one line: ``get_weather(location='Paris')``."""
    if case.possible_answers is not None:
        return ", ".join(_ground_truth(answer) for answer in case.possible_answers)
    return "; then ".join(map(_expected, turns_of(case)))


def case_info(case: Case) -> dict[str, Any]:
    """Return a case as in a list of cases: JSON data."""
    turns = turns_of(case)
    return {
        "name": case.name,
        "tags": list(case.tags),
        "message": turns[0].message,
        "turns": len(turns),
        "expects": expects(case),
        "aspects": list(aspects_of(case)),
        "judge": case.judge,
    }


def _of_code(cases: Iterable[Case], offered: Offered) -> tuple[list[ReadCase], list[Problem]]:
    cases_read: list[ReadCase] = []
    problems: list[Problem] = []
    for index, case in enumerate(cases):
        path = f"validation.cases[{index}]"
        issues = [*find_issues(case, offered)]
        cases_read.append(ReadCase(case, Problem(path=path, text=""), usable=not issues))
        for issue in issues:
            inner = format_path(issue.path)
            problems.append(Problem(path=f"{path}.{inner}" if inner else path, text=issue.text))
    return cases_read, problems


def _twice(cases: Iterable[ReadCase]) -> Iterator[Problem]:
    first: dict[str, Problem] = {}
    for one in cases:
        name = one.case.name
        if name in first:
            before = first[name]
            place = f"{before.source}:{before.line}" if before.line else before.source or before.path
            yield attrs.evolve(one.where, text=f"another case is called '{name}' already: {place}")
        first.setdefault(name, one.where)


def _expected(turn: ExpectedTurn) -> str:
    if turn.no_call:
        return "no call"
    separator = ", then " if turn.order == "given" else ", "
    calls = [
        f"{call.tool}({_arguments({**call.arguments, **dict.fromkeys(call.check, _CHECKED)})})"
        for call in turn.calls or ()
    ]
    return separator.join(calls) + (", …" if turn.extra_calls else "")


_CHECKED = object()


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={'…' if value is _CHECKED else shorten(value, 40)}" for name, value in arguments.items())


def _ground_truth(answer: Mapping[str, Any]) -> str:
    calls = []
    for name, arguments in answer.items():
        first = {key: values[0] for key, values in arguments.items() if values and values[0] != ""}
        calls.append(f"{name}({_arguments(first)})")
    return ", ".join(calls)


def cases_and_problems(
    config: ReadConfig, *, files: Sequence[Path] = (), tools: Collection[str] = ()
) -> tuple[Cases, list[Problem]]:
    """Return the usable cases of a configuration and of further files, and what is wrong, with lines.

    If a configuration's other tables cannot be read, nothing is known about it.

    Args:
        tools: Tools that exist in addition to the registry's; see tool_names.
    """
    from flexchat.host import read_config

    read = read_config(config)
    core = read.config
    if core is None:
        return Cases(), []
    if "validation" in read.document.data:
        table = read.settings(("validation",), (), ValidationTable)
        if table is None:  # the cases are read one by one below, so that the rest of the table is checked as well
            raw_table = read.document.data["validation"]
            table = ValidationTable(files=_texts(raw_table, "files"), models=_texts(raw_table, "models"))
        core = attrs.evolve(core, tables={**core.tables, "validation": table})
    cases, problems = usable_cases(core, read.document.folder, files=files, tools=tools, document=read.document)
    of_the_table = [problem for problem in read.problems if problem.path.startswith("validation")]
    return cases, in_order([*of_the_table, *problems, *wrong_models(core, read.document)])


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems by file and line, each once."""
    return [*ConfigError([*dict.fromkeys(problems)]).problems]


def _texts(table: Any, key: str) -> tuple[str, ...]:
    items = table.get(key) if isinstance(table, dict) else None
    return tuple(items) if isinstance(items, list) and all(isinstance(item, str) for item in items) else ()


def split_model_id(llms: Mapping[str, LLMEntry], model_id: str) -> tuple[str, str | None]:
    """Return service and model of "LLM/MODEL"; the model may have slashes. "SERVICE" alone means its default_model,
    and gives no model.

    Raises:
        UnknownNameError: No such service is configured.
        ChatRequestError: No model is named.
    """
    service, _, model = model_id.partition("/")
    entry = llms.get(service)
    if entry is None:
        services = ", ".join(llms) or "none"
        raise UnknownNameError(
            f"model '{model_id}': no service is called '{service}'{did_you_mean(service, llms)}; a model "
            f"is named LLM/MODEL, and the services are: {services}"
        )
    if not model and not entry.default_model:
        raise ChatRequestError(f"model '{model_id}': {service} has no default_model; write {service}/MODEL")
    return service, model or None


def wrong_models(config: Config, document: ConfigDocument | None = None) -> list[Problem]:
    """Check the models named in a configuration's table validation; return the problems.

    Args:
        document: The parsed text of the configuration, for line numbers.
    """
    problems = []
    for index, model_id in enumerate(table_of(config).models):
        try:
            split_model_id(config.llms, model_id)
        except FlexChatError as error:
            path, place = f"validation.models[{index}]", ("validation", "models", index)
            problems.append(document.problem(place, str(error)) if document else Problem(path=path, text=str(error)))
    return problems
