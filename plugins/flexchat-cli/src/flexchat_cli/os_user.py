"""The principal at the terminal: the user of the operating system."""

from __future__ import annotations

import getpass

from flexchat import Principal
from flexchat.host import current_principal

TERMINAL_ROLE = "terminal"
"""The role of everyone who runs a command, to which ``[roles.terminal]`` grants."""


def use_os_user() -> None:
    """Make the operating system's user the principal of this process's turns, calls and listings."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an id without a name, as in containers
        name = "unknown"
    current_principal.set(Principal(name, (TERMINAL_ROLE,)))
