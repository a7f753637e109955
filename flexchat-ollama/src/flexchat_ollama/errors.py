"""What a server's refusal means. Pure: from status, headers and body to a ProviderError.

The text comes before the status: the server answers 500 for an option of the wrong type, and 200 for what goes wrong
once it has begun to answer. Texts are compared in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flexchat.provider import (
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
    refusal_text,
    retry_after_s,
    should_retry,
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
# Source: what the server's image decoders say of a picture they cannot read.
_UNREADABLE_MEDIA = (
    "failed to process inputs",
    "image: unknown format",
    "invalid image",
    "missing data required for image input",
)
_OPTION = re.compile(r'option "([^"]*)"')
_START = "`ollama serve` or its app starts it"


def malformed_call(body: object) -> str | None:
    """Return what the server says of a tool call that it could not read; None if it says something else."""
    text = _text(body)
    return " ".join(text.split())[:300] if _MALFORMED.search(text.lower()) else None


def service_error(
    body: object,
    *,
    status: int | None,
    headers: Mapping[str, str],
    origin: str,
    model: str | None,
    mask: Callable[[str], str],
) -> ProviderError:
    """Return the error that a refusal is.

    Args:
        body: JSON data, or text.
        status: None for an error in the middle of a stream.
        headers: Names in lower case.
        mask: Takes keys out of a text.

    Source: the table of errors of the server's API, in the order of how much each line says.
    """
    said = _text(body)
    text = refusal_text(said, mask) or "no reason given"
    known: dict[str, Any] = {
        "provider": "ollama",
        "model": model,
        "status": status,
        "request_id": headers.get("x-request-id"),
        "retry_after_s": retry_after_s(headers) or None,
    }
    is_json = not isinstance(body, str)
    error = _by_text(text, status, model, known) or _by_status(text, status, origin, is_json, known)
    wish = should_retry(headers)
    if wish is not None:
        error.retryable = wish
    return error


def _by_text(text: str, status: int | None, model: str | None, known: dict[str, Any]) -> ProviderError | None:
    lower = text.lower()
    if status == 413 or any(phrase in lower for phrase in _TOO_LONG):
        return ContextLengthError(f"the conversation is too long for the model: {text}", **known)
    if "does not support tools" in lower:
        return cannot_call_tools(model, (), known)
    if "does not support" in lower:
        return ProviderRequestError(_unsupported(text, model), kind="unsupported_feature", **known)
    if any(phrase in lower for phrase in _UNREADABLE_MEDIA):
        return ProviderRequestError(f"Ollama cannot read a picture: {text}", kind="unsupported_feature", **known)
    if option := _OPTION.match(text):
        return ProviderRequestError(f"Ollama refused the request: {text}", param=option[1], **known)
    return None


def _by_status(text: str, status: int | None, origin: str, is_json: bool, known: dict[str, Any]) -> ProviderError:
    if status == 401 or (status is None and text.lower().startswith("unauthorized")):
        hint = "api_key must be a key of ollama.com; for cloud models of your own server, run `ollama signin` there"
        return ProviderAuthError(f"{origin} refuses access: {text} ({hint})", **known)
    if status == 403:
        return ProviderAuthError(f"{origin} does not allow this: {text}", **known)
    if status == 404 and not is_json:
        hint = "is base_url right? It ends before /api, and without /v1; very old servers lack this"
        return ProviderProtocolError(f"{origin} has no such address of Ollama's API: {hint}", **known)
    if status in (404, None) and known["model"] and "model" in text.lower() and "not found" in text.lower():
        model = known["model"]
        return ModelNotFoundError(
            f"{origin} has no model {model}: `ollama pull {model}` fetches it, `ollama list` shows what is there",
            **known,
        )
    if status == 404:
        return ProviderRequestError(f"{origin} finds nothing here: {text}", kind="not_found", **known)
    if status == 408:
        return ProviderTimeoutError(f"{origin} gave up waiting: {text}", retryable=True, **known)
    if status == 402 or (status == 429 and "usage limit" in text.lower()):
        return ProviderRateLimitError(f"the plan at {origin} does not allow more: {text}", kind="quota", **known)
    if status == 429:
        return ProviderRateLimitError(f"{origin} is asked too often: {text}", **known)
    if status == 499:
        return ProviderConnectionError(f"{origin} says the request was cancelled: {text}", **known)
    if status is not None and status < 500:
        return ProviderRequestError(f"{origin} refused the request: {text}", **known)
    if status is None:
        return ProviderOverloadedError(f"{origin} failed in the middle of its answer: {text}", **known)
    return ProviderOverloadedError(f"{origin} failed with status {status}: {text}", **known)


def cannot_call_tools(
    model: str | None, others: Sequence[str], known: Mapping[str, Any] | None = None
) -> ProviderRequestError:
    """Return the error for tools that are offered to a model which has none.

    Args:
        others: Installed models that have them.
        known: What is known of the refusal, if the server refused.
    """
    known = {"provider": "ollama", "model": model, **(known or {})}
    hint = f"of the installed models these can: {', '.join(others)}" if others else "choose a model that can"
    return ProviderRequestError(f"{model or 'the model'} cannot call tools: {hint}", kind="unsupported_tools", **known)


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
    what = "" if _was_refused(error) else f"{error}; "
    error.args = (f"{what}is Ollama running at {origin}? {_START}",)


def _was_refused(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if any(isinstance(e, ConnectionRefusedError) for e in (cause, getattr(cause, "os_error", None))):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _unsupported(text: str, model: str | None) -> str:
    lower = text.lower()
    if "thinking" in lower:
        return f"{model or 'the model'} cannot think: leave out reasoning (think), or choose a model that can ({text})"
    if "chat" in lower or "completion" in lower:
        return f"{model or 'the model'} is no model to chat with: choose one that is ({text})"
    return f"{model or 'the model'} cannot do what is asked: {text}"


def _text(body: object) -> str:
    """Return what a body says, in any of the forms in use: error text, error object, message, plain text."""
    if isinstance(body, dict):
        error = body.get("error")
        if isinstance(error, dict):
            error = error.get("message")
        found = next((t for t in (error, body.get("message"), body.get("detail")) if t and isinstance(t, str)), "")
        return str(found)
    text = body if isinstance(body, str) else ""
    return "a web page" if text.lstrip().startswith("<") else text
