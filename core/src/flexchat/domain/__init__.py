"""Frozen values that all other modules share; no I/O, no plugins, no asyncio."""

from ..lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
