"""Keys come from the environment or from files that only their owner can read."""

import importlib.metadata

import pytest
from flexchat.config.keys import key_for, stored_key
from flexchat.errors import KeyStorageError

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def keys(data_folder, monkeypatch):
    """The folder of the stored keys."""
    monkeypatch.delenv("ACME_KEY", raising=False)
    folder = data_folder / "keys"
    folder.mkdir(mode=0o700, parents=True)
    return folder


def test_a_key_is_read_from_its_file(keys, monkeypatch):
    """Unless the environment has one."""
    (keys / "ACME_KEY").touch(0o600)
    (keys / "ACME_KEY").write_text(f"{KEY}\n")

    assert key_for(["ACME_KEY"]) == ("ACME_KEY", KEY)
    monkeypatch.setenv("ACME_KEY", "other")
    assert key_for(["ACME_KEY"]) == ("ACME_KEY", "other")


def test_a_keyring_is_read_through_the_package_that_does_so(keys, monkeypatch):
    """By an entry point, for a key that is there; without the package, the error names it."""
    (keys / "ACME_KEY.keyring").touch(0o600)
    entry = importlib.metadata.EntryPoint("keyring", "builtins:str.lower", "flexchat.keyring")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [entry] * (group == entry.group))
    assert stored_key("ACME_KEY") == "acme_key"
    assert stored_key("ACME_TOKEN") is None

    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [])
    with pytest.raises(KeyStorageError, match=r"ACME_KEY is in the system's keyring.*flexchat-cli\[keyring\]"):
        stored_key("ACME_KEY")
