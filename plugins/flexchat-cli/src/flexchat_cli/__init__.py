"""The command line, and what packages with commands of their own use of it."""

from flexchat.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
