"""A provider's service: a simulated one, its wire format as the author describes it, and how laws use the provider."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import httpx
from flexchat.plugin import ChatResult, ToolCall, ToolDefinition
from flexchat_sdk import AnswerEnd, ChatEvent, ChatOptions, ChatProvider, Message, ToolEncoder, ToolMessage

from .law import Conformance, require, show
from .samples import HELLO, result_text


@attrs.frozen(kw_only=True)
class Asked:
    """A request as it arrived. Header names are in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """The body as JSON data.

        Raises:
            AssertionError: It is not JSON, or not in UTF-8.
        """
        try:
            return json.loads(self.content.decode("utf-8"), parse_constant=_no_constant)
        except ValueError as error:
            raise AssertionError(
                f"a request's body must be JSON in UTF-8, and is not ({error}): {show(self.content)}"
            ) from None

    @property
    def text(self) -> str:
        """The body as JSON text in which every character stands for itself."""
        return json.dumps(self.body, ensure_ascii=False)


@attrs.frozen(kw_only=True)
class Answer:
    """An answer of the service.

    Attributes:
        pieces: The body, in the pieces in which the network delivers it.
        breaks: The error raised after the pieces, as by a broken connection.
        hangs: Whether the connection stays open without data after the pieces.
    """

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    pieces: tuple[bytes, ...] = ()
    breaks: Exception | None = None
    hangs: bool = False


