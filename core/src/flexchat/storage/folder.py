"""Where FlexChat keeps data if nobody says where."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..files import located


def data_folder() -> Path:
    """Return the folder for data of this user: FLEXCHAT_DATA, else where the platform wants such data.

    Raises:
        PathError: Nobody knows where this user's home is.

    Source: XDG Base Directory specification; Apple's and Microsoft's own places elsewhere.
    """
    named = os.environ.get("FLEXCHAT_DATA")
    if named:
        return located(named)
    if sys.platform == "darwin":
        return located("~/Library") / "Application Support" / "flexchat"
    if os.name == "nt":
        return located(os.environ.get("LOCALAPPDATA") or "~/AppData/Local") / "flexchat"
    return located(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "flexchat"
