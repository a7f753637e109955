"""The native API keeps the laws of a provider."""

from flexchat_gemini.conformance import GeminiConformance


class TestGemini(GeminiConformance):
    """generateContent and streamGenerateContent."""
