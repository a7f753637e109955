"""A configuration in several files: ``include`` names more files, ``prompt_file`` the text of a prompt.

Both name files in the configuration's folder or below, and only a configuration that is read from a file can have them:
data that come over HTTP must not make a server read files.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from ..domain.copies import copied
from ..errors import ConfigError, Problem, did_you_mean
from ..files import path_exists, read_file
from .document import MAX_BYTES, ConfigDocument, check_size, parse_document, read_content
from .positions import KeyPath
from .wording import describe_type

MAX_FILES = 100  # the most files one configuration is read from
MAX_LEVELS = 8  # how deep files may include files
MAX_PROMPT_BYTES = 1024 * 1024
MAX_NAME_CHARS = 1_000  # characters of a file's name
_OWN = ("include", "$schema", "comment")  # top-level keys of each file alone, as all that begin with an underscore


def with_included(document: ConfigDocument) -> ConfigDocument:
    """Return a document with all its files hold: tables are merged, lists follow each other; faults become problems."""
    prompts = [path for path, _ in _with_prompt_file(document)]
    if "include" not in document.data and not prompts:
        return document
    if not document.source:
        include = "other files are included only by a configuration that is a file"
        prompt = "a prompt's file is read only for a configuration that is a file; put the text into 'prompt'"
        problems = [document.problem(("include",), include)] if "include" in document.data else []
        problems += [document.problem((*path, "prompt_file"), prompt) for path in prompts]
        return attrs.evolve(document, problems=(*document.problems, *problems))
    whole = _Whole(document)
    whole.add(document, level=0)
    return whole.result()


def _with_prompt_file(document: ConfigDocument) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Yield each table with a prompt_file, and its path: topic, and those in responses and prompts."""
    tables = (document.tables(*pattern) for pattern in (("topic",), ("responses", "*"), ("prompts", "*")))
    return ((path, table) for path, table in itertools.chain(*tables) if "prompt_file" in table)


class _RefusalError(Exception):
    """A file cannot be used, for the reason in the text."""


