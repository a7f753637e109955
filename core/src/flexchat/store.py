"""Public names for authors of document stores, rerankers and conversation stores."""

from .lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
