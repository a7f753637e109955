"""What this package provides. Light: the server is loaded when it is started."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl

FLEXCHAT_API = (0, 1)


@hookimpl
def flexchat_add_hookspecs() -> Iterable[object]:
    """Define the hooks through which other plugins extend the HTTP API."""
    from . import hookspecs

    yield hookspecs