class Service(httpx.AsyncBaseTransport):
    """The transport a provider gets from the kit.

    Attributes:
        asked: The requests so far, without look-ups (``other_reply``).
        open_answers: Answers whose body is neither read to its end nor closed.
        is_closed: Whether the provider has closed its transport.
    """

    def __init__(
        self,
        answer: Callable[[Asked], Answer] | Iterable[Answer | Exception],
        other: Callable[[Asked], Answer | None] = lambda request: None,
    ) -> None:
        self._answer = answer if callable(answer) else _one_after_another(answer)
        self._other = other
        self.asked: list[Asked] = []
        self.open_answers = 0
        self.is_closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        content = await request.aread()
        record = Asked(
            method=request.method, url=str(request.url), headers=dict(request.headers.items()), content=content
        )
        await asyncio.sleep(0)
        answer = self._other(record)
        if answer is None:
            self.asked.append(record)
            answer = self._answer(record)
        if answer.hangs and not answer.pieces:
            await asyncio.Event().wait()
        self.open_answers += 1
        return httpx.Response(answer.status, headers=dict(answer.headers), stream=_Body(answer, self), request=request)

    def next_answer(self) -> bytes:
        """Return the next answer's body, for a provider that uses no network and reads its answers here."""
        return b"".join(self._answer(Asked(method="", url="", headers={}, content=b"{}")).pieces)

    async def aclose(self) -> None:
        """Note that the provider has closed it."""
        self.is_closed = True


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: Answer, service: Service) -> None:
        self._answer, self._service, self._is_open = answer, service, True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._answer.pieces:
            yield piece
        if self._answer.breaks is not None:
            self._end()
            raise self._answer.breaks
        if self._answer.hangs:
            await asyncio.Event().wait()
        self._end()

    async def aclose(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._service.open_answers -= 1


def _one_after_another(answers: Iterable[Answer | Exception]) -> Callable[[Asked], Answer]:
    rest = list(answers)

    def answer(request: Asked) -> Answer:
        require(rest, f"the provider asks once more than expected: {request.method} {request.url}")
        # The last one repeats: a provider may ask again for what did not arrive.
        reply = rest.pop(0) if len(rest) > 1 else rest[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    return answer


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


CAPABILITIES = {
    "http": "its requests go out over the transport that make_provider is given",
    "sockets": "make_provider_at gives one that connects to an address",
    "streaming": "it has stream_chat",
    "tools": "it takes tools, and its models call them",
    "parallel_tools": "one answer may hold several calls",
    "usage": "answers tell the tokens they cost",
    "opaque": "answers hold data that must go back as it came",
    "models": "it can list the service's models",
    "embeddings": "it has embed",
}

_HALF = re.compile("[\ud800-\udfff]")

Reply = Any
"""A body as the service writes it: JSON data; text or bytes for what is not JSON."""


class ProviderKit(Conformance):
    """The part of a provider's conformance class that its author writes.

    Attributes:
        model: The model that is asked.
        key: The key that make_provider uses; None for a service without one.
        input_tokens, output_tokens: The cost in every reply, if "usage" is supported.
        tool_formats: The ProviderType's.
        stream_type: Content type of a streamed answer.
    """

    capabilities: ClassVar[Mapping[str, str]] = CAPABILITIES
    model: ClassVar[str] = "kit-model"
    key: ClassVar[str | None] = "kit-key-1f6c3a5b7d9e"
    input_tokens: ClassVar[int] = 11
    output_tokens: ClassVar[int] = 7
    tool_formats: ClassVar[Mapping[str, ToolEncoder]] = {}
    stream_type: ClassVar[str] = "text/event-stream"

    def make_provider(self, transport: httpx.AsyncBaseTransport) -> ChatProvider:
        """Return the provider, sending its requests over transport and using ``self.key``."""
        raise self._unwritten("make_provider")

    def make_provider_at(self, address: str, **times: Any) -> ChatProvider:
        """Return the provider with real connections to http://host:port and the key ``self.key``.

        Args:
            times: Settings of HttpSettings: timeout_s, first_byte_timeout_s and idle_timeout_s.
        """
        raise self._unwritten("make_provider_at", "sockets")

    def text_reply(self, text: str, *, finish: str = "stop") -> Reply:
        """Return an answer whose content is *text*.

        Args:
            finish: "stop", or "length" for one that the output limit cut off.
        """
        raise self._unwritten("text_reply")

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Reply:
        """Return an answer that asks for tools, by name and arguments.

        Args:
            text: The model's text before the calls.
            finish: "stop" if the service should end as if there were no calls.
        """
        raise self._unwritten("tool_reply", "tools")

    def error_reply(self, kind: str) -> tuple[int, Reply] | None:
        """Return status and body of a refusal; None for a kind this service does not have.

        Args:
            kind: "auth" (unless ``key`` is None), "rate", "overloaded" and "request", which every service has; "quota",
                "model_not_found",
                "context_length", "content_filter".
        """
        raise self._unwritten("error_reply")

    def as_stream(self, reply: Reply) -> Iterable[str | bytes]:
        """Split a reply into the chunks of the service's stream, at least three unless the reply is empty."""
        raise self._unwritten("as_stream", "streaming")

    def read_tool_calls(self, body: Any) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
        """Return the calls that a request repeats from earlier answers, in order: key, name, arguments.

        The key is what the service finds a call's result by: its id, or its name where there are no ids.
        """
        raise self._unwritten("read_tool_calls", "tools")

    def read_tool_results(self, body: Any) -> Sequence[tuple[str, str]]:
        """Return the tools' results in a request, in order: the key of the call, the content as text."""
        raise self._unwritten("read_tool_results", "tools")

    def opaque_reply(self, token: str) -> Reply:
        """Return an answer with data that must go back with the next request; the data contains token."""
        raise self._unwritten("opaque_reply", "opaque")

    def models_reply(self, ids: Sequence[str]) -> Reply:
        """Return the service's list of models."""
        raise self._unwritten("models_reply", "models")

    def read_embed_texts(self, body: Any) -> Sequence[str]:
        """Return the texts of a request for vectors."""
        raise self._unwritten("read_embed_texts", "embeddings")

    def embed_reply(self, vectors: Sequence[Sequence[float]]) -> Reply:
        """Return an answer with these vectors."""
        raise self._unwritten("embed_reply", "embeddings")

    def other_reply(self, request: Asked) -> Reply | None:
        """Return the answer to a request outside an exchange (a look-up); None for all others."""
        return None

    def _unwritten(self, method: str, word: str = "") -> NotImplementedError:
        why = f'supports has "{word}"' if word else "every provider needs it"
        return NotImplementedError(f"{type(self).__name__} must write {method}: {why}")

    @property
    def ways(self) -> tuple[bool, ...]:
        """How the provider can be asked: whole, and streamed if it can."""
        return (False, True) if "streaming" in self.supports else (False,)

    def answer(self, reply: Reply, *, stream: bool = False, **rest: Any) -> Answer:
        """Encode a reply as the service sends it."""
        return self.raw_answer(map(as_bytes, self.as_stream(reply) if stream else [reply]), stream=stream, **rest)

    def raw_answer(self, pieces: Iterable[bytes], *, stream: bool = True, **rest: Any) -> Answer:
        """Return an answer whose body comes in these pieces."""
        kind = self.stream_type if stream else "application/json"
        return Answer(headers={"content-type": kind}, pieces=tuple(pieces), **rest)

    @contextlib.asynccontextmanager
    async def serving(
        self, *answers: Answer | Exception, by: Callable[[Asked], Answer] | None = None
    ) -> AsyncIterator[tuple[ChatProvider, Service]]:
        """Give a provider and the service it talks to."""

        def other(request: Asked) -> Answer | None:
            reply = self.other_reply(request)
            return None if reply is None else self.answer(reply)

        service = Service(by or answers, other)
        async with contextlib.aclosing(self.make_provider(service)) as provider:
            yield provider, service

    async def chat(
        self,
        provider: ChatProvider,
        messages: Sequence[Message] = HELLO,
        options: ChatOptions | None = None,
        *,
        stream: bool = False,
    ) -> ChatResult:
        """Ask, in one of the ways."""
        if stream:
            return (await self.events(provider, messages, options))[-1].result  # type: ignore[union-attr]
        return await provider.generate_chat(messages, self.model, options or ChatOptions())

    async def events(
        self, provider: Any, messages: Sequence[Message] = HELLO, options: ChatOptions | None = None
    ) -> list[ChatEvent]:
        """Ask for a stream and return all of its events; the last one is the AnswerEnd."""
        stream = provider.stream_chat(messages, self.model, options or ChatOptions())
        events = [event async for event in stream]
        ends = [event for event in events if type(event) is AnswerEnd]
        require(
            len(ends) == 1 and events[-1] is ends[0], f"the last event alone is an AnswerEnd; got {show(events[-3:])}"
        )
        return events

    async def result(self, reply: Reply, *, stream: bool = False) -> ChatResult:
        """Serve a reply to the provider, and return its result."""
        async with self.serving(self.answer(reply, stream=stream)) as (provider, _):
            return await self.chat(provider, stream=stream)

    async def sent(
        self, messages: Sequence[Message] = HELLO, options: ChatOptions | None = None, *, stream: bool = False
    ) -> tuple[Asked, ChatResult]:
        """Return the request the provider sends, and what it returns for "ok"."""
        async with self.serving(self.answer(self.text_reply("ok"), stream=stream)) as (provider, service):
            result = await self.chat(provider, messages, options, stream=stream)
        require(len(service.asked) == 1, f"one exchange is one request, got {len(service.asked)}")
        return service.asked[0], result

    async def encoded(self, *tools: ToolDefinition) -> tuple[dict[str, Any], ...]:
        """Return tools in the provider's words, as the tool registry hands them over."""
        async with self.serving() as (provider, _):
            format = provider.tool_format(self.model)
        require(
            format in self.tool_formats,
            f"tool_format({self.model!r}) is {format!r}, which is not in tool_formats ({', '.join(self.tool_formats)})",
        )
        return tuple(self.tool_formats[format](tools))

    def check_results(self, body: Any, expected: Mapping[int, str]) -> None:
        """Check that every result in a request stands with its call: the one with argument n has RESULT-n."""
        remaining: dict[str, list[Any]] = {}
        for key, _, arguments in self.read_tool_calls(body):
            remaining.setdefault(key, []).append(arguments.get("n"))
        results: dict[Any, str] = {}
        for key, content in self.read_tool_results(body):
            require(remaining.get(key), f"a request has a result for {key!r}, which no call before it has")
            results[remaining[key].pop(0)] = content
        for number, mark in expected.items():
            require(
                mark in results.get(number, ""),
                f"the result of the call with n = {number} must contain {mark!r}; by its key it is "
                f"{show(results.get(number))} (all results: {show(results)})",
            )


def as_bytes(reply: Reply) -> bytes:
    """Return a reply as bytes: JSON data as JSON, half a surrogate pair as its escape."""
    if isinstance(reply, bytes):
        return reply
    text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def answered(calls: Sequence[ToolCall]) -> tuple[ToolMessage, ...]:
    """Return a result for each call: the one with argument n gets RESULT-n."""
    return tuple(
        ToolMessage(tool_call_id=call.id, name=call.name, content=result_text((call.arguments or {})["n"]))
        for call in calls
    )
