"""Types for plugins with operations and pages: the parameter ``web`` of the hooks, and the ``call`` of an operation.

A plugin that also loads without flexchat-web imports them for its type checker only (``if TYPE_CHECKING: from
flexchat_web.typing import Call, Web``), or in modules that only its hooks for flexchat-web import.
"""

from __future__ import annotations

from .apart import Apart
from .checking import Unread
from .operations import (
    Call,
    Event,
    Json,
    Lists,
    ModelFact,
    Operation,
    Operations,
    Page,
    Reply,
    Schema,
    Stream,
    Text,
    Web,
    Written,
)
from .problems import ApiError
from .serving import Serving

__all__ = [
    "Apart",
    "ApiError",
    "Call",
    "Event",
    "Json",
    "Lists",
    "ModelFact",
    "Operation",
    "Operations",
    "Page",
    "Reply",
    "Schema",
    "Serving",
    "Stream",
    "Text",
    "Unread",
    "Web",
    "Written",
]
