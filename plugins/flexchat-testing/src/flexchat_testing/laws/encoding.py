"""The law of a tool format, for the provider's kit and for registered formats."""

from __future__ import annotations

import copy

from flexchat.plugin import ToolDefinition
from flexchat_sdk import ToolEncoder

from .law import canonical, require
from .samples import FIRST, TOOLS


def check_encoder(name: str, encode: ToolEncoder) -> None:
    """Check that a tool format is pure: JSON that names every tool, the same each time, and its input left alone."""
    samples: tuple[tuple[ToolDefinition, ...], ...] = ((), (FIRST,), TOOLS)
    for tools in samples:
        before = copy.deepcopy(tools)
        encoded = encode(tools)
        require(tools == before, f"the encoder of {name} changed the definitions it was given")
        try:
            text = canonical(encoded)
        except (TypeError, ValueError) as error:
            raise AssertionError(f"the encoder of {name} returned something that is not JSON: {error}") from None
        require(text == canonical(encode(tools)), f"the encoder of {name} returned something else the second time")
        missing = [tool.name for tool in tools if f'"{tool.name}"' not in text]
        require(not missing, f"the encoder of {name} left out {', '.join(missing)}")
