"""The tool "read_result": pieces of an earlier result that was shortened to its head and tail."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from flexchat.plugin import EarlierResult, ToolContext, ToolError

from .parameters import ParameterError, text, whole_number

MAX_FIND = 200  # maximum length of the text to find
MAX_MATCHES = 10_000  # maximum number of matches that are counted

_AROUND = 100
_encode = json.JSONEncoder(ensure_ascii=False).encode


async def read_result(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Return params["chars"] characters of the result params["result"], from params["start"] on.

    With params["find"], search for this text from there on and return the matches. Positions count characters of the
    whole text, from 0. The returned data always fits the limit beyond which a result would be shortened.
    """
    call_id, find = text(params, "result", most=200), text(params, "find", default="", most=MAX_FIND)
    earlier = await context.earlier_result(call_id)
    if earlier is None:
        raise ToolError(
            f"no result '{call_id}' can be read",
            hint="only results above, in this conversation, whose marker names them",
        )
    start, length = whole_number(params, "start", default=0), len(earlier.text)
    if start > length:
        raise ParameterError(f"'start' is {start}, and the result has {length} characters")
    if find:
        matches: dict[str, Any] = await context.run_in_thread(_find_matches, earlier, find, start)
        return matches
    return _piece(earlier, start, whole_number(params, "chars", default=length))


def _piece(earlier: EarlierResult, start: int, chars: int) -> dict[str, Any]:
    length = len(earlier.text)
    room = earlier.max_chars - len(_encode({"text": "", "start": start, "next_start": length, "length": length}))
    piece = _fitting(earlier.text[start : start + min(chars, room)], room)
    end = start + len(piece)
    more = {"next_start": end} if end < length else {}
    return {"text": piece, "start": start, **more, "length": length}


def _find_matches(earlier: EarlierResult, find: str, start: int) -> dict[str, Any]:
    length, position = len(earlier.text), start
    # The largest frame: what its parts leave free is for the matches, so that the result is never shortened itself.
    frame: dict[str, Any] = {"matches": [], "count": MAX_MATCHES, "next_start": length, "length": length}
    room = earlier.max_chars - len(_encode(frame))
    matches: list[dict[str, Any]] = []
    count, next_start = 0, None
    for at in itertools.islice(_places(earlier.text, find, start), MAX_MATCHES):
        count, end = count + 1, at + len(find)
        if end <= position or next_start is not None:
            continue
        begin = min(at, max(at - _AROUND, position))
        passage: dict[str, Any] = {"start": begin, "text": earlier.text[begin : end + _AROUND]}
        if not matches and len(_encode(passage)) > room:  # A low limit: return the match without its surroundings.
            passage = {"start": at, "text": ""}
            passage["text"] = _fitting(earlier.text[at:end], room - len(_encode(passage)))
        cost = len(_encode(passage)) + len(", ")
        if matches and cost > room:
            next_start = at
            continue
        matches.append(passage)
        room, position = room - cost, max(end, begin + len(passage["text"]))
    more = {} if next_start is None else {"next_start": next_start}
    return {"matches": matches, "count": count, **more, "length": length}


def _places(text: str, find: str, start: int) -> Iterator[int]:
    """Yield the positions of *find*, ignoring case, in linear time, which re does not guarantee."""
    text, find = _lower(text), _lower(find)
    at = text.find(find, start)
    while at >= 0:
        yield at
        at = text.find(find, at + len(find))


def _lower(text: str) -> str:
    """Convert to lower case without changing positions: str.lower() turns İ into two characters."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def _fitting(piece: str, room: int) -> str:
    """Return the longest prefix whose JSON encoding has at most *room* characters."""
    while (over := len(_encode(piece)) - len('""') - room) > 0:
        piece = piece[: -max(1, over // len("\\u0000"))]  # Length of the longest escape.
    return piece
