"""Classification of a server's errors, by the rows of refusals.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flexchat_sdk import ProviderConnectionError, ProviderError, ProviderRequestError, Refusals, Report, read_report

# Sources: harmony/harmonyparser.go, model/parsers/*.go, llm/llama_server.go, openai/openai.go.
_MALFORMED = re.compile(
    r"invalid tool call|error parsing tool call|failed to parse [\w ]*tool call|incomplete \w+ tool call"
)
_NO_TOOLS = "does not support tools"
_OPTION = re.compile(r'option "([^"]*)"')
_START = "`ollama serve` or its app starts it"


def malformed_call(body: object) -> str | None:
    """Return the server's message about a malformed tool call; None for other errors."""
    text = read_report(body).text
    return " ".join(text.split())[:300] if _MALFORMED.search(text.lower()) else None


def refuses_tools(body: object) -> bool:
    """Say whether a refusal is one of tools, which the model cannot call."""
    return read_report(body).says(_NO_TOOLS)


def _read(body: object) -> Report:
    """Read a body: its text alone counts, and names the option that is wrong."""
    report = read_report(body)
    option = _OPTION.match(report.text)
    return Report(text=report.text, is_json=report.is_json, param=option[1] if option else None)


REFUSALS = Refusals(provider="ollama", package=__package__, read=_read)


def cannot_call_tools(
    model: str | None, others: Sequence[str], facts: Mapping[str, Any] | None = None
) -> ProviderRequestError:
    """Return the error for tools that are offered to a model which has none.

    Args:
        others: Installed models that have them.
        facts: What is known of the refusal, if the server refused.
    """
    facts = {"provider": "ollama", "model": model, **(facts or {})}
    hint = f"of the installed models these can: {', '.join(others)}" if others else "choose a model that can"
    return ProviderRequestError(f"{model or 'the model'} cannot call tools: {hint}", kind="unsupported_tools", **facts)


def lacks_capability(model: str, capability: str) -> ProviderRequestError:
    """Return the error for something that is asked of a model which is known not to have it."""
    sentences = {
        "vision": f"{model} cannot see pictures: choose a model that can (vision), or leave them out",
        "audio": f"{model} cannot hear: choose a model that can (audio), or leave the sound out",
        "reasoning": f"{model} cannot think: choose a model that can (thinking), or leave out reasoning",
    }
    return ProviderRequestError(sentences[capability], provider="ollama", model=model, kind="unsupported_feature")


def explained(error: ProviderError, origin: str) -> None:
    """Say of an error that no answer came at all that the server may not be running."""
    if not isinstance(error, ProviderConnectionError) or error.status is not None or not error.retryable:
        return
    if _START in str(error):
        return
    what = "" if _was_refused(error) else f"{error}; "
    error.args = (f"{what}is Ollama running at {origin}? {_START}",)


def _was_refused(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if any(isinstance(e, ConnectionRefusedError) for e in (cause, getattr(cause, "os_error", None))):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
