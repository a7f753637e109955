"""Keeping data on this machine, in SQLite and files, so that nothing acknowledged is lost."""
