"""Recorded HTTP traffic, served again in order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

import attrs
import httpx

DEFAULT_IGNORED = ("/headers",)
"""Headers hold keys, versions of clients and lengths."""


@attrs.frozen
class Difference:
    """A place where a request is not the recorded one: a JSON pointer into {method, path, query, headers, body}."""

    pointer: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: expected {_short_json(self.expected)}, got {_short_json(self.got)}"


class ReplayTransport(httpx.AsyncBaseTransport):
    """Answers each request with the recorded answer, if it is the recorded request.

    An exchange is JSON data::

        {"request": {"method": "POST", "path": "/v1/chat", "query": {}, "headers": {}, "body": {…}},
         "response": {"status": 200, "headers": {"content-type": "application/json"}, "body": {…}}}

    A body is JSON data, or a text for what is none: a stream (server-sent events, lines of JSON), a web page. Absent
    keys of a request are not compared; of headers only those that are recorded are.

    Args:
        exchanges: In the order they happened.
        ignore: JSON pointers of what may differ: "/headers", "/body/stream_options". All below is ignored too.
        piece_bytes: Length of the pieces a body arrives in; 0 for one piece.

    Attributes:
        served: How many exchanges have been served.
    """

    def __init__(
        self, exchanges: Iterable[Mapping[str, Any]], *, ignore: Iterable[str] = DEFAULT_IGNORED, piece_bytes: int = 0
    ) -> None:
        self._exchanges = tuple(exchanges)
        self._ignored = tuple(ignore)
        self._piece_bytes = piece_bytes
        self.served = 0

    @classmethod
    def from_file(cls, path: str | Path, **rest: Any) -> Self:
        """Read a JSON file: a list of exchanges, or an object with such a list in ``exchanges``."""
        data = json.loads(Path(path).read_text("utf-8"))
        return cls(data["exchanges"] if isinstance(data, dict) else data, **rest)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the next recorded answer.

        Raises:
            AssertionError: The request is not the recorded one, or there is none left.
        """
        record = _request_record(request, await request.aread())
        if self.served >= len(self._exchanges):
            raise AssertionError(
                f"nothing is recorded for request {self.served + 1}, {record['method']} {record['path']}: "
                f"the recording has {len(self._exchanges)}"
            )
        exchange = self._exchanges[self.served]
        mismatches = differences(exchange["request"], record, ignore=self._ignored)
        if mismatches:
            lines = "\n".join(f"  {difference}" for difference in mismatches[:20])
            raise AssertionError(f"request {self.served + 1} is not the recorded one:\n{lines}")
        self.served += 1
        response = exchange["response"]
        body = response.get("body")
        content = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        headers = dict(response.get("headers") or {})
        return httpx.Response(
            response.get("status", 200), headers=headers, stream=_Pieces(content, self._piece_bytes), request=request
        )

    def assert_complete(self) -> None:
        """Check that every exchange was asked for.

        Raises:
            AssertionError: Some were not.
        """
        remaining = len(self._exchanges) - self.served
        if remaining:
            raise AssertionError(f"{remaining} of {len(self._exchanges)} recorded exchanges were not asked for")


def differences(
    expected: Mapping[str, Any], actual: Mapping[str, Any], *, ignore: Sequence[str] = ()
) -> list[Difference]:
    """Return where a request differs from the recorded one."""
    mismatches: list[Difference] = []
    for field, value in expected.items():
        theirs = actual.get(field)
        if field == "headers":
            value = {name.lower(): text for name, text in (value or {}).items()}
            theirs = {name: text for name, text in (theirs or {}).items() if name in value}
        mismatches += _compared(f"/{field}", value, theirs, ignore)
    return mismatches


_ABSENT = type("Absent", (), {"__repr__": lambda self: "nothing"})()


def _compared(pointer: str, expected: Any, actual: Any, ignore: Sequence[str]) -> list[Difference]:
    if any(pointer == skipped or pointer.startswith(f"{skipped}/") for skipped in ignore):
        return []
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        keys = [*expected, *(key for key in actual if key not in expected)]
        pairs = [(f"{pointer}/{_escaped(key)}", expected.get(key, _ABSENT), actual.get(key, _ABSENT)) for key in keys]
    elif isinstance(expected, list) and isinstance(actual, list):
        items = zip_longest(expected, actual, fillvalue=_ABSENT)
        pairs = [(f"{pointer}/{index}", ours, theirs) for index, (ours, theirs) in enumerate(items)]
    else:
        return [] if _same(expected, actual) else [Difference(pointer, expected, actual)]
    return [difference for pair in pairs for difference in _compared(*pair, ignore)]


def _same(a: Any, b: Any) -> bool:
    if a is _ABSENT or b is _ABSENT:
        return a is b
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _short_json(value: Any) -> str:
    text = repr(value) if value is _ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:198] + " …"


def _request_record(request: httpx.Request, content: bytes) -> dict[str, Any]:
    body: Any = None
    if content:
        try:
            body = json.loads(content)
        except ValueError:
            body = content.decode("utf-8", "replace")
    return {
        "method": request.method,
        "path": request.url.path,
        "query": dict(request.url.params),
        "headers": dict(request.headers),
        "body": body,
    }


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, content: bytes, size: int) -> None:
        self._content, self._size = content, size or max(len(content), 1)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._content), self._size):
            yield self._content[at : at + self._size]
