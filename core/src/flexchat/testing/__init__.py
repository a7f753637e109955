"""The kit for people who write plugins: a scripted model, replayed traffic, and the laws a plugin keeps.

The scripted model and the recorder need nothing but FlexChat; all else needs ``pip install "flexchat-core[testing]"``
and is imported when it is asked for.

    scripted.py       ScriptedProvider, says, calls: a model that says what a test tells it
    recorder.py       RecordedEvents: what happened during a turn
    replay.py         ReplayTransport: recorded traffic, served again
    sockets.py        forbid_sockets: no test talks to a real service by accident
    plugin.py         fixtures for pytest: pytest_plugins = ["flexchat.testing.plugin"]
    conformance/      the laws of a provider, a handler, an implementation type and a retriever
"""

from typing import TYPE_CHECKING, Any

from .recorder import RecordedEvent, RecordedEvents
from .scripted import ScriptedProvider, calls, says
from .sockets import NetworkForbiddenError, forbid_sockets

if TYPE_CHECKING:
    from .conformance import (
        HandlerConformance,
        ImplementationConformance,
        ProviderConformance,
        RetrieverConformance,
    )
    from .replay import ReplayTransport

__all__ = [
    "HandlerConformance",
    "ImplementationConformance",
    "NetworkForbiddenError",
    "ProviderConformance",
    "RecordedEvent",
    "RecordedEvents",
    "ReplayTransport",
    "RetrieverConformance",
    "ScriptedProvider",
    "calls",
    "forbid_sockets",
    "says",
]


def __getattr__(name: str) -> Any:
    """Import what needs httpx or hypothesis when it is asked for."""
    if name == "ReplayTransport":
        from .replay import ReplayTransport

        return ReplayTransport
    if name in __all__:
        from . import conformance

        return getattr(conformance, name)
    raise AttributeError(f"module 'flexchat.testing' has no attribute {name!r}")
