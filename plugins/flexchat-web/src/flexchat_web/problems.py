"""Errors of the API: problem details, which programs can distinguish and people can read. Source: RFC 9457."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from flexchat import Problem as Flaw


class ApiError(Exception):
    """A request cannot be answered as wanted.

    Args:
        status: HTTP status, from 400.
        detail: One or two sentences for a person: what, and what to do.
        kind: Word that distinguishes this error from others with the same status: "no-conversations".
        flaws: Everything that is wrong with a body or a configuration.
        more: Further members of the problem.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = "",
        flaws: Iterable[Flaw] = (),
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind = status, detail, kind
        self.flaws, self.headers, self.more = tuple(flaws), dict(headers or {}), more

    def __reduce__(self) -> Any:
        """Let one process send it to another (pickle)."""
        keywords = {"kind": self.kind, "flaws": self.flaws, "headers": self.headers, **self.more}
        return functools.partial(type(self), self.status, self.detail, **keywords), ()

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON data. ``error`` repeats the detail for clients of the Node original."""
        problem: dict[str, Any] = {
            "type": f"urn:flexchat:problem:{self.kind}" if self.kind else "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "error": self.detail,
        }
        if self.flaws:
            problem["problems"] = [{"path": flaw.path, "text": flaw.text, "line": flaw.line} for flaw in self.flaws]
        return {**problem, **self.more}

    def to_openai(self) -> dict[str, Any]:
        """Return the problem as OpenAI's API writes errors; ``param`` and ``code`` come from the additional members.

        Source: platform.openai.com/docs/api-reference, "Error codes".
        """
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = "server_error" if self.status >= 500 else kinds.get(self.status, "invalid_request_error")
        error = {
            "message": self.detail,
            "type": self.more.get("error_type", kind),
            "param": self.more.get("param", self.flaws[0].path if self.flaws else None),
            "code": self.more.get("code", self.kind or None),
        }
        return {"error": error}
