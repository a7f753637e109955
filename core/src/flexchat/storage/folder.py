"""Where FlexChat keeps data by default."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..files import located


def data_folder() -> Path:
    """Return this user's data folder: FLEXCHAT_DATA or, if not set, where the platform wants such data.

    Raises:
        PathError: This user's home folder is unknown.

    Source: XDG Base Directory specification; Apple's and Microsoft's locations on their systems.
    """
    named = os.environ.get("FLEXCHAT_DATA")
    if named:
        return located(named)
    if sys.platform == "darwin":
        return located("~/Library") / "Application Support" / "flexchat"
    if os.name == "nt":
        return located(os.environ.get("LOCALAPPDATA") or "~/AppData/Local") / "flexchat"
    return located(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "flexchat"
