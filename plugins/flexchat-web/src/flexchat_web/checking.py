"""Checks requests before any operation sees them: size, time, format, and JSON Schema."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import math
import mmap
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import attrs
from flexchat import Problem
from flexchat.host import SchemaEngine, UncheckedError, json_error_message, label, limited_work, sentence
from starlette.requests import Request

from .operations import Operation, Schema, Upload
from .problems import ApiError

MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_DIGITS = 40
MAX_PARAMETERS = 50
MAX_QUERY = 8_192
MAX_PROBLEMS = 20

MIN_BYTES_PER_S = 16 * 1024
"""The slowest a file may arrive, after the time in which any body may."""

QUICK_BYTES = 64 * 1024
QUICK_MARKS = 1_000
"""The length, and number of commas and colons, up to which a body is read in the event loop, in a few ms."""

# A text of JSON that is probably a file in Base64, but no key. Nothing in it ends or escapes a text: in its place, any
# other such text leaves JSON what it is, valid or not.
_LONG_TEXT = re.compile(rb'"((?:data:[\w.+/;=-]{0,200},)?[A-Za-z0-9+/]{65536,}+={0,2})"(?!\s*:)')
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_BOOLEANS = {"true": True, "false": False}


async def read_body(request: Request, *, max_bytes: int, seconds: float) -> bytearray | memoryview:
    """Return a request's body: a long one of known length in memory of its own, which is free again with it.

    Raises:
        ApiError: 413: it is longer than max_bytes; 408: it took longer than the seconds.
        ClientDisconnect: The client left.
    """
    header = request.headers.get("content-length", "")
    length = int(header[:20]) if header.isascii() and header.isdigit() else 0
    if length > max_bytes:
        raise _too_large(max_bytes)
    body, room, size = bytearray(), mmap.mmap(-1, length) if length > QUICK_BYTES else None, 0
    try:
        async with asyncio.timeout(seconds), contextlib.aclosing(request.stream()) as pieces:
            async for piece in pieces:
                size += len(piece)
                if size > (length if room is not None else max_bytes):
                    raise _too_large(max_bytes)
                if room is None:
                    body += piece
                else:
                    room.write(piece)
    except TimeoutError:
        raise ApiError(
            408, f"the body did not arrive within {seconds:g} seconds; send it again", headers={"connection": "close"}
        ) from None
    return body if room is None else memoryview(room)[:size]


async def arriving(request: Request, *, seconds: float) -> AsyncGenerator[bytes, None]:
    """Yield a request's body while it arrives.

    Raises:
        ApiError: 408: after these seconds, it is slower than MIN_BYTES_PER_S.
        ClientDisconnect: The client left.
    """
    loop, size = asyncio.get_running_loop(), 0
    start = loop.time()
    async with contextlib.aclosing(request.stream()) as pieces:
        while True:
            try:
                async with asyncio.timeout_at(start + seconds + size / MIN_BYTES_PER_S):
                    piece = await anext(pieces, None)
            except TimeoutError:
                text = f"the body arrived with less than {MIN_BYTES_PER_S:,} bytes per second; send it again"
                raise ApiError(408, text, headers={"connection": "close"}) from None
            if piece is None:
                return
            size += len(piece)
            if piece:
                yield piece


def _too_large(max_bytes: int) -> ApiError:
    size = f"{max_bytes // 1024 // 1024} MiB" if max_bytes >= 1024 * 1024 else f"{max_bytes:,} bytes"
    return ApiError(413, f"the body is larger than {size}", headers={"connection": "close"})


@attrs.frozen(kw_only=True)
class Unread:
    """A body as it came, and the requirements on it; see Operation. It can be sent to another process.

    Attributes:
        raw: The body, with marks in place of long texts in Base64: JSON with several copies of a file would be needed
            to read it as a whole.
        texts: These texts, by their marks; parts of the body where an operation decodes them in place.
    """

    schema: Schema | None
    required: bool
    refusal: Callable[[Any], str | None] | None
    raw: bytes
    content_type: str
    texts: Mapping[str, str | memoryview] = attrs.field(factory=dict)
    base64_at: tuple[str, ...] | None = None

    @property
    def is_quick(self) -> bool:
        """Whether it is read and checked in a few milliseconds."""
        return len(self.raw) <= QUICK_BYTES and sum(map(self.raw.count, (b",", b":", b"["))) <= QUICK_MARKS

    def read(self) -> Any:
        """Return it as JSON data that fits the schema; None without one.

        Raises:
            ApiError: 415: it is not application/json; 413: it has too many values; 400: it is not JSON or does not fit.
        """
        return restored(self.shortened().read_marked(), self.texts, self.base64_at)

    def shortened(self) -> Unread:
        """Return the body with the beginnings of its long texts: longer than any text that a schema limits."""
        return attrs.evolve(self, texts={mark: _as_text(text[:QUICK_BYTES]) for mark, text in self.texts.items()})

    def read_marked(self) -> Any:
        """Return the data with marks in place of long texts, for ``restored``. Raises the same as read."""
        if self.schema is None:
            if self.raw:
                raise ApiError(400, "this operation takes no body")
            return None
        if not self.raw and not self.required:
            return None
        kind, _, parameters = self.content_type.partition(";")
        charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
        if kind.strip().lower() != "application/json" or (charset and charset[1].lower() not in ("utf-8", "utf8")):
            hint = f", not {self.content_type[:80]!r}" if kind else ": send the header Content-Type: application/json"
            raise ApiError(415, f"the body must be application/json in UTF-8{hint}")
        data = read_json(self.raw)
        self.check(restored(data, self.texts))
        return data

    def check(self, data: Any) -> None:
        """Check that data fit the schema.

        Raises:
            ApiError: 400: they do not.
        """
        flaws = _flaws(_engine(json.dumps(self.schema)), data)
        if flaws:
            refusal = self.refusal(data) if self.refusal is not None else None
            raise ApiError(400, refusal or _summary("the body does not match the schema", flaws), flaws=flaws)


class Route:
    """An operation, and the checker of its requests."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self._query = {name: SchemaEngine(schema) for name, schema in operation.query.items()}

    def upload(self, content_type: str) -> Callable[[Upload], Awaitable[Any]] | None:
        """Return the reader of a body of this type while it arrives; None for one that is JSON, or has to be."""
        uploads = self.operation.uploads
        kind = content_type.partition(";")[0].strip().lower()
        return uploads.get(kind) or uploads.get("*/*")

    def body(self, raw: bytes | bytearray | memoryview, content_type: str) -> Unread:
        """Return a request's body with the operation's requirements on it."""
        schema, required, refusal = self.operation.body, self.operation.body_required, self.operation.refusal
        short, texts = _apart_from_texts(raw) if len(raw) > QUICK_BYTES else (bytes(raw), {})
        if self.operation.base64_at is None:
            texts = {mark: _as_text(text) for mark, text in texts.items()}
        return Unread(
            schema=schema,
            required=required,
            refusal=refusal,
            raw=short,
            content_type=content_type,
            texts=texts,
            base64_at=self.operation.base64_at,
        )

    def query(self, raw: bytes) -> dict[str, Any]:
        """Return the parameters of the query, converted; defaults filled in.

        Raises:
            ApiError: 400: one is unknown, given twice, or does not fit.
        """
        sent = _read_query(raw)
        schemas = self.operation.query
        listed = f"known: {', '.join(schemas)}" if schemas else "there are none"
        flaws, values = [], dict[str, Any]()
        for name in sent:
            if name not in schemas:
                flaws.append(Problem(path=name[:80], text=f"unknown query parameter ({listed})"))
            elif len(sent[name]) > 1:
                flaws.append(Problem(path=name, text="given more than once"))
        for name, schema in schemas.items():
            if name in sent:
                values[name] = _converted(sent[name][0], schema)
                more = _flaws(self._query[name], values[name])
                flaws += [Problem(path=name, text=flaw.text.replace("the body", name, 1)) for flaw in more]
            elif "default" in schema:
                values[name] = schema["default"]
        if flaws:
            raise ApiError(400, _summary("the query does not match the schema", flaws), flaws=flaws[:MAX_PROBLEMS])
        return values


