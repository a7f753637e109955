"""Reads a server's refusal, which refusals.toml maps to an error: OpenAI's and those of servers that speak its API."""

from __future__ import annotations

import attrs
from flexchat_sdk import Refusals, Report, message_in, read_report, word_in


def _read(body: object) -> Report:
    """Read a body in any form that servers use; OpenRouter and Azure add details in their own tables."""
    report = read_report(body)
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return report
    metadata, inner = error.get("metadata"), error.get("innererror")
    if isinstance(metadata, dict) and (raw := message_in(metadata.get("raw"))):
        report = attrs.evolve(report, text=" ".join(t for t in (report.text, raw) if t))
    if not error.get("code") and isinstance(inner, dict):
        report = attrs.evolve(report, code=word_in(inner.get("code")))
    return report


REFUSALS = Refusals(provider="openai", package=__package__, read=_read)
