"""Public names for programs built on all of FlexChat: flexchat-validation, flexchat-testing, and others.

Re-exports only. What an app needs is in ``flexchat``, what a plugin needs in ``flexchat.plugin``. A name is
imported on first access, so that a plugin may use this module and stay light.
"""

from .lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