def _as_text(text: str | memoryview) -> str:
    return text if isinstance(text, str) else str(text, "ascii")


def _apart_from_texts(raw: bytes | bytearray | memoryview) -> tuple[bytes, dict[str, str | memoryview]]:
    """Return a body with marks in place of long texts in Base64, and these texts, which are parts of the body."""
    secret, short, texts, rest = secrets.token_hex(16), bytearray(), dict[str, str | memoryview](), 0
    with memoryview(raw) as view:
        for match in _LONG_TEXT.finditer(raw):
            mark = f"{secret}-{len(texts)}"
            texts[mark] = view[match.start(1) : match.end(1)]
            short += view[rest : match.start(1)]
            short += mark.encode()
            rest = match.end(1)
        short += view[rest:]
    return bytes(short), texts


def restored(data: Any, texts: Mapping[str, str | memoryview], base64_at: tuple[str, ...] | None = None) -> Any:
    """Return JSON data with texts in place of their marks; data itself without texts.

    Args:
        base64_at: Keys of the fields that get a text as part of the body; see Operation.
    """
    if not texts:
        return data
    if isinstance(data, str):
        text = texts.get(data, data)
        return text if base64_at == () else _as_text(text)
    if isinstance(data, list):
        return [restored(item, texts, base64_at) for item in data]
    if not isinstance(data, dict):
        return data
    first, below = (base64_at[0], base64_at[1:]) if base64_at else (None, None)
    return {key: restored(item, texts, below if key == first else None) for key, item in data.items()}


