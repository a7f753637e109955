"""Storing keys, in the system's keyring or in files that only their owner can read; flexchat.config.keys finds them.

A key is replaced in one step, and processes that store keys at once do not disturb each other.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any, Literal

import attrs
from flexchat.config.keys import is_key_name, key_problem, keyring_marker, keys_folder, reported
from flexchat.domain.masking import remember_secret
from flexchat.errors import KeyStorageError, PathError
from flexchat.installing import how_to_install

SERVICE = "flexchat"
"""Under which the system's keyring has our keys; the user name is the variable's."""


@attrs.frozen
class StoredKey:
    """A stored key, without the key itself.

    Attributes:
        name: The variable's name: OPENAI_API_KEY.
        source: "keyring", or "file" if there is no keyring.
        file: The file that holds it, or that stands for it in the keyring.
    """

    name: str
    source: Literal["keyring", "file"]
    file: Path


def stored_keys() -> list[StoredKey]:
    """Return the stored keys by name; no key is read.

    Raises:
        KeyStorageError: Their folder cannot be read.
    """
    try:
        folder = keys_folder()
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, PathError):
        return []
    except OSError as error:
        raise KeyStorageError(f"{folder} cannot be read: {error.strerror or error}") from None
    variables = dict.fromkeys(name.removesuffix(".keyring") for name in names)
    return [key for name in variables if is_key_name(name) and (key := _locate(name)) is not None]


def store_key(name: str, value: str, *, in_file: bool = False) -> tuple[StoredKey, str | None]:
    """Store a key in place of an earlier one; return it, and why it is not in the keyring (None if it is).

    Args:
        in_file: Do not ask the keyring.

    Raises:
        KeyStorageError: The name or the value cannot be a key, or neither keyring nor file takes it.
    """
    if not is_key_name(name):
        raise KeyStorageError("a key is stored under a variable's name: 3 to 128 capital letters, digits and _")
    value = value.strip()
    if problem := key_problem(value):
        raise KeyStorageError(f"this cannot be a key: {problem}")
    remember_secret(value)
    file = keys_folder() / name
    why = "as asked for" if in_file else _write_keyring(name, value)
    with reported(file):
        if why:
            _write(file, value + "\n")
            keyring_marker(file).unlink(missing_ok=True)
            return StoredKey(name, "file", file), why
        _write(keyring_marker(file), "")
        file.unlink(missing_ok=True)
    return StoredKey(name, "keyring", keyring_marker(file)), None


def delete_key(name: str) -> StoredKey | None:
    """Delete a stored key; return it, None if there was none.

    Raises:
        KeyStorageError: It cannot be deleted.
    """
    key = _locate(name) if is_key_name(name) else None
    if key is None:
        return None
    if key.source == "keyring":
        keyring = _keyring(name)
        try:
            keyring.delete_password(SERVICE, name)
        except keyring.errors.PasswordDeleteError:
            pass  # already deleted there by another program: the goal is reached
        except Exception as error:  # noqa: BLE001  as below
            raise _silent(name, error) from None
    with reported(key.file):
        key.file.unlink(missing_ok=True)
    return key


def read_keyring(name: str) -> str:
    """Return a key from the system's keyring: the entry point ``flexchat.keyring`` of core.

    Raises:
        KeyStorageError: It is no longer there, or the keyring does not answer.
    """
    keyring = _keyring(name)
    try:
        value = keyring.get_password(SERVICE, name)
    except Exception as error:  # noqa: BLE001  as above
        raise _silent(name, error) from None
    if not isinstance(value, str) or key_problem(value):
        raise KeyStorageError(
            f"the system's keyring no longer has {name}: store it again with flexchat keys set {name}"
        )
    return value


def _locate(name: str) -> StoredKey | None:
    try:
        file = keys_folder() / name
    except PathError:  # without a home folder nothing is stored
        return None
    if os.path.lexists(file):
        return StoredKey(name, "file", file)
    marker = keyring_marker(file)
    return StoredKey(name, "keyring", marker) if os.path.lexists(marker) else None


# The keyring is optional, and its backends are foreign code: D-Bus services, programs, any installed package.


def _keyring(name: str) -> Any:
    try:
        import keyring
        import keyring.errors
    except ImportError:
        raise KeyStorageError(
            f"{name} is in the system's keyring, which needs a package: {how_to_install('flexchat-cli', 'keyring')}"
        ) from None
    return keyring


def _write_keyring(name: str, value: str) -> str | None:
    """Store a key in the keyring; return the reason if that fails, None if it is stored."""
    try:
        import keyring
    except ImportError:
        return f"the package keyring is not installed: {how_to_install('flexchat-cli', 'keyring')}"
    try:
        # The backends "fail" and "null" stand for none; the latter accepts everything and keeps nothing.
        if keyring.get_keyring().priority <= 0:
            return "this system has no keyring"
        keyring.set_password(SERVICE, name, value)
        return None if keyring.get_password(SERVICE, name) == value else "the system's keyring did not keep it"
    except Exception as error:  # noqa: BLE001  as above
        return f"the system's keyring does not take it ({type(error).__name__})"


def _silent(name: str, error: Exception) -> KeyStorageError:
    # Only the kind of error: a backend's text may contain the key.
    return KeyStorageError(
        f"the system's keyring does not give {name} ({type(error).__name__}): unlock it, or store the key again with "
        f"flexchat keys set {name} --file"
    )


def _write(file: Path, text: str) -> None:
    """Replace a file in one step; at no moment can another user read it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_name(f".{secrets.token_hex(8)}")
    try:
        # Created with the final mode: a chmod afterwards would leave a moment in which others can open it.
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w", encoding="ascii", newline="\n") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(number)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
