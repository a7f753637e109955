"""The mock tools keep the laws of the kit."""

from flexchat_mock import conformance


class TestMock(conformance.Mock):
    """The implementation type."""
