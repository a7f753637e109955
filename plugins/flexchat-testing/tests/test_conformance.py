"""The scripted model keeps the laws of the kit."""

from flexchat_testing import conformance


class TestScripted(conformance.Scripted):
    """The provider "scripted"."""
