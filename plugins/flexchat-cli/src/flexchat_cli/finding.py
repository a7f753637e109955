"""The search for the configuration file."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from flexchat.files import path_exists, working_folder

log = logging.getLogger(__name__)

FILE_NAMES = ("flexchat.toml", "flexchat.yaml", "flexchat.yml", "flexchat.json")
"""Default names of a configuration; the first wins."""


def find_config(
    explicit: str | Path | None = None, environ: Mapping[str, str] | None = None, cwd: str | Path | None = None
) -> Path | None:
    """Return the configuration file to use: the named one, or FLEXCHAT_CONFIG, or one in the folder.

    A folder may be named instead of a file. Of several with a default name, the first is used, with a warning in the
    log. None if there is none; something that is not a file is returned, and reading it reports that.

    Raises:
        PathError: The working folder no longer exists.
    """
    folder = Path() if cwd is None else Path(cwd)
    named = explicit or (os.environ if environ is None else environ).get("FLEXCHAT_CONFIG")
    if named:
        path = folder / named
        if not os.path.isdir(path):
            return path
        folder = path
    if not folder.is_absolute():
        working_folder()
    found = [folder / name for name in FILE_NAMES if path_exists(folder / name)]
    if len(found) > 1:
        log.warning("using %s; ignoring %s next to it", found[0], found[1].name)
    if not found and named:
        return folder / FILE_NAMES[0]  # reading it will report that it does not exist
    return found[0] if found else None
