"""The mock tools and the scripted model keep the laws of the kit."""

from flexchat_mock import conformance


class TestScripted(conformance.Scripted):
    """The provider "scripted"."""


class TestMock(conformance.Mock):
    """The implementation type."""
