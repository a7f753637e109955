"""Laws about recorded traffic: what a real service sent is read right, and what it was sent is written again."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import unittest
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import httpx
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    ChatProvider,
    Message,
    ProviderError,
    result_of,
)

from .law import Conformance, law, require, show
from .samples import HELLO
from .stream_laws import check_order
from .wire import Answer, Asked, Service, as_bytes

_OUR_ID = re.compile(r"id='call_[\w-]{22}'")
_MAX_BYTEWISE = 5_000


@attrs.frozen(kw_only=True)
class RecordedExchange:
    """One exchange of a recording, in the form that ReplayTransport reads.

    Attributes:
        file: The recording's file name.
        number: Its place in the recording, from 0.
    """

    file: str
    number: int
    request: Mapping[str, Any]
    response: Mapping[str, Any]

    @property
    def body(self) -> Any:
        """The request's body."""
        return self.request["body"]

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is a stream: its body is a text."""
        return isinstance(self.response["body"], str) and self.response["status"] == 200


class RecordingConformance(Conformance):
    """The laws of recorded exchanges. Subclass it beside ProviderConformance, for each API that has recordings.

    Attributes:
        count: How many exchanges there are; None to use any number.
        errors: The recorded errors, by a part of the file's name and the exchange's number (None: all of the file):
            the class and whether asking again may help.
        unwritable: Requests that cannot be expressed in messages and options, and why; keys as in ``errors``.
    """

    capabilities: ClassVar[Mapping[str, str]] = {"requests": "request_of and comparable read the recorded requests"}
    count: ClassVar[int | None] = None
    errors: ClassVar[Mapping[tuple[str, int | None], tuple[str, bool]]] = {}
    unwritable: ClassVar[Mapping[tuple[str, int | None], str]] = {}

    def files(self) -> Sequence[Path]:
        """Return the recordings: JSON files with a list of exchanges, or an object that has it as ``exchanges``."""
        raise NotImplementedError

    def make_provider(self, transport: httpx.AsyncBaseTransport, exchange: RecordedExchange) -> ChatProvider:
        """Return the provider, configured as the recorded client was."""
        raise NotImplementedError

    def model_of(self, exchange: RecordedExchange) -> str:
        """Return the name of the model that was asked."""
        return str(exchange.body["model"])

    def asks_for_stream(self, exchange: RecordedExchange) -> bool:
        """Return whether the recorded request asks for a stream."""
        return bool(exchange.body.get("stream"))

    def check_answer(self, exchange: RecordedExchange, result: ChatResult) -> None:
        """Assert that a result is what the recorded JSON holds, read independently of the provider."""
        raise NotImplementedError

    def check_error(self, exchange: RecordedExchange, error: ProviderError) -> None:
        """Assert more of an error than its class."""

    def request_of(
        self, exchange: RecordedExchange, earlier: Sequence[tuple[RecordedExchange, AssistantMessage]]
    ) -> tuple[Sequence[Message], ChatOptions]:
        """Return the messages and options that a recorded request expresses.

        Args:
            earlier: The exchanges of this recording that had answers, and the messages they became.
        """
        raise NotImplementedError

    def comparable(self, body: Any, exchange: RecordedExchange) -> Any:
        """Return a request's body without what may differ between a recorded request and ours."""
        return body

    def other_reply(self, request: Asked) -> Answer | None:
        """Return the answer to a request outside an exchange (a look-up); None for all others."""
        return None

    @law()
    async def test_every_recorded_answer_is_read_right(self) -> None:
        """The result and the events agree with each other and with the JSON; an error has its class."""
        exchanges = self._exchanges()
        require(self.count in (None, len(exchanges)), f"{self.count} exchanges were expected, got {len(exchanges)}")
        for exchange in exchanges:
            with _naming(exchange):
                await self._check(exchange)

    async def _check(self, exchange: RecordedExchange) -> None:
        expected = _entry(self.errors, exchange)
        try:
            result = await self.ask(exchange)
        except ProviderError as error:
            outcome = (type(error).__name__, error.retryable)
            require(outcome == expected, f"the error must be {expected}, it is {outcome}: {error}")
            require(error.model == self.model_of(exchange), f"the error names the model {error.model!r}")
            self.check_error(exchange, error)
            return
        require(expected is None, f"the recorded error became {show(result)}")
        own_ids = {call.id for call in result.tool_calls}
        require(len(own_ids) == len(result.tool_calls), f"calls share an id: {show(result.tool_calls)}")
        self.check_answer(exchange, result)

    @law()
    async def test_every_cut_of_every_recorded_stream_gives_the_same_events(self) -> None:
        """In two pieces at some places, in many, and short ones in single bytes: the network does not show."""
        chance = random.Random(1)
        streams = {exchange.response["body"]: exchange for exchange in self._exchanges() if exchange.is_streamed}
        for exchange in streams.values():
            content = as_bytes(exchange.response["body"])
            places = range(1, len(content))
            cuts = [[at] for at in chance.sample(places, min(8, len(places)))]
            cuts.append(sorted(chance.sample(places, min(50, len(places)))))
            cuts += [[*places]] * (len(content) < _MAX_BYTEWISE)
            whole = await self._outcome(exchange, [content])
            for cut in cuts:
                pieces = [content[a:b] for a, b in itertools.pairwise((0, *cut, len(content)))]
                with _naming(exchange):
                    outcome = await self._outcome(exchange, pieces)
                    require(outcome == whole, f"cut at {cut[:5]} … the events are {show(outcome)}, not {show(whole)}")

    @law("requests")
    async def test_every_recorded_request_is_written_again(self) -> None:
        """Read into messages and options, and sent, it is the same JSON, up to ``comparable``; without a warning."""
        earlier: list[tuple[RecordedExchange, AssistantMessage]] = []
        for exchange in self._exchanges():
            if exchange.number == 0:
                earlier = []
            if _entry(self.unwritable, exchange):
                continue
            with _naming(exchange):
                answer = await self._check_request(exchange, earlier)
            if answer is not None:
                earlier.append((exchange, answer.message))

    async def _check_request(
        self, exchange: RecordedExchange, earlier: Sequence[tuple[RecordedExchange, AssistantMessage]]
    ) -> ChatResult | None:
        """Check a request; return the answer to it."""
        answer = None if _entry(self.errors, exchange) else await self.ask(exchange)
        messages, options = self.request_of(exchange, earlier)
        requests: list[Asked] = []
        try:
            result = await self.ask(exchange, messages, options, requests=requests)
        except ProviderError:
            require(requests and answer is None, "the request was not sent")
        else:
            warnings = {*result.warnings} - {*(answer.warnings if answer else ())}
            require(not warnings, f"the request gives these warnings: {warnings}")
        sent, recorded = self.comparable(requests[0].body, exchange), self.comparable(exchange.body, exchange)
        require(sent == recorded, f"sent {show(sent, 3000)}\nrecorded {show(recorded, 3000)}")
        return answer

    async def ask(
        self,
        exchange: RecordedExchange,
        messages: Sequence[Message] = HELLO,
        options: ChatOptions | None = None,
        *,
        requests: list[Asked] | None = None,
    ) -> ChatResult:
        """Hold an exchange in which the service answers as recorded.

        Args:
            requests: Takes the request.
        """
        content = as_bytes(exchange.response["body"])
        events = await self._events(exchange, [content], messages, options or ChatOptions(), requests)
        if self.asks_for_stream(exchange):
            check_order(events)
        return result_of(events)

    def exchanges(self) -> list[RecordedExchange]:
        """Read all recordings."""
        exchanges = []
        for path in self.files():
            data = json.loads(path.read_text("utf-8"))
            for number, each in enumerate(data["exchanges"] if isinstance(data, dict) else data):
                request, response = each["request"], each["response"]
                exchanges.append(RecordedExchange(file=path.name, number=number, request=request, response=response))
        return exchanges

    def _exchanges(self) -> Sequence[RecordedExchange]:
        exchanges = self.exchanges()
        if not exchanges:
            raise unittest.SkipTest("there are no recordings")
        return exchanges

    async def _outcome(self, exchange: RecordedExchange, pieces: Sequence[bytes]) -> str:
        try:
            outcome: Any = await self._events(exchange, pieces, HELLO, ChatOptions(), None)
        except ProviderError as error:
            outcome = error
        return _OUR_ID.sub("id", repr(outcome))

    async def _events(
        self,
        exchange: RecordedExchange,
        pieces: Sequence[bytes],
        messages: Sequence[Message],
        options: ChatOptions,
        requests: list[Asked] | None,
    ) -> list[ChatEvent]:
        response = exchange.response
        answer = Answer(status=response["status"], headers=dict(response["headers"] or {}), pieces=tuple(pieces))
        service = Service(lambda _: answer, self.other_reply)
        provider = self.make_provider(service, exchange)
        model = self.model_of(exchange)
        try:
            if self.asks_for_stream(exchange):
                return [event async for event in provider.stream_chat(messages, model, options)]  # type: ignore[attr-defined]
            return [AnswerEnd(await provider.generate_chat(messages, model, options))]
        finally:
            await provider.aclose()
            if requests is not None:
                requests += service.asked


@contextlib.contextmanager
def _naming(exchange: RecordedExchange) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"in {exchange.file}, exchange {exchange.number}")
        raise


def _entry(table: Mapping[tuple[str, int | None], Any], exchange: RecordedExchange) -> Any:
    return next((v for (part, n), v in table.items() if part in exchange.file and n in (None, exchange.number)), None)
