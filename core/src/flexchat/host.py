"""The door for programs that stand on the whole of FlexChat: flexchat-testing, and whoever builds alike.

Re-exports only. What an app needs is in ``flexchat``, what a plugin needs in ``flexchat.plugin``.
"""

from typing import TYPE_CHECKING, Any

from .assembly import installed_plugins
from .calls.manager import ToolLike, ToolManager
from .config.wording import is_secret_name
from .errors import did_you_mean
from .plugin.host import ENTRY_POINT_GROUP, GATES_GROUP, PluginHost
from .schema.check import ArgumentChecker
from .tools.results import as_json

if TYPE_CHECKING:
    from .config.structure import structure_mapping

__all__ = [
    "ENTRY_POINT_GROUP",
    "GATES_GROUP",
    "ArgumentChecker",
    "PluginHost",
    "ToolLike",
    "ToolManager",
    "as_json",
    "did_you_mean",
    "installed_plugins",
    "is_secret_name",
    "structure_mapping",
]


def __getattr__(name: str) -> Any:
    """Import what needs cattrs when it is asked for."""
    if name != "structure_mapping":
        raise AttributeError(f"module 'flexchat.host' has no attribute {name!r}")
    from .config.structure import structure_mapping

    return structure_mapping