def read_json(raw: bytes) -> Any:
    """Read JSON strictly: UTF-8, no key twice, finite numbers of a sane length, at most 64 levels and 100,000 values.

    Halves of surrogate pairs in texts become U+FFFD: no store or service accepts them.

    Raises:
        ApiError: 400; 413: it has too many values.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8 (byte {error.start})") from None
    try:
        data = _DECODER.decode(text)
    except _Refused as error:
        raise ApiError(400, f"the body cannot be used: {error}") from None
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise ApiError(
            400, f"the body is not JSON: {json_error_message(error)} (line {error.lineno}, column {error.colno})"
        ) from None
    _check_size(data)
    return _scrubbed(data) if "\\ud" in text or "\\uD" in text else data


class _Refused(ValueError):
    """JSON that the standard or Python allows, but we do not."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys: set[str] = set()
        twice = next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]
        raise _Refused(f"the key {twice[:80]!r} occurs twice in one object")
    return data


def _not_finite(name: str) -> Any:
    raise _Refused(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Refused(f"a number has {len(digits):,} digits; at most {MAX_DIGITS} are read")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits) if len(digits) <= 10 * MAX_DIGITS else math.inf
    if not math.isfinite(value):
        raise _Refused("a number is too large or too long")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_not_finite, parse_int=_integer, parse_float=_float
)


def _too_deep() -> ApiError:
    return ApiError(400, f"the body is nested more than {MAX_DEPTH} levels deep")


def _check_size(data: Any) -> None:
    level, values_left = [data], MAX_VALUES
    for _ in range(MAX_DEPTH):
        values_left -= sum(map(len, level)) if isinstance(data, (dict, list)) else 0
        if values_left < 0:
            raise ApiError(413, f"the body has more than {MAX_VALUES:,} values; send fewer at once")
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


def _scrubbed(data: Any) -> Any:
    if isinstance(data, str):
        return _HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", data)
    if isinstance(data, list):
        return [_scrubbed(item) for item in data]
    if isinstance(data, dict):
        return {_scrubbed(key): _scrubbed(value) for key, value in data.items()}
    return data


def _read_query(raw: bytes) -> dict[str, list[str]]:
    if len(raw) > MAX_QUERY:
        raise ApiError(400, f"the query is longer than {MAX_QUERY:,} bytes")
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise ApiError(400, "the query is not UTF-8 in percent-encoding") from None
    except ValueError:
        raise ApiError(400, f"the query has more than {MAX_PARAMETERS} parameters") from None
    return {name: [value for other, value in pairs if other == name] for name, _ in pairs}


def _converted(text: str, schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "boolean":
        return _BOOLEANS.get(text, text)
    return text


@functools.cache
def _engine(schema: str) -> SchemaEngine:
    return SchemaEngine(json.loads(schema))


def _flaws(engine: SchemaEngine, data: Any) -> list[Problem]:
    try:
        with limited_work():
            errors = engine.errors(data)
    except UncheckedError as error:
        return [Problem(path="", text=f"the body holds {error}")]
    return [
        Problem(path=label(error.absolute_path) if error.absolute_path else "", text=_describe(error))
        for error in errors[:MAX_PROBLEMS]
    ]


def _describe(error: Any) -> str:
    text = sentence(error).replace("the arguments", "the body", 1).replace("unknown parameter", "unknown property", 1)
    return _HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", text)


def _summary(what: str, flaws: list[Problem]) -> str:
    more = f" (and {len(flaws) - 1} more)" if len(flaws) > 1 else ""
    return f"{what}: {flaws[0].text}{more}"
