"""Classification of exceptions of LangChain integrations and of the SDKs below them as ProviderErrors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flexchat_sdk import (
    ContentFilterError,
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
    WrongShape,
    refusal_text,
    retry_after_s,
)

# Names of exception classes, of any package: those of the OpenAI, Anthropic, Ollama, Mistral, Groq, Cohere, AWS and
# Google SDKs, of httpx, requests and aiohttp, and Python's own. The first match in the exception's method resolution
# order counts, and only if there is no HTTP status.
_CLASSES: Mapping[str, tuple[str, ...]] = {
    "timeout": (
        *("TimeoutError", "APITimeoutError", "TimeoutException", "Timeout", "ReadTimeout", "ConnectTimeout"),
        *("DeadlineExceeded", "ServerTimeoutError", "ReadTimeoutError", "ConnectTimeoutError"),
    ),
    "auth": (
        *("AuthenticationError", "PermissionDeniedError", "Unauthenticated", "PermissionDenied", "Forbidden"),
        *("DefaultCredentialsError", "RefreshError", "NoCredentialsError", "CredentialsError"),
    ),
    "rate": ("RateLimitError", "ResourceExhausted", "TooManyRequests", "ThrottlingException"),
    "too_long": ("ContextOverflowError",),
    "overloaded": (
        *("InternalServerError", "OverloadedError", "ServiceUnavailable", "ServiceUnavailableError", "ServerError"),
        "InternalServerException",
    ),
    "protocol": (
        *("JSONDecodeError", "APIResponseValidationError", "DecodingError", "UnicodeDecodeError"),
        "RemoteProtocolError",
    ),
    "connection": (
        *("ConnectionError", "APIConnectionError", "TransportError", "ClientConnectionError", "RequestException"),
        *("EndpointConnectionError", "NetworkError"),
    ),
}
_TOO_LONG = (
    "maximum context length",
    "prompt is too long",
    "prompt too long",
    "input length exceeds the context",
    "exceeds the context window",
    "exceeds the available context",
    "context_length_exceeded",
    "input is too long",
    "input token count",
)
_FILTERED = ("content_filter", "content management policy", "content filtering policy", "responsibleaipolicy")
_SPENT = ("insufficient_quota", "credit balance is too low", "insufficient balance", "billing")
_KEY = (
    *("api key not valid", "invalid api key", "incorrect api key", "invalid x-api-key", "could not resolve authentic"),
    *("api_key client option must be set", "missing credentials"),  # the OpenAI SDK
    "illegal header value b'bearer '",  # ChatAnthropic without a key: the cause of a connection error
)
_OVERLOADED = ("overloaded_error", "api_error", "internal server error", "service unavailable")
# Attributes that hold the HTTP status; Google's SDK uses ``code``.
_STATUS = ("status_code", "status", "http_status", "code")
_MAX_CAUSES = 5


def provider_error(error: Exception, *, service: str, model: str | None, mask: Callable[[str], str]) -> ProviderError:
    """Convert an exception to the matching ProviderError.

    Args:
        service: Name of the service for the text: the class of the model.
        mask: Masks keys in a text.
    """
    if isinstance(error, WrongShape):
        text = f"{service} sent an answer that cannot be read: {error}"
        return ProviderProtocolError(text, provider="langchain", model=model, retryable=True)
    response = getattr(error, "response", None)
    status = _status(error) or _status(response)
    headers = _headers(response)
    message = _message_of(error)
    detail = _message(getattr(error, "body", None)) or message
    text = refusal_text("a web page" if detail.lstrip().startswith("<") else detail, mask) or type(error).__name__
    fields: dict[str, Any] = {
        "provider": "langchain",
        "model": model,
        "status": status,
        "code": type(error).__name__,
        "retry_after_s": retry_after_s(headers) or None,
        "request_id": headers.get("request-id") or headers.get("x-request-id"),
    }
    kind = _by_status(status, message.lower(), model) if status is not None else _by_class(error, message.lower())
    if kind is None:
        return ProviderRequestError(f"{service} failed with {type(error).__name__}: {text}", **fields)
    error_class, template, more = _ERRORS[kind]
    return error_class(f"{service}: {template.format(text=text, model=model)}", **fields, **more)


# The class of each kind, the text after the service's name, and further fields.
_ERRORS: Mapping[str, tuple[type[ProviderError], str, Mapping[str, Any]]] = {
    "timeout": (ProviderTimeoutError, "no answer in time: {text}", {"retryable": True}),
    "auth": (
        ProviderAuthError,
        "the service refuses the key, or there is none (settings of this LLM in the config): {text}",
        {},
    ),
    "rate": (ProviderRateLimitError, "too many requests: {text}", {}),
    "quota": (ProviderRateLimitError, "the budget at the service is used up: {text}", {"kind": "quota"}),
    "too_long": (
        ContextLengthError,
        "the conversation is too long for the model: {text}; begin a new conversation, send less, or ask a model that "
        "reads more",
        {},
    ),
    "filtered": (ContentFilterError, "the service refused the prompt: {text}", {}),
    "no_model": (ModelNotFoundError, "the service has no model {model}: {text}", {}),
    "overloaded": (ProviderOverloadedError, "the service failed: {text}", {}),
    "connection": (
        ProviderConnectionError,
        "the service could not be reached, or the connection broke: {text}",
        {"retryable": True},
    ),
    "protocol": (ProviderProtocolError, "the answer cannot be read (is base_url right?): {text}", {}),
    "request": (ProviderRequestError, "the service refused: {text}", {}),
}


def _by_status(status: int, text: str, model: str | None) -> str:
    if status in (400, 413, 422) and (status == 413 or any(words in text for words in _TOO_LONG)):
        return "too_long"
    if any(words in text for words in _FILTERED):
        return "filtered"
    if status == 402 or any(words in text for words in _SPENT):
        return "quota"
    if status in (401, 403) or (status == 400 and any(words in text for words in _KEY)):
        return "auth"
    if status == 429:
        return "rate"
    if status == 408:
        return "timeout"
    if status >= 500:
        return "overloaded"
    if status == 404 and model and "model" in text:
        return "no_model"
    return "request" if status >= 400 else "protocol"


def _by_class(error: Exception, text: str) -> str | None:
    names = {base.__name__ for base in type(error).__mro__}
    kind = next((kind for kind, classes in _CLASSES.items() if not names.isdisjoint(classes)), None)
    if kind is None and any(words in text for words in _TOO_LONG):
        return "too_long"
    if kind in (None, "connection") and any(words in f"{text} {_messages_of_causes(error)}".lower() for words in _KEY):
        return "auth"
    if kind is None and any(words in text for words in _OVERLOADED):
        return "overloaded"
    return kind


def _status(thing: object) -> int | None:
    for name in _STATUS:
        value = getattr(thing, name, None)
        value = getattr(value, "value", value)  # http.HTTPStatus, and Google's enums of (number, text)
        value = value[0] if isinstance(value, tuple) and value else value
        if isinstance(value, int) and not isinstance(value, bool) and 300 <= value < 600:
            return value
    return None


def _headers(response: object) -> dict[str, str]:
    headers = getattr(response, "headers", None)
    return {str(name).lower(): str(value) for name, value in headers.items()} if isinstance(headers, Mapping) else {}


def _message(body: object) -> str:
    """Extract the service's message from the body of an SDK's error; empty if there is none."""
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    text = inner.get("message") if isinstance(inner, Mapping) else inner
    return text if isinstance(text, str) else ""


def _messages_of_causes(error: BaseException) -> str:
    """Join the messages of the exceptions that caused this one."""
    texts: list[str] = []
    below = error.__cause__ or error.__context__
    while below is not None and len(texts) < _MAX_CAUSES:
        texts.append(_message_of(below))
        below = below.__cause__ or below.__context__
    return " ".join(texts)


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  __str__ of a foreign exception may fail
        return ""
