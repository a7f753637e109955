"""Public names for authors of tools and hooks. Providers: flexchat_sdk; stores: flexchat.store.

hookspecs.py   every hook; an example of each: docs/hooks.md
contracts.py   the records those hooks yield, and the protocols their contents implement
"""

from ..lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
