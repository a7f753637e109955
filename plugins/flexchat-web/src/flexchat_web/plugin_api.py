"""The module that plugins get as ``web`` and ``call.web``; the protocol operations.Web has its types."""

from __future__ import annotations

from .apart import Apart
from .api.events import events_of
from .api.models import chosen_model, listed_models, named_models
from .config.permitted import refused
from .operations import Event, Json, ModelFact, Operation, Page, Stream, Text, Written
from .problems import ApiError
from .sending import encoded
from .shapes import TOOL_CALL, TURN_PROBLEMS

__all__ = [
    "TOOL_CALL",
    "TURN_PROBLEMS",
    "Apart",
    "ApiError",
    "Event",
    "Json",
    "ModelFact",
    "Operation",
    "Page",
    "Stream",
    "Text",
    "Written",
    "chosen_model",
    "encoded",
    "events_of",
    "listed_models",
    "named_models",
    "refused",
]
