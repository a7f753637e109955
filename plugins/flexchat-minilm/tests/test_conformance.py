"""The provider keeps the laws of the kit."""

from flexchat_minilm import conformance


class TestMiniLM(conformance.MiniLM):
    """The provider "minilm"."""
