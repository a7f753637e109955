"""No test talks to a real service by accident."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator
from typing import Any

_LOCAL_NAMES = ("localhost", "localhost.localdomain", "")


class NetworkForbiddenError(AssertionError):
    """Something tried to reach the network. No OSError, which would be taken for a service that is down."""


@contextlib.contextmanager
def forbid_sockets() -> Iterator[None]:
    """Refuse, in this process, every connection and every look-up of a name; loopback and Unix sockets are allowed.

    Raises:
        NetworkForbiddenError: Out of the code that tries.
    """
    plain = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
    own = {name: socket.socket.__dict__.get(name) for name in plain}
    look_up = socket.getaddrinfo

    def guarded(name: str) -> Callable[..., Any]:
        def call(self: socket.socket, *args: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6) and args:
                _check(args[-1], f"{name} to")
            return plain[name](self, *args)

        return call

    def guarded_look_up(host: Any, *args: Any, **rest: Any) -> Any:
        _check((host,), "look-up of")
        return look_up(host, *args, **rest)

    for name in plain:
        setattr(socket.socket, name, guarded(name))
    socket.getaddrinfo = guarded_look_up
    try:
        yield
    finally:
        socket.getaddrinfo = look_up
        for name, method in own.items():
            if method is None:
                delattr(socket.socket, name)
            else:
                setattr(socket.socket, name, method)


def _check(address: Any, what: str) -> None:
    host = address[0] if isinstance(address, tuple) and address else address
    host = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if host is None or (isinstance(host, str) and _is_here(host)):
        return
    raise NetworkForbiddenError(
        f"{what} {host!r}: a test may reach only this machine; serve the answer over the transport the kit hands in"
    )


def _is_here(host: str) -> bool:
    if host.lower() in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
