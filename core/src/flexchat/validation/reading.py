"""Reads validation cases: those of a configuration and those in files, with everything that is wrong with them."""

from __future__ import annotations

import glob
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ..config.cases import Case, CaseFile, ExpectedTurn, ValidationTable
from ..errors import ConfigError, Problem, did_you_mean
from .checking import Flaw, Offered, flaws_of

if TYPE_CHECKING:
    from ..config.document import Document
    from ..config.model import Config

SUFFIXES = (".toml", ".json", ".jsonl")
"""What files of cases end in. A .jsonl has a case on each line, the others have them in a list ``cases``."""


@attrs.frozen(kw_only=True)
class Cases:
    """Cases that can be tried; no two have one name."""

    cases: tuple[Case, ...] = ()

    def chosen(self, names: Iterable[str] = (), tags: Iterable[str] = ()) -> tuple[Case, ...]:
        """Return those with one of these names and with one of these tags; none given: all.

        Raises:
            ConfigError: There is no case of that name, or none with that tag.
        """
        names, tags = tuple(names), tuple(tags)
        known = [case.name for case in self.cases]
        used = {tag for case in self.cases for tag in case.tags}
        wrong = [f"no case is called '{name}'{did_you_mean(name, known)}" for name in names if name not in known]
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
    """What came of reading another program's tests.

    Attributes:
        notes: What could not be taken over, a sentence each.
    """

    cases: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()


def read_cases(
    chat_config: Config, folder: Path | None, *, files: Sequence[Path] = (), tools: Collection[str] = ()
) -> Cases:
    """Return the cases of a configuration, of the files it names, and of further files.

    Args:
        folder: Where the file names of the configuration start; None for the working folder.
        files: Files beside those that the configuration names.
        tools: Names of tools that are there beside those of the registry.

    Raises:
        ConfigError: Everything that is wrong with them.
    """
    table: ValidationTable = chat_config.validation or ValidationTable()
    offered = Offered.of(chat_config, tools)
    found: list[tuple[Case, Problem]] = []
    problems: list[Problem] = []
    for index, case in enumerate(table.cases):
        path = f"validation.cases[{index}]"
        found.append((case, Problem(path=path, text="")))
        problems += [_problem_in_config(path, flaw) for flaw in flaws_of(case, offered)]
    named, missing = _named_files(table.files, folder or Path())
    problems += missing
    for file in dict.fromkeys([*named, *files]):
        in_file, wrong = _read_file(file, offered)
        found += in_file
        problems += wrong
    problems += _twice(found)
    if problems:
        raise ConfigError(problems)
    return Cases(cases=tuple(case for case, _ in found))


def check_cases(cases: Iterable[Case], chat_config: Config | None = None) -> list[str]:
    """Return what is wrong with cases made in code or imported, a sentence each with the case's name."""
    offered = Offered.of(chat_config) if chat_config is not None else Offered()
    return [f"case '{case.name}': {flaw.sentence()}" for case in cases for flaw in flaws_of(case, offered)]


def turns_of(case: Case) -> tuple[ExpectedTurn, ...]:
    """Return the messages of a case with what each should lead to: its turns, or the one that it is itself."""
    if case.turns:
        return case.turns
    return (
        ExpectedTurn(
            message=case.message or "",
            calls=case.calls,
            no_call=case.no_call,
            order=case.order,
            extra_calls=case.extra_calls,
            answer=case.answer,
        ),
    )


def aspects_of(case: Case) -> tuple[str, ...]:
    """Return what a case shows of a model, of ASPECTS and in their order.

    Several calls show whether a model makes them in one answer only where their order is free, and no tool fails first.
    """
    turns = turns_of(case)
    answers = case.possible_answers or ()
    fails = any(mock.error is not None for mock in case.mocks.values())
    several = len(answers) > 1 or any(len(turn.calls or ()) > 1 and turn.order == "any" for turn in turns)
    calls = bool(answers) or any(turn.calls for turn in turns)
    asked = {
        "right_tool": calls,
        "right_arguments": calls,
        "abstains": any(turn.no_call for turn in turns),
        "parallel": several and not fails,
        "recovers": fails,
    }
    return tuple(aspect for aspect, wanted in asked.items() if wanted)


def expects(case: Case) -> str:
    """Return what a case expects, in one line for people: ``get_weather(location='Paris')``."""
    if case.possible_answers is not None:
        return ", ".join(_ground_truth(answer) for answer in case.possible_answers)
    said = [_expected(turn) for turn in turns_of(case)]
    return "; then ".join(said)


