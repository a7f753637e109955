"""The implementation type, the handler and the document store keep the laws of the kit."""

from flexchat_internal import conformance


class TestMemory(conformance.Memory):
    """The store "memory"."""


class TestRagQuery(conformance.RagQuery):
    """rag_query."""


class TestInternal(conformance.Internal):
    """The implementation type."""
