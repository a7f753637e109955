"""The guarded client: no socket for what is forbidden, no silent repetition, and errors that know what was sent."""

import asyncio
import gzip
import logging
import socket

import attrs
import pytest
from flexchat.domain.fetching import FetchRequest
from flexchat.domain.masking import Mask
from flexchat.endpoints import MIN_CALLS
from flexchat.errors import (
    AddressRefusedError,
    FetchAnswerError,
    FetchConnectionError,
    FetchError,
    FetchTimeoutError,
)
from flexchat_sdk.http.fetcher import GuardedFetcher
from flexchat_sdk.http.guard import AddressRule
from forbidden_urls import REFUSED_URLS, UNUSABLE_URLS

from .conftest import read_request

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Resolver:
    """Leads each name to one address after the other."""

    def __init__(self, **names):
        self.names, self.asked = {name.replace("_", "."): list(found) for name, found in names.items()}, 0

    async def resolve(self, host, port=0, family=socket.AF_INET):
        self.asked += 1
        found = self.names[host]
        addresses = found.pop(0) if len(found) > 1 else found[0]
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in addresses.split()
        ]

    async def close(self):
        pass


@pytest.fixture
def connects(monkeypatch):
    """Where sockets were about to connect to; none does, except on loopback if the test serves there."""
    asked = []
    real = asyncio.selector_events.BaseSelectorEventLoop.sock_connect

    async def sock_connect(loop, sock, address):
        asked.append(address[0])
        if address[0] != "127.0.0.1":
            raise ConnectionRefusedError(111, "not in tests")
        return await real(loop, sock, address)

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", sock_connect)
    return asked


@pytest.fixture
async def local():
    """A fetcher that may reach loopback."""
    fetcher = GuardedFetcher(AddressRule(("127.0.0.1",)))
    yield fetcher
    await fetcher.aclose()


async def failure(fetcher, url, **rest):
    limits = {key: rest.pop(key) for key in ("timeout_s", "max_bytes", "is_repeat") if key in rest}
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(FetchRequest(url=url, **rest), **limits)
    return caught.value


@pytest.mark.parametrize("url", [*REFUSED_URLS, *UNUSABLE_URLS])
async def test_no_socket_is_made_for_a_forbidden_address(connects, url):
    """However it is written."""
    fetcher = GuardedFetcher()

    error = await failure(fetcher, url)

    assert isinstance(error, AddressRefusedError)
    assert (error.may_have_arrived, error.retryable, connects) == (False, False, [])


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "127.0.0.1 ::1"]
)
async def test_no_socket_is_made_for_the_forbidden_address_of_a_name(connects, address):
    """One answer of the resolver or several."""
    fetcher = GuardedFetcher(resolver=Resolver(evil_example=[address]))

    error = await failure(fetcher, "http://evil.example/")
    await fetcher.aclose()

    assert isinstance(error, AddressRefusedError)
    assert "evil.example:80 may not be reached" in error.text
    assert connects == []


async def test_a_name_that_leads_elsewhere_the_second_time_does_not_get_there(connects):
    """The first answer is public, the second private: what is checked is what is connected to."""
    resolver = Resolver(evil_example=["93.184.216.34", "127.0.0.1"])
    fetcher = GuardedFetcher(resolver=resolver)

    first = await failure(fetcher, "http://evil.example/")
    fetcher._transports[True]._sessions[True].connector.clear_dns_cache()
    second = await failure(fetcher, "http://evil.example/")
    await fetcher.aclose()

    assert isinstance(first, FetchConnectionError)
    assert isinstance(second, AddressRefusedError)
    assert (connects, resolver.asked) == (["93.184.216.34"], 2)


async def test_of_several_addresses_only_the_permitted_ones_are_tried(connects):
    """A private address among public ones is left out."""
    fetcher = GuardedFetcher(resolver=Resolver(mixed_example=["10.0.0.1 93.184.216.34"]))

    error = await failure(fetcher, "http://mixed.example/")
    await fetcher.aclose()

    assert isinstance(error, FetchConnectionError)
    assert set(connects) == {"93.184.216.34"}


