"""What is known about each model, for the list of models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flexchat import FlexChat

from ..cases import table_of
from ..summary import ValidationRecord
from .records import Records
from .shapes import STATUS

if TYPE_CHECKING:
    from flexchat_web.typing import Call

__all__ = ["STATUS", "listed", "records_of"]


async def records_of(call: Call, chat: FlexChat, ids: Sequence[str]) -> Mapping[str, Any]:
    """Return the validation records of models, by id."""
    tracker = await Records.of(call).tracker(chat)
    known = await asyncio.to_thread(lambda: {found.model_id: found for found in tracker.get_all_validations()})
    return {id: (known.get(id) or ValidationRecord(model_id=id)).status() for id in ids}


def listed(chat: FlexChat) -> Iterable[str]:
    """Return the models that the table validation names."""
    return table_of(chat.config).models
