"""Keys of services: from the environment, or stored with ``flexchat keys set`` in the system's keyring or in files.

Each stored key has a file of its own in FLEXCHAT_DATA/keys, named like its variable: NAME holds the key, NAME.keyring
is empty and means that the system's keyring has it. So the keyring is imported only for a key it has, a key is replaced
in one step, and processes that store keys at once do not disturb each other.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from ..domain.masking import remember_secret
from ..errors import KeyStorageError, PathError
from ..files import data_folder
from ..installing import how_to_install

SERVICE = "flexchat"
"""Under which the system's keyring has our keys; the user name is the variable's."""
MIN_CHARS = 8
"""Characters: a shorter key could not be masked without hiding ordinary words."""
MAX_CHARS = 16_384

_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,127}")
_IN_KEYRING = ".keyring"

Place = Literal["keyring", "file"]


@attrs.frozen
class StoredKey:
    """The place of a stored key, without the key itself.

    Attributes:
        name: The variable's name: OPENAI_API_KEY.
        place: "keyring", or "file" if there is no keyring.
        file: The file that holds it, or that records its place in the keyring.
    """

    name: str
    place: Place
    file: Path


def key_for(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the key that one of these variables has, with its name: in the environment, or else stored.

    The only look-up for keys that the configuration does not contain. The caller decides where it is sent: only
    to the service it belongs to, never to an address that came from somewhere else.

    Raises:
        KeyStorageError: A stored key cannot be read.
    """
    for name in names:
        if value := os.environ.get(name, "").strip():
            return name, value
    for name in names:
        if stored := stored_key(name):
            return name, stored
    return None


def variable_value(name: str) -> str | None:
    """Return the value of a configuration's ``${NAME}``: the environment's, or else the stored key.

    Raises:
        KeyStorageError: The stored key cannot be read.
    """
    found = os.environ.get(name)
    return found if found is not None else stored_key(name)


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
    found = _locate(name)
    if found is None:
        return None
    value = _read_keyring(name) if found.place == "keyring" else _read_file(found.file)
    remember_secret(value)
    return value


def stored_keys() -> list[StoredKey]:
    """Return the stored keys by name; no key is read.

    Raises:
        KeyStorageError: Their folder cannot be read.
    """
    try:
        names = sorted(os.listdir(_folder()))
    except (FileNotFoundError, PathError):
        return []
    except OSError as error:
        raise KeyStorageError(f"{_folder()} cannot be read: {error.strerror or error}") from None
    known = dict.fromkeys(name.removesuffix(_IN_KEYRING) for name in names)
    return [found for name in known if is_key_name(name) and (found := _locate(name)) is not None]


def store_key(name: str, value: str, *, in_file: bool = False) -> tuple[StoredKey, str]:
    """Store a key in place of an earlier one; return where it is now, and why not in the keyring (empty if it is).

    Args:
        in_file: Do not ask the keyring.

    Raises:
        KeyStorageError: The name or the value cannot be a key, or neither place takes it.
    """
    if not is_key_name(name):
        raise KeyStorageError("a key is stored under a variable's name: 3 to 128 capital letters, digits and _")
    value = value.strip()
    if trouble := _trouble(value):
        raise KeyStorageError(f"this cannot be a key: {trouble}")
    remember_secret(value)
    file = _folder() / name
    why = "as asked for" if in_file else _write_keyring(name, value)
    with _in_words(file):
        if why:
            _write(file, value + "\n")
            _remove(_marker(file))
            return StoredKey(name, "file", file), why
        _write(_marker(file), "")
        _remove(file)
    return StoredKey(name, "keyring", _marker(file)), ""


def delete_key(name: str) -> StoredKey | None:
    """Delete a stored key; return where it was, None if there was none.

    Raises:
        KeyStorageError: It cannot be deleted.
    """
    found = _locate(name) if is_key_name(name) else None
    if found is None:
        return None
    if found.place == "keyring":
        keyring = _keyring(name)
        try:
            keyring.delete_password(SERVICE, name)
        except keyring.errors.PasswordDeleteError:
            pass  # already deleted there by another program: the goal is reached
        except Exception as error:  # noqa: BLE001  as below
            raise _silent(name, error) from None
    with _in_words(found.file):
        _remove(found.file)
    return found


def _folder() -> Path:
    return data_folder() / "keys"


def _marker(file: Path) -> Path:
    return file.with_name(file.name + _IN_KEYRING)


def _locate(name: str) -> StoredKey | None:
    try:
        file = _folder() / name
    except PathError:  # without a home folder nothing is stored
        return None
    if os.path.lexists(file):
        return StoredKey(name, "file", file)
    return StoredKey(name, "keyring", _marker(file)) if os.path.lexists(_marker(file)) else None


def _trouble(value: str) -> str:
    if len(value) < MIN_CHARS:
        return f"it has fewer than {MIN_CHARS} characters" if value else "it is empty"
    if len(value) > MAX_CHARS:
        return f"it has more than {MAX_CHARS:,} characters"
    if not (value.isascii() and value.isprintable()):
        return "it contains a line break or a character no key has; copy it again"
    return ""


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


def _read_keyring(name: str) -> str:
    keyring = _keyring(name)
    try:
        value = keyring.get_password(SERVICE, name)
    except Exception as error:  # noqa: BLE001  as above
        raise _silent(name, error) from None
    if not isinstance(value, str) or _trouble(value):
        raise KeyStorageError(
            f"the system's keyring no longer has {name}: store it again with flexchat keys set {name}"
        )
    return value


def _write_keyring(name: str, value: str) -> str:
    """Store a key in the keyring; return the reason if that fails, empty if it is stored."""
    try:
        import keyring
    except ImportError:
        return f"the package keyring is not installed: {how_to_install('flexchat-cli', 'keyring')}"
    try:
        # The backends "fail" and "null" stand for none; the latter accepts everything and keeps nothing.
        if keyring.get_keyring().priority <= 0:
            return "this system has no keyring"
        keyring.set_password(SERVICE, name, value)
        return "" if keyring.get_password(SERVICE, name) == value else "the system's keyring did not keep it"
    except Exception as error:  # noqa: BLE001  as above
        return f"the system's keyring does not take it ({type(error).__name__})"


def _silent(name: str, error: Exception) -> KeyStorageError:
    # Only the kind of error: a backend's text may contain the key.
    return KeyStorageError(
        f"the system's keyring does not give {name} ({type(error).__name__}): unlock it, or store the key again with "
        f"flexchat keys set {name} --file"
    )


def _read_file(file: Path) -> str:
    """Return a key from its file.

    Raises:
        KeyStorageError: It is not a file of this user readable by no other, or holds no key.
    """
    with _in_words(file):
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        number = os.open(file, flags)
        try:
            _refuse_unsafe(os.fstat(number), file)
            content = os.read(number, MAX_CHARS + 2)
        finally:
            os.close(number)
    value = content.decode("utf-8", "replace").strip()
    if trouble := _trouble(value):
        raise KeyStorageError(f"{file} holds no key: {trouble}; flexchat keys set {file.name} stores it again")
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


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)


@contextlib.contextmanager
def _in_words(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KeyStorageError(f"{file} cannot be used: {error.strerror or error}") from None
