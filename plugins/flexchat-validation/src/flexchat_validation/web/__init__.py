"""Validation in flexchat-web: operations of the HTTP API, and the record of each model in the list of models.

flexchat-web is imported for its types only: what is needed from it comes with the hook and with every call, as ``web``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from . import runs, tool_test, validation

if TYPE_CHECKING:
    from flexchat_web.typing import Operation, Web


def operations(web: Web) -> Iterable[Operation]:
    """Return the operations, in the order of the documents."""
    yield from tool_test.operations(web)
    for module in (validation, runs):
        yield from module.operation.create(web)
