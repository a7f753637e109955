"""What comes over a real socket from somebody who means no good."""

import contextlib
import socket

import pytest

HEAD = "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
def server(config_file, plugins, running):
    """An app on a thread and a loop of its own, with short limits."""
    from flexchat_web.app import create_app
    from flexchat_web.serving import Settings

    app = create_app(config_file, plugins=plugins, settings=Settings(body_seconds=0.3))
    with running(app, head_seconds=0.3) as server:
        yield server


def status(answer):
    return answer.split(b"\r\n", 1)[0].split(b" ", 1)[1][:3] if answer else b""


@pytest.mark.slow
def test_a_body_of_50_mb_is_refused_before_it_is_sent(server):
    """413 as soon as the head is there."""
    answer = server.talk(f"POST /api/config/validate HTTP/1.1\r\n{HEAD}Content-Length: 52428800\r\n\r\n".encode())
    assert status(answer) == b"413"


@pytest.mark.slow
def test_a_body_in_pieces_that_never_end_is_refused(server):
    """No Content-Length: counted as it comes. The client gets its answer, although it sends on."""
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"POST /api/config/validate HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(800):  # 50 MB
            connection.sendall(piece)
        assert status(connection.recv(65_536)) == b"413"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        ("/chat/api", "", 413),
        ("/v1/chat/completions", "", 400),  # a message may have media: the body is read, and is no JSON
        ("/v1/embeddings", "", 413),
        ("/api/config/validate", "", 413),
        ("/api/nothing", "", 404),
        ("/", "", 405),
        ("/health", "", 405),
        ("/chat/api", "Origin: https://evil.example\r\n", 403),
        ("/chat/api", "Host: evil.example\r\n", 421),
        ("/chat/api?no=such", "", 400),
    ],
)
def test_a_client_that_sends_its_whole_body_first_gets_the_refusal(server, path, more, expected):
    """Most clients do; closing a connection with unread data resets it, and the answer is lost."""
    head = HEAD if "Host:" not in more else "Content-Type: application/json\r\n"
    body = b" " * (12 * 1024 * 1024)
    for framing, sent in (
        (f"Content-Length: {len(body)}", body),
        ("Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)),
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\n{head}{more}{framing}\r\n\r\n".encode() + sent)
            assert status(connection.recv(65_536)) == str(expected).encode()


def test_a_refused_body_that_expects_100_is_not_waited_for(server):
    head = f"POST /api/config/validate HTTP/1.1\r\n{HEAD}Content-Length: 52428800\r\nExpect: 100-continue\r\n\r\n"
    assert status(server.talk(head.encode())) == b"413"


@pytest.mark.slow
@pytest.mark.parametrize("begun", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: 127", b"GET / HTTP/1.1\r\nX-A: b\r\n"])
def test_a_head_that_is_never_complete_is_closed(server, begun):
    """Half-sent requests and silent connections."""
    answer = server.talk(begun, seconds=60)
    assert status(answer) == b"408"


def test_a_head_that_drips_is_closed_too(server):
    """Each byte in time, all of them not."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.settimeout(0.02)
        answer = b""
        for _ in range(2_000):
            connection.sendall(b"G")
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65_536)
                break
    assert status(answer) == b"408"


@pytest.mark.slow
def test_a_body_that_stops_is_408(server):
    answer = server.talk(f'POST /api/config/validate HTTP/1.1\r\n{HEAD}Content-Length: 100\r\n\r\n{{"te'.encode())
    assert status(answer) == b"408"


def test_after_a_good_request_the_next_head_has_its_limit_too(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"HEAD /api/config HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert status(connection.recv(65_536)) == b"200"
        connection.sendall(b"GET /hal")
        assert status(connection.recv(65_536)) == b"408"


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Bomb: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"G\xc3\x84T / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=["header bomb", "many headers", "long path", "TLS", "two hosts", "no host", "length", "two lengths", "method"],
)
def test_what_is_no_http_or_too_much_of_it_is_refused(server, request_):
    try:
        answer = server.talk(request_, seconds=3)
    except (BrokenPipeError, ConnectionResetError):
        answer = b""
    assert status(answer)[:1] in (b"4", b"")
    assert status(server.talk(b"GET /api/config HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")) == b"200"


def test_both_lengths_at_once_smuggle_nothing(server):
    """Transfer-Encoding and Content-Length in one request."""
    answer = server.talk(
        f"POST /api/config/validate HTTP/1.1\r\n{HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n".encode()
    )
    assert answer.count(b"HTTP/1.1 200") == 0


def test_answers_say_nothing_of_the_server_program(server):
    answer = server.talk(b"GET /api/config HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert b"uvicorn" not in answer.lower()
    assert b"\r\nserver:" not in answer.lower()


def test_200_silent_connections_do_not_stop_the_others(server):
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    try:
        answer = server.talk(b"GET /api/config HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert status(answer) == b"200"
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_a_simple_request_of_a_foreign_page_changes_nothing(server, origin, config_file):
    """text/plain with JSON in it, which needs no preflight."""
    before = config_file.read_text()
    body = '{"text": "x", "version": "y"}'
    answer = server.talk(
        f"PUT /api/config HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {origin}\r\nContent-Type: text/plain\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert status(answer) == b"403"
    assert config_file.read_text() == before
