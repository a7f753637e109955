"""Writes cases to files so that they read back unchanged; existing content is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from flexchat import ConfigError, Problem
from flexchat.host import path_exists, scrub
from flexchat.store import replacing

from .case_files import failed, read_text
from .cases import Case

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDE = 100


def case_data(case: Case) -> dict[str, Any]:
    """Return a case as in a file: JSON data, without keys that have their default."""
    data: dict[str, Any] = _data(case)
    return data


def toml_of(cases: Iterable[Case]) -> str:
    """Return cases as TOML, one table ``[[cases]]`` each.

    Raises:
        ConfigError: A value is null, which TOML cannot express.
    """
    return "\n".join("[[cases]]\n" + "".join(map(_line, case_data(case).items())) for case in cases)


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
    if path_exists(file):
        from flexchat.host import read_document

        old, before = read_text(file), read_document(file).data
    rows = before.get("cases", [])
    if not isinstance(rows, list):
        raise failed(file, "this is not a file of cases: its 'cases' is not a list")
    _refuse_names_twice(file, rows, cases)
    if suffix == ".json":
        text = _json({**before, "cases": [*rows, *map(case_data, cases)]})
    else:
        text = (old.rstrip("\n") + "\n\n" if old.strip() else "") + toml_of(cases)
    _replace(file, text, before={**before, "cases": rows})


def _data(value: Any) -> Any:
    if attrs.has(type(value)):
        names = [field.name for field in attrs.fields(type(value)) if _is_set(field, value)]
        return {name: _data(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: _data(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_data(inner) for inner in value]
    return value


def _is_set(field: attrs.Attribute[Any], value: Any) -> bool:
    inner = getattr(value, field.name)
    default: Any = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class at run time
        return bool(inner)
    return type(inner) is not type(default) or bool(inner != default)


def _json(data: Any) -> str:
    return scrub(json.dumps(data, ensure_ascii=False, indent=2)) + "\n"


def _line(pair: tuple[str, Any]) -> str:
    key, value = pair
    short = f"{_key(key)} = {_toml(value)}"
    if isinstance(value, list) and len(short) > _WIDE:
        return f"{_key(key)} = [\n" + "".join(f"    {_toml(item)},\n" for item in value) + "]\n"
    return short + "\n"


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _toml_text(value)
        case int() | float():
            return repr(value)
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            pairs = ", ".join(f"{_key(name)} = {_toml(inner)}" for name, inner in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    raise ConfigError([Problem(path="", text="a case has a null, which TOML cannot express: write it to a .json file")])


def _toml_text(text: str) -> str:
    return json.dumps(scrub(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml_text(name)


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
    from flexchat.host import read_document

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
