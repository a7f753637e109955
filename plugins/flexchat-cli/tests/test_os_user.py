"""The principal at the terminal."""

from __future__ import annotations

import getpass

import pytest
from flexchat import Principal
from flexchat.host import current_principal
from flexchat_cli.main import main
from flexchat_cli.os_user import as_os_user


def test_a_command_runs_for_the_user_of_the_system():
    """With the role of the terminal, and no other."""
    with as_os_user():
        assert current_principal.get() == Principal(getpass.getuser(), ("terminal",))

    assert current_principal.get() is None


def test_an_id_without_a_name_has_a_principal(monkeypatch):
    """As in a container without an entry in its list of users."""

    def fail():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", fail)

    with as_os_user():
        assert current_principal.get() == Principal("unknown", ("terminal",))


@pytest.mark.parametrize("words", [["--version"], ["no-such-command"]])
def test_a_program_that_runs_a_command_keeps_no_principal_of_it(words, capsys):
    """What the command was permitted ends with it."""
    main(words)

    assert capsys.readouterr() is not None
    assert current_principal.get() is None
