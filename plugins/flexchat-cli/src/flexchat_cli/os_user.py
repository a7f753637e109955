"""The principal at the terminal: the user of the operating system."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Iterator

from flexchat import Principal
from flexchat.host import current_principal

TERMINAL_ROLE = "terminal"
"""The role of everyone who runs a command, to which ``[roles.terminal]`` grants."""


@contextlib.contextmanager
def as_os_user() -> Iterator[None]:
    """Make the operating system's user the principal of the turns, calls and listings within."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an id without a name, as in containers
        name = "unknown"
    token = current_principal.set(Principal(name, (TERMINAL_ROLE,)))
    try:
        yield
    finally:
        current_principal.reset(token)
