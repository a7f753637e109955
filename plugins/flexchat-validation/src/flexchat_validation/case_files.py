"""Files of validation cases: where they are, what they contain and on which line, and how cases are added to them."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from flexchat import ConfigError, Problem, host
from flexchat.host import ConfigDocument, read_document, structure
from flexchat.store import replacing

from .cases import Case, CaseFile, is_set
from .checking import CaseIssue, KeyPath, Offered, find_issues

SUFFIXES = (".toml", ".json", ".jsonl")
"""Extensions of case files. A .jsonl has a case on each line, the others have them in a list ``cases``."""


@attrs.frozen
class ReadCase:
    """A case that could be read.

    Attributes:
        where: A problem without a text.
        usable: Nothing is wrong with it.
    """

    case: Case
    where: Problem
    usable: bool


def named_files(
    patterns: Iterable[str], folder: Path, document: ConfigDocument | None = None
) -> tuple[list[Path], list[Problem]]:
    """Return the files that match patterns in a folder, and what is wrong with the matches.

    Args:
        document: The configuration they come from (validation.files), for its line numbers.
    """
    files: list[Path] = []
    problems: list[Problem] = []
    for index, pattern in enumerate(patterns):
        try:
            matches = [Path(name) for name in sorted(glob.glob(str(folder / pattern), recursive=True))]
        except ValueError:  # no file can have this name
            matches = []
        texts = [text for path in matches if (text := _no_file(path, pattern, alone=len(matches) == 1))]
        files += [path for path in matches if path.is_file()]
        if not matches:
            texts.append(f"there is no such file: {pattern}")
        key_path: KeyPath = ("validation", "files", index)
        for text in texts:
            path = f"validation.files[{index}]"
            problems.append(document.problem(key_path, text) if document else Problem(path=path, text=text))
    return files, problems


def cases_in(file: Path, offered: Offered) -> tuple[list[ReadCase], list[Problem]]:
    """Return the cases of a file, and everything that is wrong with it."""
    try:
        document = _document(file)
    except ConfigError as error:
        return [], list(error.problems)
    problems = list(document.problems)
    listed = isinstance(document.data.get("cases", []), list)
    _, wrong = structure({**document.data, **({"cases": []} if listed else {})}, CaseFile)
    problems += [document.problem(issue.path, issue.text, issue.at) for issue in wrong]
    cases, more = rows_of(document, ("cases",), offered)
    return cases, [*problems, *more]


def rows_of(document: ConfigDocument, key_path: KeyPath, offered: Offered) -> tuple[list[ReadCase], list[Problem]]:
    """Return the cases in a document's list, and everything that is wrong with each."""
    rows: Any = document.data
    for key in key_path:
        rows = rows.get(key) if isinstance(rows, dict) else None
    cases: list[ReadCase] = []
    problems: list[Problem] = []
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        here = (*key_path, index)
        case, issues = structure(row, Case)
        more = [*find_issues(case, offered)] if case is not None else [*_find_more_issues(row, issues, offered)]
        for issue in issues:
            at = None if issue.at is None else (*here, *issue.at)
            problems.append(document.problem((*here, *issue.path), issue.text, at))
        problems += [document.problem((*here, *issue.path), issue.text) for issue in more]
        if case is not None:
            cases.append(ReadCase(case, document.problem((*here, "name"), ""), usable=not more))
    return cases, problems


