"""Laws about errors."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Mapping
from typing import Any

import httpx
from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderError,
    ProviderOverloadedError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
    TextPart,
)

from .law import law, raising_only, refused, require, show
from .samples import HELLO, changes, replaced, texts_in
from .wire import Answer, ProviderKit, as_bytes

# Kind of refusal: its class, whether asking again may help, whether every service has it.
REFUSALS: Mapping[str, tuple[type[ProviderError], bool, bool]] = {
    "auth": (ProviderAuthError, False, True),
    "rate": (ProviderRateLimitError, True, True),
    "overloaded": (ProviderOverloadedError, True, True),
    "request": (ProviderRequestError, False, True),
    "quota": (ProviderRateLimitError, False, False),
    "model_not_found": (ModelNotFoundError, False, False),
    "context_length": (ContextLengthError, False, False),
    "content_filter": (ContentFilterError, False, False),
}
_JSON, _HTML = {"content-type": "application/json"}, {"content-type": "text/html; charset=utf-8"}
_GARBAGE: tuple[tuple[int, Mapping[str, str], bytes], ...] = (
    (200, _JSON, b""),
    (200, _JSON, b"not JSON at all"),
    (200, _JSON, b'{"cut": "o'),
    (200, _JSON, b"null"),
    (200, _JSON, b"42"),
    (200, _JSON, b'"a text"'),
    (200, _JSON, b"\xff\xfe\x00\x01"),
    (200, _JSON, b"[" * 100_000),
    (200, {}, b"\x00" * 64),
    (200, _HTML, b"<html><body>Sign in to the hotel's network</body></html>"),
    (302, {"location": "https://elsewhere.example/login"}, b""),
    (400, _JSON, b""),
    (404, _HTML, b"<html><h1>Not Found</h1></html>"),
    (429, {}, b""),
    (500, _JSON, b'{"error": 1}'),
    (500, _JSON, b'{"error": {"message": [], "code": {}, "type": null}}'),
    (502, _HTML, b"<html><h1>Bad Gateway</h1></html>"),
    (503, _JSON, b"[[[[["),
    (418, {"content-type": "text/plain"}, b"\xff"),
)
_BROKEN = (
    httpx.ConnectError("refused"),
    httpx.ConnectTimeout("too late"),
    httpx.ReadError("reset"),
    httpx.ReadTimeout("too late"),
    httpx.WriteError("broken pipe"),
    httpx.RemoteProtocolError("no HTTP"),
    httpx.PoolTimeout("no connection free"),
)
_PATIENCE_S = 5.0


class ErrorLaws(ProviderKit):
    """Every failure of a service is a ProviderError with a description and without a key."""

    @law()
    async def test_each_refusal_has_its_class(self, stream: bool) -> None:
        """A refusal's class and retryable decide whether FlexChat waits and retries, or reports the error."""
        for kind, (expected, retryable, is_common) in REFUSALS.items():
            refusal = self.error_reply(kind)
            if refusal is None:
                is_keyless = kind == "auth" and self.key is None
                require(not is_common or is_keyless, f'error_reply("{kind}") is None: every service has such a refusal')
                continue
            status, body = refusal
            error = await self._refused(self.answer(body, status=status), stream)
            require(isinstance(error, expected), f'"{kind}" is a {expected.__name__}, got {error!r:.300}')
            require(
                error.retryable is retryable,
                f'asking again {"may help" if retryable else "does not help"} after "{kind}": retryable must be '
                f"{retryable}",
            )
            if isinstance(error, ProviderRateLimitError):
                category = "quota" if kind == "quota" else "rate"
                require(error.kind == category, f'"{kind}" has kind "{category}", got {error.kind!r}')
            self._check_text(error, status if "http" in self.supports else None)

    @law("http")
    async def test_the_wait_a_service_asks_for_is_told(self, stream: bool) -> None:
        """retry-after: 7 becomes retry_after_s = 7.0; flexchat_sdk.retry_after_s reads it."""
        status, body = self.error_reply("rate") or (429, {})
        answer = Answer(status=status, headers={**_JSON, "retry-after": "7"}, pieces=(as_bytes(body),))
        error = await self._refused(answer, stream)
        require(error.retry_after_s == 7, f"retry-after: 7 was sent, retry_after_s is {error.retry_after_s!r}")

    @law("http")
    async def test_the_key_is_in_no_error_and_no_repr(self, stream: bool) -> None:
        """Services quote the key they refuse: neither an error's text and attributes nor a repr may hold it."""
        if self.key is None:
            return
        async with self.serving(self.answer(self.text_reply("ok"))) as (provider, service):
            await self.chat(provider)
            request = service.asked[0]
            problem = "no request carries self.key: make_provider must use it as the key (or set key = None)"
            require(any(self.key in text for text in (*request.headers.values(), request.url)), problem)
            require(self.key not in repr(provider), "the provider's repr shows the key")
        quoting = f"Incorrect API key provided: {self.key}. Bearer {self.key}"
        answers = [
            Answer(status=s, headers=_JSON, pieces=(as_bytes({"error": {"message": quoting}}),)) for s in (401, 500)
        ]
        answers += [Answer(status=s, pieces=(quoting.encode(),)) for s in (200, 400, 401, 502)]
        for kind in REFUSALS:
            refusal = self.error_reply(kind)
            if refusal is not None:
                answers.append(self.answer(_quoting(refusal[1], quoting, longest=True), status=refusal[0]))
                answers.append(self.answer(_quoting(refusal[1], quoting, longest=False), status=refusal[0]))
        for answer in answers:
            error = await self._refused(answer, stream)
            text = "".join(traceback.format_exception(error, chain=True)) + repr(error) + repr(vars(error))
            require(self.key not in text, f"the key is in this error: {type(error).__name__}")

    @law("http")
    async def test_garbage_is_a_provider_error(self, stream: bool) -> None:
        """A proxy's page, half a body, another service's JSON: a ProviderError, never a KeyError or JSONDecodeError."""
        for status, headers, body in _GARBAGE:
            error = await self._refused(Answer(status=status, headers=headers, pieces=(body,)), stream)
            self._check_text(error, None)
            if "models" in self.supports:
                async with self.serving(Answer(status=status, headers=headers, pieces=(body,))) as (provider, _):
                    await refused(provider.list_models(), ProviderError, f"status {status} with {show(body, 60)}")

    @law("http", draw=changes, examples=40)
    async def test_a_strange_answer_is_read_or_refused(self, place: float, value: Any) -> None:
        """Services change and differ: with any value anywhere, an answer becomes a ChatResult or a ProviderError."""
        replies = [self.text_reply("Hi")]
        if "tools" in self.supports:
            replies.append(self.tool_reply([("kit_first", {"n": 1})], text="Hi"))
        for reply in replies:
            if isinstance(reply, dict | list):
                await self._read_or_refused(self.answer(replaced(reply, place, value)), stream=False)
            if "streaming" in self.supports:
                pieces = self.answer(reply, stream=True).pieces
                content = b"".join(pieces)
                at = int(place * len(content))
                strange = content[:at] + as_bytes(value) + content[at + 1 :]
                await self._read_or_refused(self.raw_answer([strange]), stream=True)

    @law("http")
    async def test_a_broken_connection_is_a_provider_error(self, stream: bool) -> None:
        """Every error of the transport becomes a ProviderError; the text names what to check."""
        for trouble in _BROKEN:
            async with self.serving(trouble) as (provider, _):
                chat = self.chat(provider, stream=stream)
                error = await refused(chat, ProviderError, f"a transport that raises {trouble!r}")
            self._check_text(error, None)

    @law("http")
    async def test_no_answer_in_time_is_a_timeout(self, stream: bool) -> None:
        """options.timeout_s is what is left of the turn: after it a ProviderTimeoutError, and the response closed."""
        pieces = self.answer(self.text_reply("one two three four"), stream=stream).pieces
        for some in ((), (pieces[0][:1],)):
            answer = self.raw_answer(some, stream=stream, hangs=True)
            async with self.serving(answer) as (provider, service):
                started = time.perf_counter()
                options = ChatOptions(timeout_s=0.05)
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        chat = self.chat(provider, HELLO, options, stream=stream)
                        error = await refused(chat, ProviderError, "silence")
                except TimeoutError:
                    raise AssertionError(f"options.timeout_s=0.05 ended nothing in {_PATIENCE_S:g} s") from None
                require(
                    isinstance(error, ProviderTimeoutError),
                    f"after {time.perf_counter() - started:.2f} s {type(error).__name__}, not ProviderTimeoutError",
                )
                require(service.open_answers == 0, "after the timeout the response is still open")

    @law("http")
    async def test_cancelling_ends_an_exchange(self, stream: bool) -> None:
        """A turn that is cancelled cancels its exchange: CancelledError goes through, and the response is closed."""
        pieces = self.answer(self.text_reply("one two three four"), stream=stream).pieces
        answer = self.raw_answer([pieces[0][:1]], stream=stream, hangs=True)
        async with self.serving(answer) as (provider, service):
            task = asyncio.create_task(self.chat(provider, stream=stream))
            for _ in range(20):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=_PATIENCE_S)
            ended = "not at all" if not done else "well" if task.cancelled() else f"with {task.exception()!r}"
            require(ended == "well", f"a cancelled exchange must end with CancelledError; it ended {ended}")
            require(service.open_answers == 0, "after the cancellation the response is still open")

    async def _refused(self, answer: Answer, stream: bool) -> ProviderError:
        async with self.serving(answer) as (provider, service):
            what = f"status {answer.status} with {show(b''.join(answer.pieces), 120)}"
            error = await refused(self.chat(provider, stream=stream), ProviderError, what)
            require(service.open_answers == 0, "after the error the response is still open")
        return error

    async def _read_or_refused(self, answer: Answer, *, stream: bool) -> None:
        async with self.serving(answer) as (provider, _):
            with raising_only(ProviderError, what=f"reading the answer {show(b''.join(answer.pieces), 600)}"):
                try:
                    result = await self.chat(provider, stream=stream)
                except (ProviderError, AssertionError):
                    return
        _check_result(result)

    def _check_text(self, error: ProviderError, status: int | None) -> None:
        text = str(error)
        require(text.strip() and len(text) < 2000, f"an error's text is a sentence or two, got {show(text)}")
        require("<html" not in text, f"an error's text must not be a web page: {show(text)}")
        require(bool(error.provider), f"an error names its provider: {show(text)}")
        require(status is None or error.status == status, f"the status was {status}, the error has {error.status!r}")


def _check_result(result: ChatResult) -> None:
    problem = f"an exchange returns a ChatResult, got {show(result)}"
    require(isinstance(result, ChatResult) and isinstance(result.message, AssistantMessage), problem)
    for part in result.message.parts:
        if isinstance(part, TextPart):
            require(isinstance(part.text, str), f"a TextPart holds text, got {show(part.text)}")
        if isinstance(part, ToolCall):
            fits = isinstance(part.name, str) and (part.arguments is None or isinstance(part.arguments, Mapping))
            require(fits, f"a call has a name and an object as arguments (or None, and error says why): {show(part)}")
            require(
                part.arguments is not None or bool(part.error), f"a call without arguments has an error: {show(part)}"
            )


def _quoting(body: Any, text: str, *, longest: bool) -> Any:
    """Replace the longest text of a refusal, which is its message, or all of its texts."""
    replaced_texts = {max(texts_in(body), key=len, default="")} if longest else {*texts_in(body)}

    def replace(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: replace(item) for key, item in data.items()}
        if isinstance(data, list):
            return [replace(item) for item in data]
        return text if isinstance(data, str) and data in replaced_texts else data

    return replace(body)
