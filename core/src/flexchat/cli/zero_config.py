"""The configuration of someone who has none: the rehearsal model, and every ready-made tool that works by itself."""

from __future__ import annotations

from typing import Any

from ..plugin.host import PluginHost
from .usage import UsageError


def zero_config(host: PluginHost) -> dict[str, Any]:
    """Return a configuration that needs no key and no network.

    Raises:
        UsageError: No installed plugin offers the rehearsal model.
    """
    if "rehearsal" not in host.providers.by_name:
        raise UsageError(
            "there is no configuration (flexchat init writes one), and the rehearsal model that would answer without "
            f"one is missing: {host.providers.missing('rehearsal')}"
        )
    # Internal tools look into the document stores of the configuration, of which there are none.
    usable = [name for name, tool in host.tools.by_name.items() if tool.implementation.type != "internal"]
    return {
        "llms": {"rehearsal": {"provider": "rehearsal"}},
        "responses": [{"llm": "rehearsal", "model": "rehearsal", "tools": {"enabled": True}}],
        "tools": {"registry": [{"name": name} for name in usable], "at_limit": "answer"},
    }