def read_text(file: Path) -> str:
    """Read a file's text.

    Raises:
        ConfigError: The file is missing, unreadable or not UTF-8, or exceeds the size limit.
    """
    try:
        return host.read_file(file, most=host.MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise failed(file, "the file is not UTF-8") from None
    except OSError as error:
        raise failed(file, f"{error.strerror}") from None


def json_lines(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a file with one JSON object on each line, each with its line; empty lines are left out.

    Raises:
        ConfigError: It cannot be read; names every line that is not a JSON object.
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    problems: list[Problem] = []
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("expected an object: {…}")
            document = host.document_of(row)
        except ConfigError as error:
            problems += [attrs.evolve(p, source=str(file), line=number) for p in error.problems]
        except (ValueError, RecursionError) as error:
            text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            if isinstance(error, json.JSONDecodeError):
                text = f"{host.json_error_message(error)} (column {error.colno})"
            problems.append(
                Problem(path="", text=f"this line is not a JSON object: {text}", source=str(file), line=number)
            )
        else:
            problems += [attrs.evolve(p, source=str(file), line=number) for p in document.problems]
            rows.append((number, row))
    if problems:
        raise ConfigError(problems)
    return rows


def failed(file: Path, text: str) -> ConfigError:
    """Return the error of a file that cannot be used."""
    return ConfigError([Problem(path="", text=text, source=str(file))])


def _find_more_issues(row: Any, issues: Iterable[Any], offered: Offered) -> Iterator[CaseIssue]:
    """Yield what else is wrong with an unreadable case: checks it without the parts that make it unreadable."""
    rest = host.copied(row)
    wrong = [issue.at or issue.path for issue in issues]
    for key_path in wrong:
        holder = rest
        for key in key_path[:-1]:
            holder = holder[key] if isinstance(holder, (dict, list)) else None
        if not (key_path and isinstance(holder, dict) and key_path[-1] in holder):
            return  # the whole case, an item of a list, or what is missing
        del holder[key_path[-1]]
    case, _ = structure(rest, Case)
    for issue in find_issues(case, offered) if case is not None else ():
        at = issue.path
        if not any(at[: len(key_path)] == key_path or key_path[: len(at)] == at for key_path in wrong):
            yield issue


def _no_file(path: Path, pattern: str, *, alone: bool) -> str:
    """Describe why a path matched by a pattern is not a file; empty for a folder beside files, which is ignored."""
    if path.is_file():
        return ""
    if path.is_symlink() and not path.exists():
        return f"{path.name} is a link to nothing"
    if alone or path.suffix in SUFFIXES:
        name = pattern.rstrip("/") if alone else path.name
        return f"{name} is a folder: {name}/* are its files" if path.is_dir() else f"{name} is not a file"
    return ""


def _document(file: Path) -> ConfigDocument:
    if file.suffix.lower() not in SUFFIXES:
        raise failed(file, f"a file of cases ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if file.suffix.lower() != ".jsonl":
        try:
            return read_document(file)
        except ConfigError as error:
            # The error of a configuration that is not a table, in the words for a file of cases.
            old, new = "a configuration is one table: {…}", 'a file of cases is one table: {"cases": […]}'
            problems = [attrs.evolve(each, text=each.text.replace(old, new)) for each in error.problems]
            raise ConfigError(problems) from None
    rows = json_lines(file)
    return ConfigDocument(
        source=str(file),
        data={"cases": [row for _, row in rows]},
        lines={("cases", index): number for index, (number, _) in enumerate(rows)},
    )


def case_data(case: Case) -> dict[str, Any]:
    """Return a case as in a file: JSON data, without keys that have their default."""

    def listed(_: Any, __: Any, value: Any) -> Any:
        return [*value] if isinstance(value, tuple) else value

    return attrs.asdict(case, filter=is_set, value_serializer=listed)


def toml_of(cases: Iterable[Case]) -> str:
    """Return cases as TOML, one table ``[[cases]]`` each.

    Raises:
        ConfigError: A value is null, which TOML cannot express.
    """
    from flexchat_sdk import toml_table

    try:
        return "\n".join(toml_table("[[cases]]", case_data(case)) for case in cases)
    except TypeError:
        text = "a case has a null, which TOML cannot express: write it to a .json file"
        raise ConfigError([Problem(path="", text=text)]) from None


def add_cases(file: Path, cases: Sequence[Case]) -> None:
    """Add cases at the end of a file of cases, which is created if it does not exist.

    Its content is preserved, in TOML with comments. The file is replaced atomically: a reader, also after a crash,
    finds either the old or the new version.

    Raises:
        ConfigError: It is not a file of cases, already has one of that name, or cannot be written.
    """
    suffix = file.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise failed(file, "cases are written to a .toml or a .json file")
    before: dict[str, Any] = {"cases": []}
    old = ""
    if host.path_exists(file):
        old, before = read_text(file), read_document(file).data
    rows = before.get("cases", [])
    if not isinstance(rows, list):
        raise failed(file, "this is not a file of cases: its 'cases' is not a list")
    _refuse_names_twice(file, rows, cases)
    if suffix == ".json":
        data = {**before, "cases": [*rows, *map(case_data, cases)]}
        text = host.scrub(json.dumps(data, ensure_ascii=False, indent=2)) + "\n"
    else:
        text = (old.rstrip("\n") + "\n\n" if old.strip() else "") + toml_of(cases)
    _replace(file, text, before={**before, "cases": rows})


def _refuse_names_twice(file: Path, rows: Sequence[Any], cases: Iterable[Case]) -> None:
    names = {row.get("name") for row in rows if isinstance(row, Mapping)}
    for case in cases:
        if case.name in names:
            raise failed(file, f"a case called '{case.name}' already exists: choose another name")
        names.add(case.name)


def _replace(file: Path, text: str, before: Mapping[str, Any]) -> None:
    """Replace a file with a text, once it is on disk and reads back with everything that was there."""
    try:
        with replacing(file) as out:
            out.write(text)
            out.flush()
            _check_kept(file, Path(out.name), before)
    except OSError as error:
        raise failed(file, f"the file cannot be written: {error.strerror or error}") from None


def _check_kept(file: Path, path: Path, before: Mapping[str, Any]) -> None:
    try:
        after = read_document(path).data
    except ConfigError as error:
        reason = error.problems[0].text
        if reason.startswith("this is not TOML"):  # cases = [...] and [[cases]] in one file
            reason = "write its 'cases' as tables [[cases]]"
        raise failed(file, f"the cases cannot be added: {reason}; or name another file") from None
    rows = after.get("cases", [])[: len(before["cases"])]
    if {**after, "cases": rows} != before:
        raise failed(file, "the cases cannot be added without changing existing content; name another file")
