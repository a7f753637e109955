"""Both APIs keep the laws of a provider (TC-84)."""

from flexchat_openai.conformance import ChatCompletionsConformance, ResponsesConformance


class TestChatCompletions(ChatCompletionsConformance):
    """Chat Completions."""


class TestResponses(ResponsesConformance):
    """Responses."""
