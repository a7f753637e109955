"""No test talks to a real service by accident."""

import asyncio
import socket

import pytest
from flexchat_testing import NetworkForbiddenError, forbid_sockets


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection(("203.0.113.1", 80), timeout=1),
        lambda: socket.create_connection(("api.example.com", 443), timeout=1),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.1", 53)),
        lambda: socket.socket().connect_ex(("203.0.113.1", 80)),
        lambda: socket.getaddrinfo("api.example.com", 443),
        lambda: asyncio.run(asyncio.open_connection("api.example.com", 443)),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_leaves_the_machine_is_refused(reach):
    """Connections, datagrams and look-ups of names; the error says what was tried."""
    with forbid_sockets(), pytest.raises(NetworkForbiddenError, match=r"203\.0\.113\.1|api\.example\.com"):
        reach()


def test_loopback_is_allowed_and_everything_is_as_before_afterwards():
    """By number and by name."""
    before = socket.socket.connect
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with forbid_sockets():
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            socket.create_connection(("localhost", port), timeout=5).close()

    assert socket.socket.connect is before
    assert socket.getaddrinfo.__module__ == "socket"


def test_it_is_no_oserror():
    """An OSError would be taken for a service that is down, and the test would go on."""
    assert not issubclass(NetworkForbiddenError, OSError)
