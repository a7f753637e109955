"""The module that plugins get as ``web`` and ``call.web``; the protocol operations.Web has its types."""

from __future__ import annotations

from .access_tokens import Trust as Trust
from .apart import Apart as Apart
from .api.events import events_of as events_of
from .api.events import pending_data as pending_data
from .api.models import chosen_model as chosen_model
from .api.models import listed_models as listed_models
from .api.models import named_models as named_models
from .api.questions import record_reply as record_reply
from .config.permitted import refused as refused
from .identity import identity_of as identity_of
from .operations import Admission as Admission
from .operations import Event as Event
from .operations import Json as Json
from .operations import ModelFact as ModelFact
from .operations import MountedApp as MountedApp
from .operations import Operation as Operation
from .operations import Page as Page
from .operations import Stream as Stream
from .operations import Text as Text
from .operations import Written as Written
from .problems import ApiError as ApiError
from .sending import encoded as encoded
from .shapes import TOOL_CALL as TOOL_CALL
from .shapes import TURN_PROBLEMS as TURN_PROBLEMS
