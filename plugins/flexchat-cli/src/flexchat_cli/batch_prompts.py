"""The prompts of a batch: one JSON value per line, a text or an object with the keywords of ``respond``."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
from flexchat.domain import ChatRequest
from flexchat.errors import ChatRequestError, ConfigError, Problem, UnknownNameError, did_you_mean

from .answering import PER_MESSAGE
from .usage import UsageError

KEYS = (
    "message",
    "id",
    "history",
    "topic",
    "collections",
    "variables",
    "response_format",
    *PER_MESSAGE,
)
"""What a line may have; all but ``message`` and ``id`` as FlexChat.respond takes them."""


_KINDS = {int: "a number", float: "a number", bool: "true or false", type(None): "null", list: "a list"}


@attrs.frozen(kw_only=True)
class Prompt:
    """One line.

    Attributes:
        line: Its number in the file, from 1.
        id: Id of its answer: the line's own ``id``, or its number.
        digest: 32 hexadecimal digits unique to this line of the file, at any place in it.
    """

    line: int
    id: str | int
    request: ChatRequest
    digest: str


def read_prompts(text: str, source: str, read: Callable[..., ChatRequest]) -> list[Prompt]:
    """Return the prompts; blank lines are passed over.

    Args:
        source: Name of the text in errors.
        read: Makes a request of a message and the keywords of respond.

    Raises:
        ConfigError: Everything that is wrong with the lines.
    """
    prompts, problems, seen, first_with_id = [], [], Counter[str](), dict[str | int, int]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = _fields(line)
            id = _id(fields.pop("id", number))
            message = fields.pop("message")
            request = read(message, fields)
        except (ChatRequestError, UnknownNameError, UsageError, _LineError) as error:
            problems.append(Problem(path="", text=str(error), source=source, line=number))
            continue
        if (first := first_with_id.setdefault(id, number)) != number:
            text_of = f"the id {json.dumps(id)} is already that of line {first}"
            problems.append(Problem(path="", text=text_of, source=source, line=number))
        seen[line.strip()] += 1
        unique = f"{seen[line.strip()]} {line.strip()}".encode(errors="surrogatepass")
        prompts.append(Prompt(line=number, id=id, request=request, digest=hashlib.sha256(unique).hexdigest()[:32]))
    if problems:
        raise ConfigError(problems)
    return prompts


class _LineError(Exception):
    """A line is not a prompt."""


def _fields(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise _LineError(f'is not JSON ({error}); a prompt is a text in quotes, or {{"message": "…"}}') from None
    except RecursionError:
        raise _LineError("is nested too deeply") from None
    if isinstance(value, str):
        return {"message": value}
    if not isinstance(value, dict):
        raise _LineError(f'is {_KINDS[type(value)]}; a prompt is a text in quotes, or {{"message": "…"}}')
    for name in value:
        if name not in KEYS:
            raise _LineError(f"has the unknown key '{name}'{did_you_mean(name, KEYS)}")
    if "message" not in value:
        raise _LineError("has no 'message'")
    return value


def _id(id: Any) -> str | int:
    if isinstance(id, str | int) and not isinstance(id, bool):
        return id
    raise _LineError(f"'id' is a text or a whole number, not {json.dumps(id)[:40]}")
