"""Keys of services: from the environment, or stored by ``flexchat keys set``.

Each stored key has a file of its own in FLEXCHAT_DATA/keys, named like its variable: NAME holds the key; NAME.keyring
is empty and means that the system's keyring has it. So a keyring is read only for a key it has.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..domain.masking import remember_secret
from ..errors import KeyStorageError, PathError
from ..files import data_folder
from ..installing import how_to_install

KEYRING_GROUP = "flexchat.keyring"
"""Entry point of the function that reads a key from the system's keyring, found before plugins are loaded."""
MIN_CHARS = 8  # characters: a shorter key could not be masked without hiding ordinary words
MAX_CHARS = 16_384

_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,127}")


def key_for(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the key that one of these variables has, with its name: in the environment, or else stored.

    The only look-up for keys that the configuration does not contain. The caller decides where it is sent: only
    to the service it belongs to, never to an address that came from somewhere else. Raises as stored_key.
    """
    for name in names:
        if value := os.environ.get(name, "").strip():
            return name, value
    for name in names:
        if stored := stored_key(name):
            return name, stored
    return None


def variable_value(name: str) -> str | None:
    """Return the value of ``${NAME}``: the environment's, or else the stored key. Raises as stored_key."""
    value = os.environ.get(name)
    return stored_key(name) if value is None else value


def is_key_name(name: str) -> bool:
    """Return whether a key can be stored under this name: capital letters, digits and _, as in variable names."""
    return _NAME.fullmatch(name) is not None


def stored_key(name: str) -> str | None:
    """Return the key stored under a variable's name; None if there is none. It is masked in all texts from now on.

    Raises:
        KeyStorageError: It is there and cannot be read: others may read its file, or the keyring does not answer.
    """
    if not is_key_name(name):
        return None
    try:
        file = keys_folder() / name
    except PathError:  # without a home folder nothing is stored
        return None
    if os.path.lexists(file):
        value = _read_file(file)
    elif os.path.lexists(keyring_marker(file)):
        value = _read_keyring(name)
    else:
        return None
    remember_secret(value)
    return value


def keys_folder() -> Path:
    """Return the folder of the stored keys; raise PathError if this user's home folder is unknown."""
    return data_folder() / "keys"


def keyring_marker(file: Path) -> Path:
    """Return the empty file that stands for a key in the system's keyring, in place of the key's file."""
    return file.with_name(f"{file.name}.keyring")


def key_problem(value: str) -> str | None:
    """Return the reason a text cannot be a key; None if it can."""
    if len(value) < MIN_CHARS:
        return f"it has fewer than {MIN_CHARS} characters" if value else "it is empty"
    if len(value) > MAX_CHARS:
        return f"it has more than {MAX_CHARS:,} characters"
    if not (value.isascii() and value.isprintable()):
        return "it contains a line break or a character no key has; copy it again"
    return None


def _read_keyring(name: str) -> str:
    for entry in importlib.metadata.entry_points(group=KEYRING_GROUP):
        value: str = entry.load()(name)
        return value
    raise KeyStorageError(
        f"{name} is in the system's keyring, which needs a package: {how_to_install('flexchat-cli', 'keyring')}"
    )


def _read_file(file: Path) -> str:
    """Return a key from its file, which must be this user's and readable by no one else; otherwise KeyStorageError."""
    with reported(file):
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        number = os.open(file, flags)
        try:
            _refuse_unsafe(os.fstat(number), file)
            content = os.read(number, MAX_CHARS + 2)
        finally:
            os.close(number)
    value = content.decode("utf-8", "replace").strip()
    if problem := key_problem(value):
        raise KeyStorageError(f"{file} holds no key: {problem}; flexchat keys set {file.name} stores it again")
    return value


def _refuse_unsafe(status: os.stat_result, file: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyStorageError(f"{file} is not a file: remove it, and store the key with flexchat keys set {file.name}")
    if os.name == "nt":  # there, rights are inherited from the user's folder
        return
    if status.st_uid != os.geteuid():
        raise KeyStorageError(f"{file} belongs to another user: sudo chown {os.geteuid()} '{file}'")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise KeyStorageError(f"{file} may be read or changed by others (mode {mode:04o}): chmod 600 '{file}'")


@contextlib.contextmanager
def reported(file: Path) -> Iterator[None]:
    """Raise KeyStorageError, with the file's name, for an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise KeyStorageError(f"{file} cannot be used: {error.strerror or error}") from None
