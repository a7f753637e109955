"""The provider keeps the laws of the kit."""

from flexchat_ollama.conformance import OllamaConformance


class TestOllama(OllamaConformance):
    """/api/chat, /api/tags and /api/embed."""
