"""Keys are stored where only their owner reads them, and come after the configuration and the environment."""

import multiprocessing
import os
import stat
import sys

import keyring
import keyring.backend
import keyring.errors
import pytest
from flexchat.config import keys
from flexchat.config.keys import key_for, stored_key, variable_value
from flexchat.domain.masking import Mask, secrets_of_environment
from flexchat.errors import KeyStorageError
from flexchat.installing import how_to_install
from flexchat_cli.stored_keys import delete_key, store_key, stored_keys
from hypothesis import given
from hypothesis import strategies as st
from keyring.backends import fail, null

KEY = "sk-very-secret-0123456789"
posix_only = pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")


class Memory(keyring.backend.KeyringBackend):
    """A keyring in this process."""

    priority = 5

    def __init__(self):
        super().__init__()
        self.kept = {}

    def get_password(self, service, username):
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password

    def delete_password(self, service, username):
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError("none")


class Locked(Memory):
    """A keyring nobody unlocks; its error tells too much."""

    def get_password(self, service, username):
        raise keyring.errors.KeyringLocked(f"locked, and the key is {KEY}")

    def set_password(self, service, username, password):
        raise keyring.errors.KeyringLocked(f"locked, cannot set {password}")


class Forgetful(Memory):
    """A keyring that keeps nothing and says nothing."""

    def set_password(self, service, username, password):
        pass


@pytest.fixture
def use():
    """Make a keyring the system's."""
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """Only what a test sets."""
    for name in ("OPENAI_API_KEY", "ACME_KEY", "ACME_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_a_key_goes_into_the_keyring(use, data_folder):
    """And no file contains it."""
    memory = Memory()
    use(memory)

    stored, why = store_key("ACME_KEY", f" {KEY}\n")

    assert (stored.source, why) == ("keyring", None)
    assert memory.kept == {("flexchat", "ACME_KEY"): KEY}
    assert stored_key("ACME_KEY") == KEY
    assert [(each.name, each.source) for each in stored_keys()] == [("ACME_KEY", "keyring")]
    assert all(KEY.encode() not in file.read_bytes() for file in data_folder.rglob("*") if file.is_file())

    assert delete_key("ACME_KEY").source == "keyring"
    assert (memory.kept, stored_keys(), delete_key("ACME_KEY")) == ({}, [], None)


@pytest.mark.parametrize("backend", [fail.Keyring, null.Keyring, Forgetful, Locked])
def test_without_a_keyring_a_file_is_used_and_the_reason_said(backend, use, data_folder):
    """Also if a backend pretends; only its owner may read the file."""
    use(backend())

    stored, why = store_key("ACME_KEY", KEY)

    assert stored.source == "file"
    assert why
    assert KEY not in why
    assert stored_key("ACME_KEY") == KEY
    if os.name != "nt":
        assert stat.S_IMODE(stored.file.stat().st_mode) == 0o600
        assert stat.S_IMODE(stored.file.parent.stat().st_mode) == 0o700
    assert [file.name for file in data_folder.rglob("*") if file.is_file()] == ["ACME_KEY"]


def test_without_the_package_a_file_is_used(monkeypatch):
    """It is optional; a key that is in the keyring then says what to install."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    stored, why = store_key("ACME_KEY", KEY)
    assert stored.source == "file"
    assert how_to_install("flexchat-cli", "keyring") in why

    stored.file.rename(stored.file.with_name("ACME_KEY.keyring"))
    with pytest.raises(KeyStorageError, match=r"ACME_KEY is in the system's keyring.*flexchat-cli\[keyring\]"):
        stored_key("ACME_KEY")


def test_a_file_is_used_if_asked_for_and_a_key_is_in_one_place(use):
    """Whichever was last."""
    use(Memory())
    store_key("ACME_KEY", KEY)
    assert store_key("ACME_KEY", KEY + "2", in_file=True)[0].source == "file"
    assert stored_key("ACME_KEY") == KEY + "2"
    assert store_key("ACME_KEY", KEY + "3")[0].source == "keyring"
    assert stored_key("ACME_KEY") == KEY + "3"
    assert len(stored_keys()) == 1


def test_a_keyring_that_does_not_answer_is_an_error_without_its_words(use):
    """A backend's text may contain anything."""
    use(Memory())
    store_key("ACME_KEY", KEY)
    use(Locked())

    with pytest.raises(KeyStorageError, match="unlock it, or store the key again") as caught:
        stored_key("ACME_KEY")
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None

    use(Memory())
    with pytest.raises(KeyStorageError, match="no longer has ACME_KEY"):
        stored_key("ACME_KEY")


@posix_only
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o606, 0o601])
def test_a_file_that_others_may_use_is_refused_with_the_command_that_mends_it(mode):
    """As ssh does."""
    file = store_key("ACME_KEY", KEY, in_file=True)[0].file
    file.chmod(mode)

    with pytest.raises(KeyStorageError, match=rf"ACME_KEY may be read .*mode {mode:04o}.*: chmod 600 '") as caught:
        stored_key("ACME_KEY")

    assert os.system(str(caught.value).rpartition(": ")[2]) == 0
    assert stored_key("ACME_KEY") == KEY


