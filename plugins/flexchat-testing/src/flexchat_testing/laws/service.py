"""A simulated service: answers a provider's requests with whatever a law prescribes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import attrs
import httpx

from .law import require, show


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
