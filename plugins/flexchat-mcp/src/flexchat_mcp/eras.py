"""Servers of the older era, remembered between programs: asking a server costs a request, or a start."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from pathlib import Path

from flexchat.plugin import FlexChatError
from flexchat.store import data_folder

from .settings import McpConfig

FOR_S = 7 * 24 * 3_600.0  # how long it is remembered: a server that was updated may speak both


class OldServer:
    """Whether one server is of the older era, in an empty file. Where it cannot be kept, the server is asked again.

    Args:
        folder: Where relative paths of its config start.
    """

    def __init__(self, config: McpConfig, folder: Path) -> None:
        cwd = str((folder / (config.cwd or "")).absolute())
        about = [config.argv, cwd] if config.url is None else [config.url, config.transport]
        self._name = f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]}.old"

    def is_known(self) -> bool:
        """Whether it was of the older era when it was last asked."""
        with contextlib.suppress(OSError, FlexChatError):
            return time.time() - self._file().stat().st_mtime < FOR_S
        return False

    def remember(self, is_old: bool) -> None:
        """Keep what it has answered now."""
        with contextlib.suppress(OSError, FlexChatError):
            file = self._file()
            # The file's time is the record: touching it is atomic, so that programs need no lock between them.
            if is_old:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.touch()
            else:
                file.unlink(missing_ok=True)

    def _file(self) -> Path:
        return data_folder() / "mcp" / self._name