@posix_only
def test_what_is_not_a_plain_file_is_refused(tmp_path):
    """A link, a folder, a pipe nobody writes to, an empty file: none of them hangs or is followed."""
    file = store_key("ACME_KEY", KEY, in_file=True)[0].file
    elsewhere = tmp_path / "elsewhere"
    for make in (
        lambda: file.symlink_to(elsewhere),
        file.mkdir,
        lambda: os.mkfifo(file, 0o600),
        lambda: file.touch(0o600),
        lambda: file.write_bytes(b"\xff" * 40),
    ):
        elsewhere.write_text(KEY)
        file.unlink()
        make()
        if file.is_file() and not file.is_symlink():
            file.chmod(0o600)
        with pytest.raises(KeyStorageError):
            stored_key("ACME_KEY")
        if file.is_dir():
            file.rmdir()
            file.touch()


@given(st.text(max_size=140))
def test_a_hostile_name_stores_nothing(name):
    """Nothing that is not a variable's name becomes a file's."""
    if not keys.is_key_name(name):
        with pytest.raises(KeyStorageError, match="a variable's name"):
            store_key(name, KEY)
        assert stored_key(name) is None
        assert delete_key(name) is None


@pytest.mark.parametrize("name", ["", "../X", "A/B", "A.B", "abc", "A" * 129, "ÄBC", "ABC\n", "CON .", "A\0BC"])
def test_names_that_are_none(name):
    """The likely ones."""
    assert not keys.is_key_name(name)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "is empty"),
        ("short", "fewer than 8"),
        ("x" * 20_000, "more than 16,384"),
        ("12345678\x0090", "copy it"),
        ("zwölf-zeichen", "copy it"),
        ("first-line\nsecond-line", "line break"),
    ],
)
def test_values_that_are_no_keys(value, why):
    """Said without the value."""
    with pytest.raises(KeyStorageError, match=why) as caught:
        store_key("ACME_KEY", value)
    assert not value or value not in str(caught.value)
    assert stored_keys() == []
    assert not value or value not in secrets_of_environment()  # a word such as "password" would be masked everywhere


def test_the_environment_comes_before_stored_keys(monkeypatch):
    """All variables of the environment first; an empty one is not set."""
    store_key("ACME_KEY", KEY, in_file=True)
    monkeypatch.setenv("ACME_TOKEN", "from-environment")
    assert key_for(("ACME_KEY", "ACME_TOKEN")) == ("ACME_TOKEN", "from-environment")
    monkeypatch.setenv("ACME_TOKEN", " ")
    assert key_for(("ACME_KEY", "ACME_TOKEN")) == ("ACME_KEY", KEY)
    assert key_for(()) is None
    assert variable_value("ACME_KEY") == KEY
    monkeypatch.setenv("ACME_KEY", "other")
    assert variable_value("ACME_KEY") == "other"


def test_a_stored_key_is_masked_once_it_is_known():
    """In everything that masks the environment's secrets."""
    store_key("ACME_KEY", "plain words without form", in_file=True)
    assert stored_key("ACME_KEY") in secrets_of_environment()
    assert Mask(secrets_of_environment())("got plain words without form.") == "got ***."


def _store_many(folder, letter):
    os.environ["FLEXCHAT_DATA"] = folder
    for number in range(40):
        store_key("ACME_KEY", f"{letter * 4000}", in_file=True)
        store_key(f"ACME_{letter.upper()}_{number}", KEY, in_file=True)


@pytest.mark.slow
def test_two_processes_store_at_once(data_folder):
    """Each key is whole: one or the other, never a mixture; none of the different ones is lost."""
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_store_many, args=(str(data_folder), letter)) for letter in "ab"]
    for process in both:
        process.start()
    seen = set()
    while any(process.is_alive() for process in both):
        seen.add(stored_key("ACME_KEY"))
    for process in both:
        process.join()

    assert [process.exitcode for process in both] == [0, 0]
    assert seen <= {None, "a" * 4000, "b" * 4000}
    assert len(stored_keys()) == 81
    assert {file.name[0] for file in (data_folder / "keys").iterdir()} == {"A"}  # no half-written file is left
