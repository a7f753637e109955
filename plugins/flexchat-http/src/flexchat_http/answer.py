"""From a service's answer to a tool's result, or to an error a model can act on. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from http.client import responses
from typing import Any
from urllib.parse import urlsplit

from flexchat.plugin import Fetched, FetchError, ToolError
from flexchat_sdk import retry_after_s

MAX_DETAIL_CHARS = 500
MAX_BEGINNING_CHARS = 200
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_SIMPLE_PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.IGNORECASE)
_TEXTS = ("+xml", "/xml", "/javascript", "/yaml", "+yaml", "ndjson", "/csv", "urlencoded", "/json", "+json")
_DETAILS = ("detail", "message", "error_description", "title")
_HINTS = {
    401: "the service did not accept the key of this tool: its operator has to set it",
    403: "the key of this tool may not do this",
    404: "check the arguments: what they name does not exist",
    405: "the address of this tool does not take its method: its operator has to correct it",
    410: "what the arguments name no longer exists",
    413: "send less",
    429: "the service is asked too often",
}


def value_of(answer: Fetched, *, reading: str = "auto", is_write: bool = False) -> Any:
    """Decode a response to JSON data or text; None if it is empty.

    Args:
        reading: "auto" decides by content type.
        is_write: The request may have changed something.

    Raises:
        ToolError: The response is neither JSON nor text.
        FetchError: The response is invalid JSON; a write may nevertheless have taken effect.
    """
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not answer.body.strip():
        return None
    if reading == "json" or (reading == "auto" and (kind.endswith(("/json", "+json")) or not kind)):
        try:
            return _json(answer)
        except (ValueError, RecursionError):
            text = _text(answer)
            if reading == "auto" and not kind and text is not None:
                return text
            begins = " ".join((text or "").split())[:MAX_BEGINNING_CHARS] if "\0" not in (text or "") else ""
            excerpt = f"it begins with: {begins}" if begins else f"{len(answer.body)} bytes that are no text"
            problem = f"{_host(answer)} answered {answer.status} with JSON that cannot be read; {excerpt}"
            raise FetchError(problem, may_have_arrived=is_write) from None
    is_text = kind.startswith("text/") or kind.endswith(_TEXTS)
    text = _text(answer) if reading == "text" or is_text or _charset(answer) else None
    if text is None:
        if is_write:  # The status means success, so the write has taken effect.
            return {"content_type": kind, "bytes": len(answer.body)}
        size = len(answer.body)
        raise ToolError(f"{_host(answer)} answered with {kind or 'bytes'} ({size} bytes), which is not text")
    return text


def check_status(answer: Fetched, mask: Any, *, key_sent: bool = False) -> None:
    """Raise if a service refused or failed.

    Args:
        mask: Removes secrets from a text.
        key_sent: Whether an idempotency key was sent: then 409 and 422 may be about the key.

    Raises:
        FetchError: Anything but a success. ``may_have_arrived`` is False for 4xx: the service did not act.
    """
    status = answer.status
    if 200 <= status < 300 or status == 303:
        return
    summary = f"{_host(answer)} answered {status} {responses.get(status, '')}".rstrip()
    if detail := _detail(answer, mask):
        summary += f": {detail}"
    if 300 <= status < 400:
        target = mask(answer.headers.get("location", "")[:200])
        raise FetchError(
            f"{summary} (redirects to {target or 'nowhere'}; a call that changes something is not redirected)",
            may_have_arrived=status in (301, 302),
        )
    wait_s = retry_after_s(answer.headers)
    if key_sent and status in (409, 422) and b"idempoten" in answer.body.lower():
        if status == 409:
            text = f"{summary} (the same request is still being worked on)"
            raise FetchError(text, retryable=True, may_have_arrived=True, retry_after_s=wait_s)
        raise FetchError(f"{summary} (its key has been used for another request)", may_have_arrived=True)
    raise FetchError(
        summary,
        hint=_HINTS.get(status),
        retryable=status in _TRANSIENT,
        may_have_arrived=status >= 500,
        retry_after_s=wait_s,
    )


def pick(value: Any, path: str | None) -> Any:
    """Return the part of a value that a JSONPath picks: one hit is the value, several are a list, none is None.

    Source: requirement TC-56; RFC 9535.
    """
    if path is None:
        return value
    if _SIMPLE_PATH.fullmatch(path):
        for step in path.split(".")[1:]:
            if not isinstance(value, Mapping) or step not in value:
                return None
            value = value[step]
        return value
    hits = _compile(path).findall(value) if isinstance(value, (dict, list)) else []
    return hits[0] if len(hits) == 1 else hits or None


def path_problem(path: str) -> str | None:
    """Validate a JSONPath; return the error, or None."""
    if _SIMPLE_PATH.fullmatch(path):
        return None
    from jsonpath import JSONPathError

    try:
        _compile(path)
    except JSONPathError as error:
        return str(error.args[0]) if error.args else "it cannot be read"
    return None


@functools.lru_cache(maxsize=256)
def _compile(path: str) -> Any:
    import jsonpath  # takes long to load, and most paths are simple

    return jsonpath.compile(path, strict=True)


def _not_json(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _json(answer: Fetched) -> Any:
    """Parse a body, in the charset it declares if that is its charset."""
    text = _decode(answer) if _charset(answer) else None
    return json.loads(answer.body if text is None else text.removeprefix("\ufeff"), parse_constant=_not_json)


def _text(answer: Fetched) -> str | None:
    if (text := _decode(answer)) is not None:
        return text
    return None if b"\x00" in answer.body[:1000] else answer.body.decode("utf-8", "replace")


def _decode(answer: Fetched) -> str | None:
    """Decode a body by its declared charset, else UTF-8; None if it is not in that charset."""
    try:
        return answer.body.decode(_charset(answer) or "utf-8")
    except (UnicodeError, LookupError):
        return None


def _charset(answer: Fetched) -> str | None:
    declared = _CHARSET.search(answer.headers.get("content-type", ""))
    return declared[1] if declared else None


def _detail(answer: Fetched, mask: Any) -> str:
    """Extract the error message of a response in one line: problem details (RFC 9457), a common key, or the text."""
    try:
        data = _json(answer)
    except (ValueError, RecursionError):
        data = None
    text: Any = None
    if isinstance(data, Mapping):
        inner = data.get("error")
        sources = [data, inner] if isinstance(inner, Mapping) else [data]
        for source in reversed(sources):
            text = text or next((source[name] for name in _DETAILS if source.get(name)), None)
        text = text or (inner if isinstance(inner, str) else None) or data
    elif data is not None:
        text = data
    elif "html" not in answer.headers.get("content-type", ""):
        text = _decode(answer) or answer.body[: 4 * MAX_DETAIL_CHARS].decode("utf-8", "replace")
    if text is None or text == "":
        return ""
    detail = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return str(mask(" ".join(detail[: 4 * MAX_DETAIL_CHARS].split())))[:MAX_DETAIL_CHARS]


def _host(answer: Fetched) -> str:
    return urlsplit(answer.url).hostname or "the service"
