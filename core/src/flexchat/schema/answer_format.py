"""Required forms of answers, and the parsing of a model's text, which may hold more than JSON.

Models think aloud, write a fence, and add a sentence.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import attrs

from ..domain import ResponseFormat
from ..domain.copies import with_own_tables
from ..domain.text import STRICT_JSON
from ..errors import ChatRequestError, json_error_message
from .annotations import Form, UnsayableError, form_of
from .check import ArgumentChecker
from .from_pydantic import at_root, hoisted
from .limits import schema_problems

_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|thoughts|reasoning|analysis)>", re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"<(?:think|thinking|thought|thoughts|reasoning|analysis)>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.MULTILINE)
_BEGIN = re.compile(r"[{\[]")
_BRACKET = re.compile(r"[{}\[\]]")
_IGNORED = "\ufeff\u200b\u2060 \t\r\n"


@attrs.frozen(kw_only=True)
class ReadAnswer:
    """An answer that has its form.

    Attributes:
        text: The JSON text, without the model's text around it.
        data: Its value as JSON data.
        parsed: The value as an instance of the requested type.
    """

    text: str
    data: Any
    parsed: Any


@attrs.frozen(kw_only=True)
class AnswerFormat:
    """The required form of an answer.

    Attributes:
        format: The format sent to the model's service.

    Args:
        key: The value's key in the object services insist on; None if the value is that object. A model that writes
            only the value is understood as well.
    """

    format: ResponseFormat
    _key: str | None = attrs.field(default=None, alias="key")
    _checker: ArgumentChecker | None = attrs.field(default=None, alias="checker")
    _read: Callable[[Mapping[str, Any]], Any] = attrs.field(default=dict, alias="read")

    def read(self, text: str) -> Any:
        """Return an answer's value as find parses it. Raises the same as find."""
        return self.find(text).parsed

    def find(self, text: str, *, is_complete: bool = True) -> ReadAnswer:
        """Read the JSON value of an answer, or the only one in it that has the form.

        Args:
            is_complete: Whether the model finished: a value in the middle of an answer that was cut off may be a draft.

        Raises:
            ValueError: It does not have the form; the text is written for the model.
        """
        if not text.strip():
            raise ValueError("it is empty")
        bare_text = _bare(text)
        try:
            value = STRICT_JSON.decode(bare_text)
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None
        except json.JSONDecodeError as error:
            why = f"it is not valid JSON ({json_error_message(error)} at character {error.pos})"
        else:
            return self._fitting(value, bare_text)
        fitting, problems = list[ReadAnswer](), list[str]()
        for value, candidate in _values_in(text) if is_complete else ():
            try:
                fitting.append(self._fitting(value, candidate))
            except ValueError as error:
                problems.append(str(error))
        if len({json.dumps(each.data, sort_keys=True) for each in fitting}) == 1:
            return fitting[0]
        if len(fitting) > 1:
            raise ValueError(f"it has {len(fitting)} different JSON values of that form: only one may be there")
        raise ValueError(problems[0] if len(problems) == 1 else why)

    def _fitting(self, value: Any, text: str) -> ReadAnswer:
        if self._key is not None and not (isinstance(value, dict) and self._key in value):
            value = {self._key: value}
        if not isinstance(value, dict):
            raise ValueError("it must be one JSON object")
        if self._checker is not None:
            checked = self._checker.check(value)
            if checked.problems:
                raise ValueError("; ".join(checked.problems))
            value = checked.params
        data = value if self._key is None else value[self._key]
        return ReadAnswer(text=text, data=data, parsed=self._read(value))


def answer_format(own_format: Any) -> AnswerFormat:
    """Return the form for a caller's format.

    Args:
        wanted: A class (attrs, dataclass, TypedDict, pydantic) or any annotation a tool's parameter may have; a JSON
            Schema; OpenAI's ``{"type": "json_object"}`` or ``{"type": "json_schema", "json_schema": …}``; or a
            ResponseFormat.

    Raises:
        ChatRequestError: It is not a valid form for an answer; the text gives the reason.
    """
    if isinstance(own_format, AnswerFormat):
        return own_format
    if isinstance(own_format, ResponseFormat | Mapping):
        try:
            own_format = with_own_tables(own_format)  # the caller may change its schema later
        except RecursionError:
            raise ChatRequestError("response_format: the schema is nested too deeply") from None
        return _of_format(own_format if isinstance(own_format, ResponseFormat) else _format_of(own_format))
    return _of_class(own_format) if isinstance(own_format, Hashable) else _class_form(own_format)


