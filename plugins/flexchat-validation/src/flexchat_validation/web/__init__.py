"""What flexchat-web shows about validation: operations of the HTTP API, and what is known about each model.

flexchat-web is never imported: what is needed from it comes with the hook and with every call, as ``web``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import attempts, runs, tool_test, validation


def operations(web: Any) -> Iterable[Any]:
    """Return the operations, in the order of the documents."""
    for module in (tool_test, validation, runs, attempts):
        yield from module.operations(web)
