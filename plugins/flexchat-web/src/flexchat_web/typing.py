"""Types for plugins with operations and pages: the parameter ``web`` of the hooks, and the ``call`` of an operation.

A plugin that also loads without flexchat-web imports them for its type checker only (``if TYPE_CHECKING: from
flexchat_web.typing import Call, Web``), or in modules that only its hooks for flexchat-web import.
"""

from __future__ import annotations

from .checking import Unread as Unread
from .operations import Call as Call
from .operations import Lists as Lists
from .operations import Operations as Operations
from .operations import Reply as Reply
from .operations import Schema as Schema
from .operations import Web as Web
from .plugin_api import *  # noqa: F403  what is passed as web
from .serving import Serving as Serving
