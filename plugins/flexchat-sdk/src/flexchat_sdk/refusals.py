"""What a service's refusal means: a table of the vendor's own codes, then one ladder of statuses for all.

Pure: turns status, headers and body into a ProviderError.
"""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from typing import Any

import attrs
from flexchat import errors

from .http.secrets import MAX_CODE_CHARS, refusal_text
from .prices import package_data


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the delay before a retry in seconds, from 0 to errors.MAX_RETRY_AFTER_S; None without a usable header.

    ``retry-after-ms`` wins; ``retry-after`` is seconds, possibly with a fraction, or an HTTP date.

    Args:
        headers: Names in lower case.
        now: Seconds since 1970, for HTTP dates; None for the clock.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return bounded_wait(milliseconds / 1000)
    if (text := headers.get("retry-after")) is None:
        return None
    if (seconds := _number(text)) is None:
        try:
            date = parsedate_to_datetime(text).timestamp()
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = date - (time.time() if now is None else now)
    return bounded_wait(seconds)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Parse ``x-should-retry``; None if the header is missing or neither true nor false."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def bounded_wait(seconds: float) -> float:
    """Return a wait in seconds, limited to 0 to errors.MAX_RETRY_AFTER_S."""
    return min(max(0.0, seconds), errors.MAX_RETRY_AFTER_S)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(value) else value


_STATUS = re.compile(r"[45][0-9]{2}")
# Where the text is in a body without a table for the error.
_TEXTS = ("error", "message", "detail", "errors", "msg")

SHORTER = (
    "; begin a new conversation, send less (stores.NAME.top_k, tools.max_result_chars, fewer tools), or ask a model "
    "that reads more"
)
"""The advice of an error about a request that is too long."""

KINDS: Mapping[str, tuple[type[errors.ProviderError], str, Mapping[str, Any]]] = {
    "too_long": (errors.ContextLengthError, "the conversation is too long for the model: {text}" + SHORTER, {}),
    "filtered": (errors.ContentFilterError, "{host} refused the prompt: {text}", {}),
    "no_model": (errors.ModelNotFoundError, "{host} has no model {model}: {text}", {}),
    "quota": (errors.ProviderRateLimitError, "the budget at {host} is used up: {text}", {"kind": "quota"}),
    "key": (errors.ProviderAuthError, "{host} refuses the key ({key}): {text}", {}),
    "forbidden": (errors.ProviderAuthError, "{host} does not allow this: {text}", {}),
    "rate": (errors.ProviderRateLimitError, "{host} gets too many requests: {text}", {}),
    "no_api": (errors.ProviderProtocolError, "{host} has no {path} here: is base_url right?", {}),
    "not_found": (
        errors.ProviderRequestError,
        "{host} found nothing here (is base_url right?): {text}",
        {"kind": "not_found"},
    ),
    "timeout": (errors.ProviderTimeoutError, "{host} gave up waiting: {text}", {"retryable": True}),
    "conflict": (errors.ProviderRequestError, "{host} reports a conflict: {text}", {"kind": "conflict"}),
    "connection": (errors.ProviderConnectionError, "{host} broke off: {text}", {}),
    "overloaded": (errors.ProviderOverloadedError, "{host} failed{status}: {text}", {}),
    "unsupported": (errors.ProviderRequestError, "{host} cannot do this: {text}", {"kind": "unsupported_feature"}),
    "request": (errors.ProviderRequestError, "{host} refused the request: {text}", {}),
}
"""The kinds a Row may name: the error, its sentence, and its other fields."""


