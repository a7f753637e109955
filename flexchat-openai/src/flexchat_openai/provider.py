"""Talks to the server: the only module of this package that does."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

import attrs
import httpx
from flexchat.http.client import HttpClient, Timeouts
from flexchat.http.wire_json import from_bytes
from flexchat.plugin import (
    ChatEvent,
    ChatOptions,
    ChatResult,
    Message,
    ModelInfo,
    ProviderAuthError,
    ProviderError,
    StreamEnd,
)

from .chat_answer import malformed_call
from .chat_request import ChatRequestWriter
from .chat_stream import ChatStream, whole_answer
from .config import OpenAIConfig
from .errors import parsed, service_error
from .models import read_models

OPENAI_HOST = "api.openai.com"
_CHAT = "/chat/completions"


class OpenAIProvider:
    """One llms entry. Holds connections, which open with the first request.

    Args:
        transport: None for real connections; httpx.MockTransport and its like in tests.
    """

    name = "openai"

    def __init__(self, config: OpenAIConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"accept": "application/json, text/event-stream"}
        if config.api_key:
            headers["authorization"] = f"Bearer {config.api_key}"
        if config.organization:
            headers["openai-organization"] = config.organization
        if config.project:
            headers["openai-project"] = config.project
        self._http = HttpClient(
            self.name,
            config.base_url,
            {**headers, **{name.lower(): value for name, value in config.extra_headers.items()}},
            timeouts=Timeouts.of(config),
            secrets=[secret for secret in (config.api_key, *config.extra_headers.values()) if secret],
            transport=transport,
        )
        is_openai = self._http.host == OPENAI_HOST
        self._lacks_key = is_openai and "authorization" not in headers
        auto = "max_completion_tokens" if is_openai else "max_tokens"
        self._writer = ChatRequestWriter(
            self._http.origin,
            max_tokens_field=auto if config.max_tokens_field == "auto" else config.max_tokens_field,
            system_role=config.system_role,
            stream_usage=config.stream_usage,
            parallel_tool_calls=config.parallel_tool_calls,
            extra=config.extra_body,
        )

    def tool_format(self, model: str) -> str:
        """Return the tool format of this dialect."""
        return self.name

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange; see ChatProvider."""
        self._check_key()
        body, warnings = self._writer.body(messages, model, options, stream=False)
        try:
            answer = await self._http.post(_CHAT, body, timeout_s=options.timeout_s)
            if answer.status >= 400:
                return _with(warnings, self._refused(answer.body, answer.status, answer.headers, model))
            failed = functools.partial(self._failed, None, answer.headers, model)
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                stream = ChatStream(self._http.origin, failed, self._http.unreadable)
                return _with(warnings, _last([*stream.feed(answer.body), *stream.end()]))
            return _with(warnings, _last(whole_answer(answer.body, self._http.origin, failed, self._http.unreadable)))
        except ProviderError as error:
            error.model = model
            raise

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it comes; see StreamingProvider."""
        self._check_key()
        body, warnings = self._writer.body(messages, model, options, stream=True)
        try:
            async with self._http.stream(_CHAT, body, timeout_s=options.timeout_s) as answer:
                if answer.status >= 400:
                    result = self._refused(await answer.read(), answer.status, answer.headers, model)
                    yield StreamEnd(_with(warnings, result))
                    return
                failed = functools.partial(self._failed, None, answer.headers, model)
                stream = ChatStream(self._http.origin, failed, self._http.unreadable)
                async for piece in answer:
                    for event in stream.feed(piece):
                        yield event
                    if stream.is_done:
                        await answer.finish()
                        break
            for event in stream.end():
                if warnings and type(event) is StreamEnd:
                    event = StreamEnd(_with(warnings, event.result))
                yield event
        except ProviderError as error:
            error.model = model
            raise

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return what the server offers, as far as it tells; see ChatProvider."""
        self._check_key()
        answer = await self._http.get("/models")
        if answer.status >= 400:
            raise self._failed(answer.status, answer.headers, None, parsed(answer.body))
        try:
            return read_models(from_bytes(answer.body))
        except ValueError as error:
            raise self._http.unreadable("sent a list of models that cannot be read: is base_url right?") from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def _check_key(self) -> None:
        if self._lacks_key:
            raise ProviderAuthError(
                f'there is no key for {OPENAI_HOST}: set api_key, in a config to "${{OPENAI_API_KEY}}"',
                provider=self.name,
            )

    def _refused(self, body: bytes, status: int, headers: Mapping[str, str], model: str) -> ChatResult:
        """Return the answer that an error is in truth, or raise the error."""
        report = parsed(body)
        result = malformed_call(report)
        if result is None:
            raise self._failed(status, headers, model, report)
        return result

    def _failed(
        self, status: int | None, headers: Mapping[str, str], model: str | None, report: object
    ) -> ProviderError:
        return service_error(
            report, status=status, headers=headers, host=self._http.host, model=model, mask=self._http.mask
        )


def _last(events: Iterable[ChatEvent]) -> ChatResult:
    event: ChatEvent | None = None
    for event in events:  # noqa: B007  # only the last counts
        pass
    assert type(event) is StreamEnd, "an answer's last event is StreamEnd"
    return event.result


def _with(warnings: tuple[str, ...], result: ChatResult) -> ChatResult:
    return attrs.evolve(result, warnings=warnings + result.warnings) if warnings else result
