"""Keeping data on this machine: SQLite, opened so that nothing acknowledged is lost. A door for plugins too."""

from .folder import data_folder
from .sqlite import Database

__all__ = ["Database", "data_folder"]
