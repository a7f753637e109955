"""Streams that have to end because the server does."""

import asyncio

import pytest
from flexchat_web.operations import Event, Stream
from flexchat_web.problems import ApiError
from flexchat_web.sending import Streams, event_bytes, send_stream


class Sent(list):
    """The messages that were sent; their bodies are its text."""

    async def __call__(self, message):
        self.append(message)

    @property
    def text(self):
        return b"".join(message.get("body", b"") for message in self).decode()


def endless(*first):
    """A stream that says something and then waits; and what happened to it."""
    state = {"waits": asyncio.Event()}

    async def events():
        try:
            for event in first:
                yield event
            state["waits"].set()
            await asyncio.Event().wait()
            yield Event("never", {})
        finally:
            state["closed"] = True

    return Stream(events()), state


async def stopped(reply, state, sent):
    streams = Streams()
    failed = lambda e: Event("error", e.to_dict())  # noqa: E731
    work = asyncio.create_task(send_stream(reply, sent, failed=failed, streams=streams))
    await state["waits"].wait()
    assert len(streams) == 1
    streams.stop()
    streams.stop()
    try:
        await asyncio.wait_for(work, 5)
    finally:
        assert (len(streams), state["closed"]) == (0, True)


async def test_a_stream_that_has_begun_ends_with_an_error():
    """Its status is sent; and the connection is closed in good order."""
    reply, state = endless(Event("text", {"text": "Once"}))
    sent = Sent()
    await stopped(reply, state, sent)
    assert sent.text.startswith("event: text")
    assert sent.text.rstrip().split("\n\n")[-1].startswith("event: error")
    assert '"status":503' in sent.text
    assert not sent[-1].get("more_body")


async def test_one_that_has_not_is_answered_with_the_status():
    reply, state = endless()
    sent = Sent()
    with pytest.raises(ApiError) as raised:
        await stopped(reply, state, sent)
    assert (raised.value.status, raised.value.kind, sent) == (503, "server-stopped", [])


async def test_a_stream_that_has_begun_is_silent_for_less_time(monkeypatch):
    """A comment before the first event would fix the status; afterwards clients wait for seconds only."""
    monkeypatch.setattr("flexchat_web.sending.BEGUN_KEEP_ALIVE_SECONDS", 0.001)
    commented = asyncio.Event()

    class Heard(Sent):
        async def __call__(self, message):
            await super().__call__(message)
            if b": keep-alive" in message.get("body", b""):
                commented.set()

    async def events(first):
        for event in first:
            yield event
        await commented.wait()

    sent = Heard()
    stream = Stream(events([Event("text", {})]))
    async with asyncio.timeout(5):
        await send_stream(stream, sent, failed=lambda _: Event(None, ""), streams=Streams())
    assert ": keep-alive" in sent.text


def test_a_comment_is_one_line():
    assert event_bytes(Event(None, None, comment="a\nb\r\n\ndata: c")) == b": a b data: c\n\n"