def read_text(file: Path) -> str:
    """Return a file's text.

    Raises:
        ConfigError: It is missing, unreadable, too large or no UTF-8.
    """
    from ..config.document import MAX_BYTES

    try:
        with file.open("rb") as source:
            raw = source.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except FileNotFoundError:
        raise _failed(file, "there is no such file") from None
    except IsADirectoryError:
        raise _failed(file, "this is a folder, not a file") from None
    except UnicodeDecodeError:
        raise _failed(file, "the file is not UTF-8") from None
    except (OSError, ValueError) as error:
        raise _failed(file, f"the file cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MAX_BYTES:
        raise _failed(file, f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB")
    return text


def json_lines(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a file with one JSON object on each line, each with its line; empty lines are left out.

    Raises:
        ConfigError: It cannot be read, with every line that is no JSON object.
    """
    from ..config.document import document_of

    rows: list[tuple[int, dict[str, Any]]] = []
    problems: list[Problem] = []
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("expected an object: {…}")
            document = document_of(row)
        except ConfigError as error:
            problems += [attrs.evolve(p, source=str(file), line=number) for p in error.problems]
        except (ValueError, RecursionError) as error:
            text = "nested too deeply" if isinstance(error, RecursionError) else _json_problem(error)
            problems.append(
                Problem(path="", text=f"this line is not a JSON object: {text}", source=str(file), line=number)
            )
        else:
            problems += [attrs.evolve(p, source=str(file), line=number) for p in document.problems]
            rows.append((number, row))
    if problems:
        raise ConfigError(problems)
    return rows


def _json_problem(error: Exception) -> str:
    return f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)


def _failed(file: Path, text: str) -> ConfigError:
    return ConfigError([Problem(path="", text=text, source=str(file))])


def _named_files(patterns: Iterable[str], folder: Path) -> tuple[list[Path], list[Problem]]:
    files: list[Path] = []
    problems = []
    for index, pattern in enumerate(patterns):
        found = [Path(name) for name in sorted(glob.glob(str(folder / pattern), recursive=True))]
        found = [path for path in found if path.is_file()]
        files += found
        if not found:
            path = f"validation.files[{index}]"
            problems.append(Problem(path=path, text=f"there is no such file: {folder / pattern}"))
    return files, problems


def _read_file(file: Path, offered: Offered) -> tuple[list[tuple[Case, Problem]], list[Problem]]:
    from ..config.structure import structure

    try:
        document = _document(file)
    except ConfigError as error:
        return [], list(error.problems)
    problems = list(document.problems)
    rows = document.data.get("cases", [])
    listed = isinstance(rows, list)
    _, wrong = structure({**document.data, **({"cases": []} if listed else {})}, CaseFile)
    problems += [document.problem(flaw.place, flaw.text, flaw.at) for flaw in wrong]
    found = []
    for index, row in enumerate(rows if listed else ()):
        here = ("cases", index)
        case, flaws = structure(row, Case)
        for flaw in flaws:
            at = None if flaw.at is None else (*here, *flaw.at)
            problems.append(document.problem((*here, *flaw.place), flaw.text, at))
        if case is not None:
            found.append((case, document.problem((*here, "name"), "")))
            problems += [document.problem((*here, *flaw.place), flaw.text) for flaw in flaws_of(case, offered)]
    return found, problems


def _document(file: Path) -> Document:
    from ..config.document import Document, read_document

    if file.suffix.lower() not in SUFFIXES:
        raise _failed(file, f"a file of cases ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if file.suffix.lower() != ".jsonl":
        return read_document(file)
    rows = json_lines(file)
    return Document(
        source=str(file),
        data={"cases": [row for _, row in rows]},
        lines={("cases", index): number for index, (number, _) in enumerate(rows)},
    )


def _problem_in_config(path: str, flaw: Flaw) -> Problem:
    from ..config.wording import spoken_path

    inner = spoken_path(flaw.place)
    return Problem(path=f"{path}.{inner}" if inner else path, text=flaw.text)


def _twice(found: Iterable[tuple[Case, Problem]]) -> Iterator[Problem]:
    first: dict[str, Problem] = {}
    for case, where in found:
        if case.name in first:
            before = first[case.name]
            place = f"{before.source}:{before.line}" if before.line else before.source or before.path
            yield attrs.evolve(where, text=f"another case is called '{case.name}' already: {place}")
        first.setdefault(case.name, where)


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
    from .wording import shown

    return ", ".join(f"{name}={'…' if value is _CHECKED else shown(value, 40)}" for name, value in arguments.items())


def _ground_truth(answer: Mapping[str, Any]) -> str:
    made = []
    for name, arguments in answer.items():
        first = {key: values[0] for key, values in arguments.items() if values and values[0] != ""}
        made.append(f"{name}({_arguments(first)})")
    return ", ".join(made)