@attrs.frozen(kw_only=True)
class Report:
    """The parsed body of an error. Codes are in lower case.

    Attributes:
        code, type: The service's codes for the error.
        codes: Further codes.
        param: The field of the request that caused it.
        retry_s: The delay before a retry in seconds, if the body contains one.
        is_json: Whether the body was JSON: a wrong address answers with a page.
    """

    text: str
    code: str = ""
    type: str = ""
    codes: tuple[str, ...] = ()
    param: str | None = None
    request_id: str = ""
    retry_s: float | None = None
    is_json: bool = True

    def names(self, *codes: str) -> bool:
        """Return whether one of its codes is among these, in any case; a star in them matches anything."""
        words = [word.lower() for word in (self.code, self.type, *self.codes) if word]
        return any(fnmatchcase(word, code.lower()) for word in words for code in codes)

    def says(self, *phrases: str) -> bool:
        """Return whether its text contains one of these, in any case."""
        text = self.text.lower()
        return any(phrase.lower() in text for phrase in phrases)


def read_report(body: object, *, code: str = "code") -> Report:
    """Read an error's body in the forms most services use: a table ``error``, one of a few keys, plain text, a page.

    Args:
        code: That table's key for its code.
    """
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        text = body if isinstance(body, str) else ""
        return Report(text="a web page" if text.lstrip().startswith("<") else text, is_json=not isinstance(body, str))
    error = body.get("error")
    if isinstance(error, dict):
        return Report(
            text=message_in(error.get("message")),
            code=word_in(error.get(code)),
            type=word_in(error.get("type")),
            param=param if isinstance(param := error.get("param"), str) else None,
            request_id=word if isinstance(word := body.get("request_id"), str) else "",
        )
    text = next((t for key in _TEXTS if (t := message_in(body.get(key)))), "")
    return Report(text=text, code=word_in(body.get("code") or body.get("error_code")), type=word_in(body.get("type")))


def message_in(value: object) -> str:
    """Return a text, or the texts in a table or a list (FastAPI's detail, Cloudflare's errors)."""
    items = value if isinstance(value, list) else [value]
    messages = [item.get("message") or item.get("msg") if isinstance(item, dict) else item for item in items]
    return "; ".join([text for text in messages if text and isinstance(text, str)])


def word_in(value: object) -> str:
    """Return a code in lower case; empty if it is not one."""
    return str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _statuses(values: Iterable[int | None]) -> tuple[int | None, ...]:
    return tuple([value or None for value in values])


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@attrs.frozen
class Row:
    """One row of a vendor's table: the conditions of a refusal, and its kind.

    A row matches if each of its conditions does; of ``codes``, ``says`` and ``matches``, one is enough.

    Attributes:
        kind: A key of KINDS. "no_model" matches only if a model was requested.
        status: The accepted statuses; None, or 0, is an error in the middle of a stream, without a status.
        codes: Codes of the report, in any case; see Report.names.
        says: Phrases of its text, in any case.
        matches: A pattern searched in its text, in lower case. One that begins with ``.*`` or a lookahead needs a
            ``^``; otherwise the search takes quadratic time.
        path: A prefix of the requested path.
        param: The field of the request that caused it.
        is_json: Whether the body is JSON.
        text: The error's sentence, instead of that of KINDS; it may contain {host}, {text}, {model}, {path} and {key}.
        retryable: Whether repeating the request may help; None for the default of that kind of error.
        known: Fields of the error in addition to those of KINDS, such as ``{"kind": "invalid_schema"}``.
    """

    kind: str = attrs.field(validator=attrs.validators.in_(KINDS))
    status: tuple[int | None, ...] = attrs.field(default=(), kw_only=True, converter=_statuses)
    codes: tuple[str, ...] = attrs.field(default=(), kw_only=True, converter=_texts)
    says: tuple[str, ...] = attrs.field(default=(), kw_only=True, converter=_texts)
    matches: str = attrs.field(default="", kw_only=True)
    path: str = attrs.field(default="", kw_only=True)
    param: str | None = attrs.field(default=None, kw_only=True)
    is_json: bool | None = attrs.field(default=None, kw_only=True)
    text: str = attrs.field(default="", kw_only=True)
    retryable: bool | None = attrs.field(default=None, kw_only=True)
    known: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)

    def fits(self, report: Report, status: int | None, path: str, model: str | None) -> bool:
        """Return whether it fits a refusal."""
        return (
            (not self.status or status in self.status)
            and (self.kind != "no_model" or model is not None)
            and (self.is_json is None or report.is_json == self.is_json)
            and path.startswith(self.path)
            and (self.param is None or report.param == self.param)
            and self._matches_text(report)
        )

    def _matches_text(self, report: Report) -> bool:
        if not (self.codes or self.says or self.matches):
            return True
        if report.names(*self.codes) or report.says(*self.says):
            return True
        return bool(self.matches) and re.search(self.matches, report.text.lower(), re.DOTALL) is not None