def _format_of(table: Mapping[str, Any]) -> ResponseFormat:
    kind = table.get("type")
    if kind == "json_object":
        return ResponseFormat(type="json_object")
    if kind == "json_schema":
        inner = table.get("json_schema", table)
        inner = inner if isinstance(inner, Mapping) else {}
        return ResponseFormat(
            name=str(inner.get("name") or "response"), schema=inner.get("schema") or {}, strict=inner.get("strict")
        )
    title = re.sub(r"[^A-Za-z0-9_-]", "_", str(table.get("title") or ""))[:64]
    return ResponseFormat(name=title or "response", schema=table)


def _of_format(wanted: ResponseFormat) -> AnswerFormat:
    if wanted.type == "json_object":
        return AnswerFormat(format=wanted)
    problem = format_problem(wanted)
    if problem:
        raise ChatRequestError(f"response_format: {problem}")
    assert wanted.schema is not None
    return AnswerFormat(format=wanted, checker=ArgumentChecker(wanted.schema))


def format_problem(wanted: ResponseFormat) -> str | None:
    """Return the reason a format cannot be requested; None if it can."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wanted.name):
        return f"the name {wanted.name!r} must be 1 to 64 of A-Z a-z 0-9 _ -"
    if wanted.type == "json_object":
        return None
    if not isinstance(wanted.schema, Mapping) or wanted.schema.get("type") != "object":
        return 'schema must be a JSON Schema whose root has the type "object"'
    problems = schema_problems(wanted.schema)
    return f"schema: {'; '.join(problems)}" if problems else None


def _class_form(wanted: Any) -> AnswerFormat:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", getattr(wanted, "__name__", "response"))[:64] or "response"
    try:
        found = form_of(wanted)
    except UnsayableError as error:
        text = str(error).replace(", or leave the annotation out", "")  # advice for tools only
        raise ChatRequestError(f"response_format: {text}") from None
    found_schema = at_root(found.schema)
    if found_schema.get("type") == "object":
        form = _of_format(ResponseFormat(name=name, schema=found_schema))
        return attrs.evolve(form, read=lambda value: _read_whole(found, value))
    # Services accept only objects: anything else is wrapped in one.
    schema = hoisted({"type": "object", "properties": {"result": found.schema}, "required": ["result"]})
    form = _of_format(ResponseFormat(name=name, schema=schema))
    return attrs.evolve(form, key="result", read=lambda value: found.read(value["result"], ("result",)))


_of_class = functools.lru_cache(maxsize=256)(_class_form)


def _read_whole(form: Form, value: Mapping[str, Any]) -> Any:
    try:
        return form.read(dict(value), ())
    except ValueError as error:  # a form's words are those for a tool's arguments
        raise ValueError(str(error).replace("the arguments", "the answer", 1)) from None


def _bare(text: str) -> str:
    """Return a text without the Markdown fence around it, a byte order mark and surrounding space."""
    text = text.strip(_IGNORED)
    fenced = _FENCE.fullmatch(text)
    return fenced[1] if fenced else text


def _values_in(text: str) -> list[tuple[Any, str]]:
    """Find the outermost JSON values of a text, each with its text: objects, arrays, and what fills a fenced block.

    Thoughts, up to the last tag that ends one, are left out. A value inside a larger one that cannot be read does not
    count, since it is only a part of the intended value; if the text ends within a value, none counts.
    """
    ends = [match.end() for match in _THOUGHT_END.finditer(text)]
    text = text[ends[-1] :] if ends else text
    if _OPEN_THOUGHT.search(text):
        return []
    values: list[tuple[Any, str]] = []
    at = 0
    for fence in _FENCE.finditer(text):
        values += _in_prose(text[at : fence.start()])[0]
        inner, at = fence[1].strip(_IGNORED), fence.end()
        try:
            values.append((STRICT_JSON.decode(inner), inner))
        except (ValueError, RecursionError):
            values += _in_prose(inner)[0]
    last, is_open = _in_prose(text[at:])
    return [] if is_open else values + last


def _in_prose(text: str) -> tuple[list[tuple[Any, str]], bool]:
    """Return the values of a text, and whether it ends within one."""
    values: list[tuple[Any, str]] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        try:
            value, at = STRICT_JSON.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            end = _end_of_brackets(text, begin.start())
            if end is None:
                return values, True
            at = end
        else:
            values.append((value, text[begin.start() : at]))
    return values, False


def _end_of_brackets(text: str, start: int) -> int | None:
    """Return the place behind the bracket that closes the one at start; None if none does."""
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket.group() in "{[" else -1
        if depth == 0:
            return bracket.end()
    return None
