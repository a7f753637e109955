"""What flexchat-web shows about validation: operations of the HTTP API, and what is known about each model.

flexchat-web is imported for its types only: what is needed from it comes with the hook and with every call, as ``web``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from . import attempts, runs, tool_test, validation

if TYPE_CHECKING:
    from flexchat_web.typing import Operation, Web


def operations(web: Web) -> Iterable[Operation]:
    """Return the operations, in the order of the documents."""
    for module in (tool_test, validation, runs, attempts):
        yield from module.operations(web)
