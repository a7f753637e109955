"""The Messages API keeps the laws of a provider."""

from typing import Any

from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.conformance import AnthropicConformance
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_sdk import ChatProvider


class TestAnthropic(AnthropicConformance):
    """POST /v1/messages."""


class TestDefaults(AnthropicConformance):
    """As configured with a key alone: newest version of the API, long answers, which are streamed always."""

    model = "claude-opus-5"

    def make_provider(self, transport: Any) -> ChatProvider:
        """Return the provider over the kit's transport."""
        return AnthropicProvider(AnthropicConfig(api_key=self.key), transport=transport)
