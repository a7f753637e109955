"""Types for plugins with operations and pages: the parameter ``web`` of the hooks, and the ``call`` of an operation.

A plugin that also loads without flexchat-web imports them for its type checker only: ``if TYPE_CHECKING: from
flexchat_web.typing import Call, Web``.
"""

from __future__ import annotations

from typing import Protocol

from . import operations
from .operations import Call, Reply
from .problems import ApiError as _ApiError

__all__ = ["Call", "Reply", "Web"]


class Web(Protocol):
    """What a plugin builds operations, answers and pages with: the module flexchat_web.door."""

    @property
    def Operation(self) -> type[operations.Operation]:
        """A method on a path."""

    @property
    def Page(self) -> type[operations.Page]:
        """A page beside ours."""

    @property
    def ModelFact(self) -> type[operations.ModelFact]:
        """A fact about each model in the list of models."""

    @property
    def Json(self) -> type[operations.Json]:
        """An answer in JSON."""

    @property
    def Text(self) -> type[operations.Text]:
        """An answer that is not JSON, or empty."""

    @property
    def Stream(self) -> type[operations.Stream]:
        """An answer of server-sent events."""

    @property
    def Event(self) -> type[operations.Event]:
        """A server-sent event."""

    @property
    def ApiError(self) -> type[_ApiError]:
        """A problem that an operation answers with."""
