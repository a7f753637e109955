"""Classification of a server's errors, from status, headers and body to a ProviderError.

The text comes before the status: the server answers 500 for an option of the wrong type, and 200 for what goes wrong
once it has begun to answer. Texts are compared in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flexchat_sdk import (
    ProviderConnectionError,
    ProviderError,
    ProviderRequestError,
    Refusals,
    Report,
    Row,
    read_report,
)

# Sources: server/routes.go, llm/llama_server.go and x/mlxrunner/pipeline.go; the last but one is Ollama's cloud.
_TOO_LONG = (
    "exceeds the context length",
    "exceeds the available context",
    "maximum context length",
    "prompt too long",
    "prompt is too long",
    "exceed_context_size_error",
)
# Sources: harmony/harmonyparser.go, model/parsers/*.go, llm/llama_server.go, openai/openai.go.
_MALFORMED = re.compile(
    r"invalid tool call|error parsing tool call|failed to parse [\w ]*tool call|incomplete \w+ tool call"
)
# Source: errors of the server's image decoders.
_UNREADABLE_MEDIA = (
    "failed to process inputs",
    "image: unknown format",
    "invalid image",
    "missing data required for image input",
)
_NO_TOOLS = "does not support tools"
_OPTION = re.compile(r'option "([^"]*)"')
_SIGN_IN = "api_key must be a key of ollama.com; for cloud models of your own server, run `ollama signin` there"
_START = "`ollama serve` or its app starts it"


_ROWS = (
    Row("too_long", status=(413,)),
    Row("too_long", says=_TOO_LONG),
    Row(
        "unsupported",
        says=(_NO_TOOLS,),
        text="{model} cannot call tools: choose a model that can",
        known={"kind": "unsupported_tools"},
    ),
    Row(
        "unsupported",
        matches=r"^(?=.*does not support).*thinking",
        text="{model} cannot think: leave out reasoning (think), or choose a model that can ({text})",
    ),
    Row(
        "unsupported",
        matches=r"^(?=.*does not support).*(chat|completion)",
        text="{model} does not chat: choose a model that does ({text})",
    ),
    Row("unsupported", says=("does not support",), text="{model} cannot do what is asked: {text}"),
    Row("unsupported", says=_UNREADABLE_MEDIA, text="Ollama cannot read a picture: {text}"),
    Row("request", matches='^option "[^"]*"', text="Ollama refused the request: {text}"),
    Row("key", status=(401,), text="{host} refuses access: {text} (" + _SIGN_IN + ")"),
    Row("key", status=(None,), matches="^unauthorized", text="{host} refuses access: {text} (" + _SIGN_IN + ")"),
    Row(
        "no_api",
        status=(404,),
        is_json=False,
        text="{host} has no such address of Ollama's API: is base_url right? It ends before /api, and without /v1; "
        "very old servers lack this",
    ),
    Row(
        "no_model",
        status=(404, None),
        matches=r"^(?=.*model).*not found",
        text="{host} has no model {model}: `ollama pull {model}` fetches it, `ollama list` shows what is there",
    ),
    Row("not_found", status=(404,), text="{host} finds nothing here: {text}"),
    Row("quota", status=(402,), text="the plan at {host} does not allow more: {text}"),
    Row("quota", status=(429,), says=("usage limit",), text="the plan at {host} does not allow more: {text}"),
    Row("connection", status=(499,), text="{host} says the request was cancelled: {text}"),
    Row("overloaded", status=(None,), text="{host} failed in the middle of its answer: {text}"),
)


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


REFUSALS = Refusals(provider="ollama", rows=_ROWS, read=_read)
"""Error rules, most specific first. Source: the table of errors of the server's API."""


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
