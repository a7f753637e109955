"""The Messages API keeps the laws of a provider."""

from flexchat_anthropic.conformance import AnthropicConformance


class TestAnthropic(AnthropicConformance):
    """POST /v1/messages."""