class _Whole:
    """A configuration while its files are put together.

    ``files`` has the file of each path that another one than the configuration's own wrote.
    """

    def __init__(self, document: ConfigDocument) -> None:
        self._document = document
        self._root = Path(os.path.realpath(document.folder))
        self._data: dict[str, Any] = {}
        self._lines: dict[KeyPath, int] = {}
        self._files: dict[KeyPath, str] = {}
        self._problems: list[Problem] = []
        self._read: dict[Path, str] = {Path(os.path.realpath(document.source)): document.source}
        self._others: dict[Path, bytes] = {}
        self._left = MAX_BYTES - len(document.content)

    def add(self, document: ConfigDocument, level: int) -> None:
        """Add a file's content, and then that of the files it includes."""
        document = self._with_prompts(attrs.evolve(document, data=copied(document.data)))
        shifts: dict[KeyPath, int] = {}
        own = {key: value for key, value in document.data.items() if level == 0 or not _is_its_own(key)}
        self._merge(self._data, own, (), document, shifts)
        for path, line in document.lines.items():
            if level and _is_its_own(path[0]):
                continue
            moved = _moved(path, shifts)
            if moved not in self._lines:
                self._lines[moved] = line
                if level:
                    self._files[moved] = document.source
        self._problems += document.problems
        for number, name in enumerate(self._names(document, level)):
            at = ("include", number)
            try:
                included = self._included(document, name, level + 1)
            except _RefusalError as refusal:
                self._problems.append(document.problem(at, str(refusal)))
            except ConfigError as error:
                place = document.source if document.line(at) is None else f"{document.source}, line {document.line(at)}"
                by = f" (included by {place})"
                self._problems += [attrs.evolve(each, text=each.text + by) for each in error.problems]
            else:
                self.add(included, level + 1)

    def result(self) -> ConfigDocument:
        """Return the whole."""
        whole = attrs.evolve(
            self._document,
            data=self._data,
            lines=self._lines,
            files=self._files,
            others=self._others,
            problems=tuple(self._problems),
        )
        check_size(whole.data, whole.source)
        return whole

    def _names(self, document: ConfigDocument, level: int) -> list[Any]:
        names = document.data.get("include", [])
        if isinstance(names, list):
            return names
        if level and names is not None:  # that of the configuration's own file is reported with core's other keys
            text = f"expected a list of names of files, got {describe_type(names)}"
            self._problems.append(document.problem(("include",), text))
        return []

    def _included(self, document: ConfigDocument, name: Any, level: int) -> ConfigDocument:
        file = self._below(document, name)
        real = Path(os.path.realpath(file))
        if real in self._read:
            raise _RefusalError(f"{name} is included already, or includes this file: {self._read[real]}")
        if level > MAX_LEVELS:
            raise _RefusalError(f"files include files more than {MAX_LEVELS} deep")
        if len(self._read) >= MAX_FILES:
            raise _RefusalError(f"a configuration has at most {MAX_FILES} files")
        self._read[real], self._others[real] = str(file), b""
        self._others[real] = content = read_content(file)
        self._use_room(content)
        return parse_document(content, file)

    def _use_room(self, content: bytes) -> None:
        self._left -= len(content)
        if self._left < 0:
            raise _RefusalError(f"all files together have more than {MAX_BYTES // 1024 // 1024} MiB")

    def _with_prompts(self, document: ConfigDocument) -> ConfigDocument:
        lines = dict(document.lines)
        for path, table in _with_prompt_file(document):
            at = (*path, "prompt_file")
            try:
                table["prompt"] = self._prompt(document, table)
            except _RefusalError as refusal:
                self._problems.append(document.problem(at, str(refusal)))
            else:
                if at in lines:
                    lines[*path, "prompt"] = lines[at]
        return attrs.evolve(document, lines=lines)

    def _prompt(self, document: ConfigDocument, table: dict[str, Any]) -> str:
        if "prompt" in table:
            raise _RefusalError("'prompt' is written, too: keep one of them")
        file = self._below(document, table["prompt_file"])
        real = Path(os.path.realpath(file))
        self._others.setdefault(real, b"")
        try:
            self._others[real] = content = self._others[real] or read_file(file, most=MAX_PROMPT_BYTES)
            self._use_room(content)
            return content.decode("utf-8-sig").strip()
        except OSError as error:
            raise _RefusalError(f"{file}: {error.strerror or error}{_similar(file, error)}") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise _RefusalError(f"{file}:{line}: the file is not UTF-8") from None

    def _below(self, document: ConfigDocument, name: Any) -> Path:
        if not isinstance(name, str):
            raise _RefusalError(f"expected the name of a file, got {describe_type(name)}")
        if not name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARS:
            raise _RefusalError("expected the name of a file")
        file = Path(document.folder) / name
        if not {"*", "?"}.isdisjoint(name) and not path_exists(file):
            raise _RefusalError(f"{name}: names are no patterns: write each file's")
        if os.path.isabs(name) or name.startswith("~") or not Path(os.path.realpath(file)).is_relative_to(self._root):
            raise _RefusalError(
                f"{name} is not below the configuration's folder, {self._root}: only files there are read"
            )
        return file

    def _merge(
        self,
        into: dict[str, Any],
        table: dict[str, Any],
        path: KeyPath,
        document: ConfigDocument,
        shifts: dict[KeyPath, int],
    ) -> None:
        for key, value in table.items():
            at = (*path, key)
            there = into.get(key)
            if key not in into:
                into[key] = value
            elif value is None:  # null: not set
                continue
            elif there is None:
                into[key] = value
                self._lines.pop(at, None)
                self._files.pop(at, None)
            elif isinstance(there, dict) and isinstance(value, dict):
                self._merge(there, value, at, document, shifts)
            elif isinstance(there, list) and isinstance(value, list):
                shifts[at] = len(there)
                there += value
            else:
                other = self._files.get(at, self._document.source)
                text = f"is written in {other}, too (line {self._lines.get(at)}): keep one of them"
                self._problems.append(document.problem(at, text))


def _is_its_own(key: Any) -> bool:
    return key in _OWN or (isinstance(key, str) and key.startswith("_"))


def _moved(path: KeyPath, shifts: dict[KeyPath, int]) -> KeyPath:
    """Return the path in the whole of a path in a file."""
    for length in range(1, len(path)):
        if path[:length] in shifts and isinstance(index := path[length], int):
            return (*path[:length], index + shifts[path[:length]], *path[length + 1 :])
    return path


def _similar(file: Path, error: OSError) -> str:
    if path_exists(file) or not isinstance(error, FileNotFoundError):
        return ""
    try:
        return did_you_mean(file.name, [entry.name for entry in file.parent.iterdir()])
    except OSError:
        return ""
