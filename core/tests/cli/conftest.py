"""Running a command line in process, in an empty folder."""

from command_line import run, script, somewhere_empty

__all__ = ["run", "script", "somewhere_empty"]
