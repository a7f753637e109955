"""Keeping data on this machine, in SQLite and files, so that nothing acknowledged is lost. A door for plugins, too."""

from .folder import data_folder
from .replacing import replacing
from .sqlite import Database

__all__ = ["Database", "data_folder", "replacing"]
