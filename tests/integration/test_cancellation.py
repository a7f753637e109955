"""A storm of cancelled requests leaves nothing behind: the provider works on, and nothing is left open."""

import asyncio
import contextlib
import gc
import json
import os
import random

import pytest
import wire_dialects as wire
from flexchat import ChatOptions, UserMessage
from stream_of import answer_of, stream_of

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("FLEXCHAT_STORM", "1200"))
"""Requests for each dialect; more with the environment variable FLEXCHAT_STORM."""
AT_ONCE = 100
MAX_TICKS = 20
"""Turns of the loop after which a request is left at the latest; an undisturbed one takes about as many."""
MESSAGES = (UserMessage(content="Say hello."),)


class Server:
    """Answers well, piece by piece, and lets everybody else have their turn between the pieces."""

    def __init__(self, dialect) -> None:
        self.dialect = dialect
        self.tasks: set[asyncio.Task] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            while True:
                await self.answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self.tasks.discard(task)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [x.split(b":")[1] for x in head.lower().split(b"\r\n") if x.startswith(b"content-length")]
        body = await reader.readexactly(int(lengths[0]))
        streamed = b'"stream":true' in body or b"streamGenerateContent" in head
        kind = b"text/event-stream" if streamed and self.dialect.is_sse else b"application/json"
        frames = self.dialect.frames(["Hello", " ", "world"])
        if not streamed:
            whole = json.dumps(self.dialect.whole("Hello world")).encode()
            frames = [whole[at : at + 99] for at in range(0, len(whole), 99)]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ntransfer-encoding: chunked\r\n\r\n")
        for frame in [*frames, b""]:
            await asyncio.sleep(0)
            writer.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")
            await writer.drain()


async def ask(llm, streamed: bool) -> str:
    if not streamed:
        return (await answer_of(llm, MESSAGES, "m-1", ChatOptions())).content
    async with contextlib.aclosing(stream_of(llm, MESSAGES, "m-1", ChatOptions())) as events:
        async for event in events:
            last = event
    return last.result.content


async def leave(llm, number: int, ticks: int) -> bool:
    """Begin a request and leave it, in one of four ways, after so many turns of the loop; say if it was not over."""
    streamed = number % 2 == 0
    if number % 7 == 0:  # a reader who has read enough
        async with contextlib.aclosing(stream_of(llm, MESSAGES, "m-1", ChatOptions())) as events:
            async for _ in events:
                return True
    if number % 5 == 0:  # a deadline of the caller's own
        try:
            async with asyncio.timeout(ticks * 0.0002):
                await ask(llm, streamed)
        except TimeoutError:
            return True
        return False
    task = asyncio.create_task(ask(llm, streamed))
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    if number % 3 == 0:  # an impatient one
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


def open_descriptors() -> int:
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("this system does not list a program's open files")
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("dialect", wire.DIALECTS, ids=lambda d: d.name)
async def test_a_storm_of_cancelled_requests_does_no_harm(dialect):
    """Then ten of ten plain requests work, no descriptor is left open, and no task was lost."""
    loop, complaints = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    gc.collect()
    before = open_descriptors()
    server = Server(dialect)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, backlog=512)
    llm = dialect.open(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", retries=2)
    chance = random.Random(4711)

    left_early = 0
    for start in range(0, COUNT, AT_ONCE):
        leaving = [leave(llm, start + n, chance.randrange(MAX_TICKS)) for n in range(AT_ONCE)]
        left_early += sum(await asyncio.gather(*leaving))
    answers = [await ask(llm, streamed=bool(n % 2)) for n in range(10)]

    await llm.provider.aclose()
    listening.close()
    await asyncio.wait_for(asyncio.gather(*server.tasks), 5)
    await listening.wait_closed()
    gc.collect()
    loop.set_exception_handler(None)

    assert left_early > COUNT * 0.7
    assert answers == ["Hello world"] * 10
    assert open_descriptors() <= before  # fewer if what an earlier test left has been collected
    assert complaints == []