async def test_an_allowed_name_is_reached_and_no_other_name_of_that_address(serve):
    """The name is what the operator allows."""

    async def handler(reader, writer):
        await read_request(reader)
        writer.write(OK)

    port = (await serve(handler)).rpartition(":")[2]
    names = Resolver(intranet_example=["127.0.0.1"], evil_example=["127.0.0.1"])
    fetcher = GuardedFetcher(AddressRule(("intranet.example",)), resolver=names)

    found = await fetcher.fetch(FetchRequest(url=f"http://intranet.example:{port}/"))
    error = await failure(fetcher, f"http://evil.example:{port}/")
    await fetcher.aclose()

    assert (found.status, found.body) == (200, b"ok")
    assert isinstance(error, AddressRefusedError)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest",
        "http://[::ffff:10.0.0.1]/",
        "//10.0.0.1/",
        "http://0x7f.1:1/",
        "http://evil.example/",
        "file:///etc/passwd",
        "http://user@127.0.0.1/",
        "http://[/",
    ],
)
async def test_a_redirect_goes_through_the_guard(answering, connects, status, target):
    """Of each kind, to each kind of place; the error says who redirected."""
    answer = f"HTTP/1.1 {status} x\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n".encode()
    url = await answering(answer)
    rule = AddressRule((url.removeprefix("http://"),))
    fetcher = GuardedFetcher(rule, resolver=Resolver(evil_example=["192.168.0.1"]))

    error = await failure(fetcher, url)
    await fetcher.aclose()

    assert isinstance(error, AddressRefusedError)
    assert connects == ["127.0.0.1"]


async def test_no_redirect_leads_to_a_forbidden_address(serve, connects):
    """However it is written."""
    targets = iter(REFUSED_URLS)

    async def handler(reader, writer):
        while True:
            await read_request(reader)
            target = next(targets).encode()
            writer.write(b"HTTP/1.1 302 x\r\nlocation: " + target + b"\r\ncontent-length: 0\r\n\r\n")

    url = await serve(handler)
    fetcher = GuardedFetcher(AddressRule((url.removeprefix("http://"),)))
    for _ in REFUSED_URLS:
        assert isinstance(await failure(fetcher, url), AddressRefusedError)
    await fetcher.aclose()

    assert set(connects) == {"127.0.0.1"}
    assert next(targets, None) is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_is_never_redirected(serve, local, status, method):
    """The redirect is its answer."""
    got = []

    async def handler(reader, writer):
        got.append(await read_request(reader))
        writer.write(f"HTTP/1.1 {status} x\r\nlocation: /else\r\ncontent-length: 0\r\n\r\n".encode())

    found = await local.fetch(FetchRequest(method=method, url=await serve(handler), body=b"x"))

    assert (found.status, found.headers["location"], len(got)) == (status, "/else", 1)


async def test_keys_do_not_go_along_to_another_origin(serve, local):
    """Another port is another origin; on the same origin they stay."""
    got = []

    async def handler(reader, writer):
        head = await read_request(reader)
        got.append(head.lower())
        if b" /start " in head:
            target = b"/next"
        elif b" /next " in head:
            target = other.encode()
        else:
            writer.write(OK)
            return
        writer.write(b"HTTP/1.1 302 x\r\nlocation: " + target + b"\r\ncontent-length: 0\r\n\r\n")

    url, other = await serve(handler), await serve(handler)
    headers = {"Authorization": "Bearer x", "X-Api-Key": "x", "Cookie": "x", "Accept": "text/plain"}

    found = await local.fetch(FetchRequest(url=f"{url}/start", headers=headers))

    assert found.url == f"{other}/"
    assert [b"authorization" in head and b"x-api-key" in head for head in got] == [True, True, False]
    assert b"cookie" not in got[2]
    assert all(b"accept: text/plain" in head for head in got)


async def test_a_circle_of_redirects_ends(answering, local):
    """After five."""
    url = await answering(b"HTTP/1.1 302 x\r\nlocation: /\r\ncontent-length: 0\r\n\r\n")

    error = await failure(local, url)

    assert isinstance(error, FetchAnswerError)
    assert "more than 5 times" in str(error)


@pytest.mark.parametrize(
    ("url", "kind", "retryable"),
    [
        ("http://127.0.0.1:1/", FetchConnectionError, True),
        ("http://nowhere.example/", FetchConnectionError, True),
    ],
)
async def test_where_nobody_was_reached_nothing_arrived(url, kind, retryable):
    """Nothing listens, the name does not exist."""

    class Nobody(Resolver):
        async def resolve(self, host, port=0, family=0):
            raise socket.gaierror(-2, "Name or service not known")

    fetcher = GuardedFetcher(AddressRule(("127.0.0.1",)), resolver=Nobody())
    error = await failure(fetcher, url, method="POST", body=b"{}")
    await fetcher.aclose()

    assert (type(error), error.retryable, error.may_have_arrived) == (kind, retryable, False)


async def test_a_failed_tls_handshake_is_not_an_arrival(serve, local):
    """The server does not speak TLS."""

    async def handler(reader, writer):
        writer.write(OK)
        await reader.read()

    url = (await serve(handler)).replace("http:", "https:")

    error = await failure(local, url, method="POST")

    assert (type(error), error.retryable, error.may_have_arrived) == (FetchConnectionError, False, False)


