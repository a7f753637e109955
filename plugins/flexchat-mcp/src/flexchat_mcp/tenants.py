"""Each tenant's own server: made for its first call, and ended for another's when it is not in use."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable
from typing import Generic, Protocol, TypeVar

import attrs
from flexchat.host import DEFAULT_TENANT

from .errors import ServerUnusableError


class Closable(Protocol):
    """What a tenant has of its own."""

    async def aclose(self) -> None:
        """End it."""


Source = TypeVar("Source", bound=Closable)


def option(tenant: str) -> str:
    """Format the option that names a tenant in a command; empty for the default one."""
    if tenant == DEFAULT_TENANT:
        return ""
    return f" --tenant {shlex.quote(tenant) if tenant.isprintable() and len(tenant) <= 100 else 'NAME'}"


@attrs.define(eq=False)
class _Place(Generic[Source]):
    """A place for one tenant's server.

    Attributes:
        users: How many calls use it.
        free: Done when the server that had the place before is gone; None if there was none.
    """

    source: Source
    free: asyncio.Task[None] | None = None
    users: int = 0

    async def end(self) -> None:
        """End the server, after whatever had its place before."""
        if self.free is not None:
            await asyncio.wait([self.free])
        await self.source.aclose()


class Tenants(Generic[Source]):
    """The servers of tenants, by name. Nothing is kept of a tenant whose server was ended.

    Args:
        most: How many there are at a time.
        make: Makes the server of a tenant; starts nothing.
    """

    def __init__(self, most: int, make: Callable[[str], Source]) -> None:
        self._most, self._make = most, make
        self._places: dict[str, _Place[Source]] = {}  # the last one used comes last
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[Source]:
        """Use a tenant's server; it is not ended for another tenant's meanwhile.

        Raises:
            ServerUnusableError: There are as many as there may be, and all are in use.
        """
        place = self._places.get(tenant)
        if place is None:
            # Entered before the first await: two calls of a tenant at the same time must share one server.
            place = self._places[tenant] = self._place(tenant)
        place.users += 1
        try:
            if place.free is not None:
                await asyncio.wait([place.free])
            yield place.source
        finally:
            place.users -= 1
            # Moved to the end, so that the least recently used one comes first. Not if aclose has removed it meanwhile.
            if self._places.get(tenant) is place:
                self._places[tenant] = self._places.pop(tenant)

    def running(self, tenant: str) -> Source | None:
        """Return a tenant's server, if it has one now."""
        place = self._places.get(tenant)
        return place.source if place is not None else None

    async def aclose(self) -> None:
        """End all of them."""
        # Set first: a call that waits for its place must not create a server that stays open.
        self._is_closed = True
        places, self._places = [*self._places.values()], {}
        await asyncio.gather(*(place.end() for place in places))

    def _place(self, tenant: str) -> _Place[Source]:
        if self._is_closed:
            raise ServerUnusableError("it is closed")
        if len(self._places) < self._most:
            return _Place(self._make(tenant))
        unused = next((name for name, place in self._places.items() if not place.users), None)
        if unused is None:
            text = f"all servers that 'tenants' allows ({self._most:,}) are in use; try again later, or raise it"
            raise ServerUnusableError(text)
        # Its place is taken at once, but its successor starts only when it has ended: else more servers than allowed
        # would run.
        ending = asyncio.get_running_loop().create_task(self._places.pop(unused).end())
        return _Place(self._make(tenant), ending)