@functools.cache
def _rows_of(package: str | None) -> tuple[Row, ...]:
    return tuple([Row(**row) for row in package_data(package, "refusals.toml")["rows"]]) if package else ()


_LADDER = (
    Row("too_long", status=(413,)),
    Row("key", status=(401,)),
    Row("quota", status=(402,)),
    Row("forbidden", status=(403,)),
    Row("no_api", status=(404,), is_json=False),
    Row("no_model", status=(404,), says=("model",)),
    Row("not_found", status=(404,)),
    Row("timeout", status=(408,)),
    Row("conflict", status=(409,)),
    Row("rate", status=(429,)),
    Row("overloaded", status=(None, *range(500, 600))),
    Row("request"),
)


@attrs.frozen(kw_only=True)
class Refusals:
    """The refusals of one service.

    Attributes:
        provider: The provider type's name.
        rows: The vendor's own, tried in order; if none fits, the status decides.
        package: The package whose refusals.toml has more rows, read with the first refusal.
        read: Reads a body, JSON data or text.
        status_of: The status a code stands for, in an error without a status.
        key: The settings' name for the key.
        request_id: The header with the request's id.
    """

    provider: str
    rows: tuple[Row, ...] = ()
    package: str | None = None
    read: Callable[[object], Report] = read_report
    status_of: Mapping[str, int] = attrs.field(factory=dict)
    key: str = "api_key"
    request_id: str = "x-request-id"

    def error(
        self,
        body: object,
        *,
        status: int | None,
        headers: Mapping[str, str],
        host: str,
        path: str,
        model: str | None,
        mask: Callable[[str], str],
    ) -> errors.ProviderError:
        """Return the error for a refusal.

        Args:
            body: JSON data, or text.
            status: None for an error in the middle of a stream; its code stands in for it.
            headers: Names in lower case.
            host: The service's name in texts.
            path: The requested path: "/chat/completions".
            mask: Removes keys from a text. A refusal of a key quotes part of it.
        """
        report = self.read(body)
        if status is None or status < 400:
            status = self._status(report)
        rows = (*self.rows, *_rows_of(self.package), *_LADDER)
        row = next(row for row in rows if row.fits(report, status, path, model))
        error_class, sentence, more = KINDS[row.kind]
        texts = {
            "host": host,
            "text": refusal_text(report.text, mask) or "no reason given",
            "model": model or "the model",
            "path": path[1:],
            "key": self.key,
            "status": "" if status is None else f" with status {status}",
        }
        details: dict[str, Any] = {
            "provider": self.provider,
            "model": model,
            "status": status,
            "code": self._short(next((w for w in (*report.codes, report.code, report.type) if w), ""), mask),
            "request_id": headers.get(self.request_id) or self._short(report.request_id, mask),
            "retry_after_s": bounded_wait(report.retry_s or 0)
            or retry_after_s(headers)
            or None,  # 0 stands for "some time"
        }
        if row.kind == "request":
            details["param"] = self._short(report.param or "", mask)
        error = error_class((row.text or sentence).format_map(texts), **{**details, **more, **row.known})
        for wish in (row.retryable, should_retry(headers)):
            if wish is not None:
                error.retryable = wish
        return error

    def _status(self, report: Report) -> int | None:
        if _STATUS.fullmatch(report.code):
            return int(report.code)
        return next((s for word in (report.code, report.type) if (s := self.status_of.get(word)) is not None), None)

    @staticmethod
    def _short(word: str, mask: Callable[[str], str]) -> str | None:
        return refusal_text(word, mask, MAX_CODE_CHARS) or None  # gateways put whole sentences there