@pytest.mark.parametrize(
    ("pieces", "end", "kind"),
    [
        ((), "close", FetchConnectionError),
        ((), "reset", FetchConnectionError),
        ((), "hold", FetchTimeoutError),
        ((b"HTTP/1.1 200 OK\r\ncontent-le",), "hold", FetchTimeoutError),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",), "close", FetchConnectionError),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",), "hold", FetchTimeoutError),
        ((b"SSH-2.0-x\r\n\r\n",), "close", FetchAnswerError),
        ((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",), "close", FetchAnswerError),
        ((b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nok",), "close", FetchAnswerError),
        ((b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nok",), "close", FetchAnswerError),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n" + b"x" * 99,), "close", FetchAnswerError),
        ((b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 99),), "close", FetchAnswerError),
        (
            (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"xyz")[:-4],),
            "close",
            FetchAnswerError,
        ),
    ],
)
async def test_what_breaks_after_the_connection_may_have_arrived(answering, local, pieces, end, kind):
    """Silence, half an answer, nonsense, too much."""
    url = await answering(*pieces, end=end)

    error = await failure(local, url, method="POST", body=b"{}", timeout_s=0.4, max_bytes=50)

    assert (type(error), error.may_have_arrived) == (kind, True)


async def test_packed_answers_are_unpacked(answering, local):
    """Also those that were not asked for."""
    packed = gzip.compress(b"hello " * 1000)
    url = await answering(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + packed)

    assert (await local.fetch(FetchRequest(url=url), max_bytes=6_000)).body == b"hello " * 1000


@pytest.fixture
async def stale(serve):
    """A server that answers one request on each connection, and closes it when the next one comes."""
    got = []

    async def handler(reader, writer):
        got.append(await read_request(reader))
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")
        got.append(b"lost")

    return await serve(handler), got


@pytest.mark.parametrize(
    ("method", "repeatable", "lost"),
    [("GET", None, 1), ("POST", None, 0), ("PUT", None, 0), ("DELETE", None, 0), ("POST", True, 1), ("GET", False, 0)],
)
async def test_a_kept_connection_that_was_closed(stale, local, method, repeatable, lost):
    """What may be repeated is sent again; anything else goes over a new connection, so that nothing is in doubt."""
    url, got = stale
    request = FetchRequest(method=method, url=url, repeatable=repeatable)

    answers = [(await local.fetch(attrs.evolve(request))).body for _ in range(2)]

    assert answers == [b"ok", b"ok"]
    assert (len(got) - got.count(b"lost"), got.count(b"lost")) == (2, lost)


async def test_an_origin_that_fails_is_left_alone(answering, local):
    """A status of 500 counts; other origins are asked as before; the error says when to try again (TC-58)."""
    broken = await answering(b"HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n")
    fine = await answering(OK)
    for _ in range(MIN_CALLS):
        assert (await local.fetch(FetchRequest(url=broken))).status == 503

    error = await failure(local, broken)

    assert isinstance(error, FetchConnectionError)
    assert (error.retryable, error.may_have_arrived) == (True, False)
    assert error.retry_after_s == pytest.approx(15, abs=1)
    assert (await local.fetch(FetchRequest(url=fine))).body == b"ok"


async def test_refused_requests_say_nothing_of_a_service(answering, local):
    """Status 404 shows that it works."""
    url = await answering(b"HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n")
    for _ in range(MIN_CALLS + 5):
        assert (await local.fetch(FetchRequest(url=url))).status == 404


async def test_repetitions_come_out_of_a_budget(answering, local):
    """Ten at first; then an error that is not retryable."""
    url = await answering(OK)
    for _ in range(10):
        await local.fetch(FetchRequest(url=url), is_repeat=True)

    error = await failure(local, url, is_repeat=True)

    assert (error.retryable, error.may_have_arrived) == (False, False)


async def test_headers_that_cannot_be_sent_are_refused(connects):
    """A line break in a value, a name that is none."""
    fetcher = GuardedFetcher()
    for headers in ({"X-A": "b\r\nX-C: d"}, {"X A": "b"}, {"X-A": "b\x00"}, {"X-A": "☃"}):
        error = await failure(fetcher, "http://93.184.216.34/", headers=headers)
        assert "cannot be sent" in str(error)
    assert connects == []


async def test_the_clients_own_headers_cannot_be_set(serve, local):
    """Host, lengths and encodings are its business: another Host would reach another service behind a proxy."""
    got = []

    async def handler(reader, writer):
        got.append((await read_request(reader)).lower())
        writer.write(OK)

    url = await serve(handler)
    headers = {"Host": "evil", "Content-Length": "99", "Transfer-Encoding": "chunked", "Connection": "upgrade"}
    await local.fetch(FetchRequest(method="POST", url=url, headers=headers, body=b"x"))

    assert f"host: {url[7:]}\r\n".encode() in got[0]
    assert b"content-length: 1\r\n" in got[0]
    assert b"evil" not in got[0]
    assert b"chunked" not in got[0]


