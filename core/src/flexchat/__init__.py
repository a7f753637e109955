"""FlexChat: chat with tool calling, assembled from plugins and described in a config file.

What programs import. To extend FlexChat, see flexchat.plugin. A name is imported on first access, so that a command or
a plugin loads only what it uses.
"""

import logging

from .lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)

logging.getLogger("flexchat").addHandler(logging.NullHandler())
