"""Turns what a tool or a plugin returned or raised into a result a model can be shown."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator
from typing import Any, Literal

import attrs

from ..domain import ToolResult
from ..domain.masking import Mask
from ..domain.media import DEFAULT_MAX_BYTES, checked_media, split_media
from ..errors import ArgumentsError, EffectUnknownError, FetchError, FlexChatError, ToolError, with_hint
from ..plugin.call import Call
from ..plugin.foreign import ForeignError, contained, error_text
from ..tools.results import as_json, json_facts

log = logging.getLogger(__name__)


@attrs.frozen
class Outcomes:
    """Makes results.

    Args:
        mask: Removes secrets from errors, and the known ones from results: a service may repeat what it was sent.
        error_detail: "message" shows a model the (masked) text of an exception; "incident" shows a number, logged
            together with the full text.
        max_media_bytes: How many bytes the media of one result may have together.
    """

    mask: Mask
    error_detail: Literal["message", "incident"] = "message"
    max_media_bytes: int = DEFAULT_MAX_BYTES

    def of_value(self, name: str, value: Any) -> ToolResult:
        """Return the result of a tool that returned a value. Exceptions of the value's own conversion pass through."""
        apart = split_media(value)
        if apart is None:
            plain, encoded = self._as_json(value)
            return ToolResult(success=True, tool_name=name, result=plain, encoded=encoded)
        plain, encoded = self._as_json(apart.value)
        media, left_out = checked_media(apart.media, self.max_media_bytes)
        return ToolResult(success=True, tool_name=name, result=plain, encoded=encoded, media=media, left_out=left_out)

    def from_answer(self, name: str, answer: ToolResult) -> ToolResult:
        """Hold a plugin's answer given in a tool's place to the rules for tools: JSON data, or an error with a text."""
        try:
            with contained():
                notes = tuple(self.mask.mask_given(str(note)) for note in answer.notes)
                left_out = tuple(self.mask.mask_given(str(each)) for each in answer.left_out)
                hint = self.mask.mask_given(_as_text(answer.hint)) or None
                if answer.success:
                    plain, encoded = self._as_json(answer.result)
                    media, words = checked_media(answer.media, self.max_media_bytes)
                    return attrs.evolve(
                        answer,
                        result=plain,
                        encoded=encoded,
                        hint=hint,
                        notes=notes,
                        media=media,
                        left_out=(*left_out, *words),
                    )
                error = self.mask.mask_given(_as_text(answer.error))
                return attrs.evolve(
                    answer,
                    error=error or "The call was refused",
                    hint=hint,
                    notes=notes,
                    media=(),  # a failure is a text
                    left_out=left_out,
                )
        except Exception as error:  # noqa: BLE001  the same trouble as a tool's
            return self.of_error(name, error)

    def _as_json(self, value: Any) -> tuple[Any, str]:
        """Convert a tool's value to JSON data and text, without known secrets. Raises as as_json."""
        plain, encoded = as_json(value)
        if self.mask.knows(encoded):
            return as_json(self.mask.mask_given_data(plain))
        return plain, encoded

    def of_error(self, name: str, error: BaseException) -> ToolResult:
        """Return the failure of a tool that raised, and log it under a number."""
        text, hint, incident = self.mask(error_text(error)), self._hint_of(error), secrets.token_hex(4)
        log.warning("tool %s failed (incident %s): %s", name, incident, with_hint(text, hint))
        if self.error_detail == "incident":
            kind = type(error.__cause__ if isinstance(error, ForeignError) else error).__name__
            return ToolResult.failed(name, f"The tool failed ({kind}, incident {incident}); its owner can look that up")
        return ToolResult.failed(name, text, hint=hint)

    def of_unreadable(self, name: str, error: BaseException, *, is_write: bool) -> ToolResult:
        """Return the failure of a tool that returned a value that cannot be used."""
        result = self.of_error(name, error)
        if not is_write:
            return result
        done = f"'{name}' ran to its end and took effect; only its result is missing. Do not call it again"
        return attrs.evolve(result, hint=f"{result.hint}; {done}" if result.hint else done)

    def of_trouble(self, name: str, error: BaseException) -> ToolResult:
        """Return the failure of a call that is impossible to make; its text is ours."""
        return ToolResult.failed(name, self.mask(error_text(error)), hint=self._hint_of(error))

    def of_arguments(self, name: str, error: ArgumentsError) -> ToolResult:
        """Return the failure of a call whose arguments its function cannot take; the text is shown in full."""
        return ToolResult.failed(name, self.mask(f"Invalid parameters: {error}"))

    def of_late(self, name: str, value: Any) -> ToolResult:
        """Return the result of a tool that returned any value after its time had run out."""
        try:
            with contained():
                return self.of_value(name, value)
        except Exception as error:  # noqa: BLE001  the same trouble as in time
            return self.of_unreadable(name, error, is_write=True)

    def finished(self, call: Call, result: ToolResult, started: float) -> ToolResult:
        """Return a result with its call's name, time and notes; make sure the facts can be kept.

        The call began at ``started``, by time.perf_counter().
        """
        if call.facts:
            call.facts = json_facts(call.facts, call.name)
        elapsed_ms = round((time.perf_counter() - started) * 1000)
        if not call.notes and elapsed_ms == result.execution_time_ms and result.tool_name == call.name:
            return result
        notes = (*map(str, call.notes), *result.notes)
        return attrs.evolve(result, tool_name=call.name, execution_time_ms=elapsed_ms, notes=notes)

    def _hint_of(self, error: BaseException) -> str | None:
        return self.mask(error.hint) if isinstance(error, ToolError) and error.hint else None


_BROKEN_OFF = (
    EffectUnknownError,
    FetchError,
    TimeoutError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    asyncio.CancelledError,
)
_MAX_CAUSES = 10  # causes of causes of an error


def nothing_done(error: BaseException | None) -> bool:
    """Whether it is certain that the tool had not acted: by a ToolError, or as the end of ToolContext.preparing."""
    return getattr(error, "nothing_done", False) is True


def doubt(error: BaseException) -> str:
    """Return the reason why a tool that raised this may still have taken effect; empty if it did not.

    The error decides it (EffectUnknownError, ToolError.nothing_done) or, without such a mark, its causes: a timeout or
    a broken connection leaves the effect open, however a client wraps it.
    """
    for cause in _causes(error):
        if nothing_done(cause):
            return ""  # it knows better than what caused it
        if isinstance(cause, _BROKEN_OFF):
            return error_text(error)
    return ""


_TRANSIENT = (TimeoutError, ConnectionError)


def retry_after(error: BaseException) -> float | None:
    """Return the seconds to wait before the same call may succeed; None if it would fail again.

    The error decides it (``retryable``, ``retry_after_s``) or, without such a mark, whether a connection or an answer
    failed to arrive.
    """
    is_retryable = getattr(error, "retryable", None) if isinstance(error, FlexChatError) else None
    if is_retryable is not None:
        return (getattr(error, "retry_after_s", None) or 0.0) if is_retryable else None
    return 0.0 if any(isinstance(cause, _TRANSIENT) for cause in _causes(error)) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is not None:
            yield cause
            cause = cause.__cause__ or cause.__context__


def _as_text(value: Any) -> str:
    if isinstance(value, BaseException):
        return error_text(value)
    return "" if value is None else str(value)