async def test_a_proxy_decides_about_names_and_the_guard_about_addresses(serve, connects, monkeypatch):
    """The proxy's own address is not under the guard; an address in the URL is."""
    got = []

    async def handler(reader, writer):
        got.append(await read_request(reader))
        writer.write(OK)

    monkeypatch.setenv("http_proxy", await serve(handler))
    fetcher = GuardedFetcher(resolver=Resolver())
    found = await fetcher.fetch(FetchRequest(url="http://somewhere.example/x"))
    error = await failure(fetcher, "http://10.0.0.1/")
    await fetcher.aclose()

    assert found.body == b"ok"
    assert got[0].startswith(b"GET http://somewhere.example/x ")
    assert isinstance(error, AddressRefusedError)
    assert connects == ["127.0.0.1"]


async def test_the_log_shows_requests_and_answers_without_secrets(answering, caplog):
    """At level DEBUG; values of headers never (TC-61)."""
    url = await answering(b"HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\nyour key is: s3cr3t-42")
    fetcher = GuardedFetcher(AddressRule(("127.0.0.1",)), mask=Mask(["s3cr3t-42"]))
    with caplog.at_level(logging.DEBUG, "flexchat_sdk.http.fetcher"):
        await fetcher.fetch(
            FetchRequest(
                method="POST", url=f"{url}/a?key=s3cr3t-42", headers={"X-Key": "s3cr3t-42"}, body=b"s3cr3t-42 1"
            )
        )
    await fetcher.aclose()

    assert "POST http://127.0.0.1" in caplog.text
    assert "X-Key" in caplog.text
    assert "answered 200" in caplog.text
    assert "s3cr3t" not in caplog.text


async def test_what_is_confidential_is_not_in_the_log(answering, caplog):
    """Nobody told the mask of a token that has just been made."""
    url = await answering(b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\nwhat-was-answered")
    fetcher = GuardedFetcher(AddressRule(("127.0.0.1",)))
    with caplog.at_level(logging.DEBUG, "flexchat_sdk.http.fetcher"):
        await fetcher.fetch(FetchRequest(method="POST", url=url, body=b"what-was-sent", confidential=True))
    await fetcher.aclose()

    assert "answered 200" in caplog.text
    assert "what-was" not in caplog.text


async def test_a_cancelled_request_leaves_nothing_behind(answering, local):
    """Its connection is closed."""
    url = await answering(end="hold")
    task = asyncio.create_task(local.fetch(FetchRequest(url=url)))
    await asyncio.sleep(0.05)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stream_gives_its_pieces_as_they_arrive(serve, local):
    """The second piece is sent when the first has been read."""
    go_on = asyncio.Event()

    async def handler(reader, writer):
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\none")
        await go_on.wait()
        writer.write(b"two")

    got = []
    async with local.stream(FetchRequest(url=await serve(handler))) as answer:
        async for piece in answer.pieces:
            got.append(piece)
            go_on.set()

    assert (answer.status, answer.headers["content-type"], got) == (200, "text/event-stream", [b"one", b"two"])


async def test_a_packed_stream_is_unpacked(answering, local):
    packed = gzip.compress(b"hello " * 1000)
    url = await answering(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + packed)

    async with local.stream(FetchRequest(url=url)) as answer:
        assert b"".join([piece async for piece in answer.pieces]) == b"hello " * 1000


@pytest.mark.parametrize("url", REFUSED_URLS)
async def test_no_stream_is_opened_to_a_forbidden_address(connects, url):
    """It goes through the same guard."""
    fetcher = GuardedFetcher()
    with pytest.raises(AddressRefusedError):
        await fetcher.stream(FetchRequest(url=url)).__aenter__()

    assert connects == []


async def test_a_stream_is_not_redirected(answering, local, connects):
    url = await answering(b"HTTP/1.1 307 x\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n")

    async with local.stream(FetchRequest(url=url)) as answer:
        assert (answer.status, answer.headers["location"]) == (307, "http://10.0.0.1/")

    assert connects == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("pieces", "end", "kind"),
    [
        ((), "hold", FetchTimeoutError),
        ((), "reset", FetchConnectionError),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",), "close", FetchConnectionError),
        ((b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nok",), "close", FetchAnswerError),
        ((b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nok",), "close", FetchAnswerError),
    ],
)
async def test_a_stream_that_breaks_off_is_a_fetch_error(answering, local, pieces, end, kind):
    url = await answering(*pieces, end=end)

    async def read():
        async with local.stream(FetchRequest(method="POST", url=url, body=b"{}"), timeout_s=0.4) as answer:
            return [piece async for piece in answer.pieces]

    with pytest.raises(FetchError) as caught:
        await read()
    assert (type(caught.value), caught.value.may_have_arrived) == (kind, True)
