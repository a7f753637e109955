"""Where FlexChat keeps data if nobody says where."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """Return the folder for data of this user: FLEXCHAT_DATA, else where the platform wants such data.

    Source: XDG Base Directory specification; Apple's and Microsoft's own places elsewhere.
    """
    named = os.environ.get("FLEXCHAT_DATA")
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "flexchat"
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "flexchat"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "flexchat"
