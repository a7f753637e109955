"""Streams that have to end because the server does."""

import asyncio

import pytest
from flexchat_web.operations import Event, Stream
from flexchat_web.problems import ApiError
from flexchat_web.sending import Streams, send_reply


class Sent(list):
    """What was sent; what a stream said is in its text."""

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
    work = asyncio.create_task(
        send_reply(reply, sent, head_only=False, failed=lambda e: Event("error", e.to_dict()), streams=streams)
    )
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
