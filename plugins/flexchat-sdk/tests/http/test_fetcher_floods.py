"""Answers of a gigabyte, in every form: given up soon, with little memory, long before all of it was sent."""

import gzip
import time
import tracemalloc
import zlib

import pytest
from flexchat.domain.fetching import FetchRequest
from flexchat.errors import FetchAnswerError, FetchError, FetchTimeoutError
from flexchat_sdk.http.fetcher import GuardedFetcher
from flexchat_sdk.http.guard import AddressRule

from .conftest import read_request

GIGABYTE = 2**30
MOST = 2**20
FILL = b"x" * 2**16
IN_FLIGHT = 16 * 2**20
"""What the system's buffers may hold beyond what was read."""


def head(*lines):
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode()


def bomb():
    """64 MiB of zeros in 64 KiB."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([packing.compress(bytes(2**20)) for _ in range(64)]) + packing.flush()


FLOODS = {
    "with a length": (head(f"content-length: {GIGABYTE}"), FILL, FetchAnswerError),
    "without a length": (head(), FILL, FetchAnswerError),
    "in chunks": (head("transfer-encoding: chunked"), b"10000\r\n" + FILL + b"\r\n", FetchAnswerError),
    "in one chunk": (head("transfer-encoding: chunked") + b"40000000\r\n", FILL, FetchAnswerError),
    "a gzip bomb": (head("content-encoding: gzip") + bomb(), b"", FetchAnswerError),
    "a deflate bomb": (
        head("content-encoding: deflate") + zlib.compress(bytes(64 * MOST), 9),
        b"",
        FetchAnswerError,
    ),
    "packed nothing": (
        head("content-encoding: gzip") + gzip.compress(b"")[:10],
        b"\0\0\0\xff\xff" * 8192,
        FetchAnswerError,
    ),
    "nothing, packed often": (head("content-encoding: gzip"), gzip.compress(b"") * 2_000, FetchError),
    "one header": (b"HTTP/1.1 200 OK\r\nx: ", FILL, FetchAnswerError),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 8_000, FetchAnswerError),
    "a status": (b"HTTP/1.1 200 ", FILL, FetchAnswerError),
    "trailers": (head("transfer-encoding: chunked") + b"0\r\n", b"x: y\r\n" * 8_000, FetchAnswerError),
    "no HTTP": (b"", FILL, FetchAnswerError),
    "promises of an answer": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500, FetchTimeoutError),
    "chunks of one byte": (head("transfer-encoding: chunked"), b"1\r\nx\r\n" * 2_000, FetchError),
}  # fmt: skip

LONG = {"promises of an answer", "chunks of one byte"}


@pytest.fixture
async def fetcher():
    made = GuardedFetcher(AddressRule(("127.0.0.1",)))
    yield made
    await made.aclose()


@pytest.mark.timed
@pytest.mark.parametrize(
    "flood", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in FLOODS]
)
async def test_a_flood_is_given_up(serve, fetcher, flood):
    """Whatever it claims to be; the connection is closed, so that the other side stops."""
    first, then, kind = FLOODS[flood]
    sent = 0

    async def handler(reader, writer):
        nonlocal sent
        await read_request(reader)
        writer.write(first)
        while then and sent < GIGABYTE:
            writer.write(then)
            sent += len(then)
            await writer.drain()

    url = await serve(handler)
    fetcher._transport(keeps=True)  # loads the client
    tracemalloc.start()
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        await fetcher.fetch(FetchRequest(url=url), timeout_s=1.0, max_bytes=MOST)
    took_s, (_, peak) = time.monotonic() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert caught.value.may_have_arrived
    assert took_s < 10
    assert peak < 3 * IN_FLIGHT
    assert sent < 3 * IN_FLIGHT


async def test_packed_parts_in_a_row_are_one_answer(answering, fetcher):
    """RFC 1952, section 2.2: in one piece or in several."""
    packed = gzip.compress(b"hello ") * 3 + gzip.compress(b"x" * 10_000)
    url = await answering(head("content-encoding: gzip") + packed[:30], packed[30:])

    found = await fetcher.fetch(FetchRequest(url=url))

    assert found.body == b"hello " * 3 + b"x" * 10_000
