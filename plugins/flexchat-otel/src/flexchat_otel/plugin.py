"""What this package provides: the config table ``telemetry``, and the hooks of chats in a process with an SDK.

Light: without an SDK, nothing but this module is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flexchat.plugin import ConfigTable, hookimpl

if TYPE_CHECKING:
    from flexchat.host import PluginHost

FLEXCHAT_API = (0, 1)

_PROVIDERS = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")


def _telemetry() -> type:
    from .settings import Telemetry

    return Telemetry


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register the table."""
    yield ConfigTable(name="telemetry", load=_telemetry, summary="OpenTelemetry: names and content of spans.")


@hookimpl
def flexchat_register_chat_hooks(tables: Mapping[str, Any], plugins: PluginHost) -> Iterable[object]:
    """Make the hooks of a chat, if the process has an SDK by then."""
    if has_sdk():
        from .settings import Telemetry
        from .tracing import Observer

        yield Observer(tables.get("telemetry") or Telemetry())


def has_sdk() -> bool:
    """Return whether a provider of traces or metrics is set: without one, every span would be thrown away."""
    if any(os.environ.get(name) for name in _PROVIDERS):
        return True
    if "opentelemetry.trace" not in sys.modules and "opentelemetry.metrics" not in sys.modules:
        return False  # who sets a provider has imported these
    from opentelemetry import metrics, trace

    own = ("opentelemetry.trace", "opentelemetry.metrics")
    providers: tuple[object, ...] = (trace.get_tracer_provider(), metrics.get_meter_provider())
    return any(not type(each).__module__.startswith(own) for each in providers)
