"""A backup as a folder: a list of its files with their digests, the configuration's files, and copies of databases."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
from flexchat.errors import FlexChatError

MANIFEST = "backup.json"
FORMAT = 1
_CHUNK = 1 << 20
_MAX_MANIFEST_BYTES = 16 << 20


class BackupError(FlexChatError):
    """A backup cannot be made or restored; the text names the file and a remedy."""


@attrs.frozen(kw_only=True)
class BackedUpDatabase:
    """One database of a backup.

    Attributes:
        names: What it keeps: "conversations", "effects", "stores.docs".
        file: Its copy, relative to the backup's folder.
        version, oldest: See SchemaState.
    """

    names: tuple[str, ...]
    file: str
    version: int
    oldest: int


@attrs.frozen(kw_only=True)
class Manifest:
    """What a backup has.

    Attributes:
        made_at: ISO 8601, UTC.
        packages: Versions of the installed packages of FlexChat.
        config: The configuration's file, relative to the folder ``config`` of the backup; None without one.
        config_files: This file and those it names, relative to that folder.
        databases: In the order in which they were copied.
        left_out: What a restored server also needs, and the backup does not have.
    """

    made_at: str
    packages: Mapping[str, str]
    config: str | None
    config_files: tuple[str, ...]
    databases: tuple[BackedUpDatabase, ...]
    left_out: tuple[str, ...]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the list of everything in the folder, after all of it is on the disk."""
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
    data = {"format": FORMAT, **attrs.asdict(manifest), "files": files}
    data["sha256"] = _digest_of(data)
    with (folder / MANIFEST).open("x", encoding="utf-8") as file:
        json.dump(data, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def read_manifest(folder: Path) -> Manifest:
    """Return what a backup has, once all its files are known to be there as they were written.

    Raises:
        BackupError: The backup is not complete, or was changed. All files that differ are named.
    """
    data = _read(folder)
    files = data.pop("files")
    faults = [fault for name, facts in files.items() if (fault := _fault(folder, name, facts))]
    if faults:
        raise BackupError(f"'{folder}' cannot be restored: {'; '.join(faults)}")
    databases = tuple(BackedUpDatabase(**{**each, "names": tuple(each["names"])}) for each in data.pop("databases"))
    config_files, left_out = tuple(data.pop("config_files")), tuple(data.pop("left_out"))
    unlisted = {*(each.file for each in databases), *(f"config/{name}" for name in config_files)} - {*files}
    if unlisted:
        raise BackupError(f"'{folder}' cannot be restored: {MANIFEST} has no digest of {', '.join(sorted(unlisted))}")
    return Manifest(**data, config_files=config_files, left_out=left_out, databases=databases)


def _read(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            raise BackupError(f"'{path}' is too large to be the list of a backup's files")
        data: dict[str, Any] = json.loads(path.read_bytes())
        digest, format = data.pop("sha256"), data.pop("format")
        is_ours = digest == _digest_of({"format": format, **data})
    except FileNotFoundError:
        partial = f"; '{folder}.partial' is one that was not finished" if Path(f"{folder}.partial").exists() else ""
        raise BackupError(f"'{folder}' is no backup: it has no {MANIFEST}{partial}") from None
    except OSError as error:
        raise BackupError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise BackupError(f"'{path}' is damaged: restore another backup") from None
    if not is_ours:
        raise BackupError(f"'{path}' was changed after the backup was made: restore another backup")
    if format != FORMAT:
        raise BackupError(f"'{folder}' was made by a newer FlexChat (format {format}): update this one")
    return data


def _fault(folder: Path, name: str, facts: Mapping[str, Any]) -> str | None:
    if not is_below(name):
        return f"the name '{name}' leads out of the backup"
    path = folder / name
    try:
        if path.stat().st_size != facts["bytes"]:
            return f"{name} has {path.stat().st_size:,} of {facts['bytes']:,} bytes"
        return None if _digest(path) == facts["sha256"] else f"{name} was changed"
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        return f"{name} cannot be read: {error.strerror or error}"


def is_below(name: str) -> bool:
    """Return whether a relative path leads to a place below its folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and ":" not in name


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def different_files(source: Path, target: Path, names: Sequence[str]) -> list[str]:
    """Return the files that are in both folders, with another content in each."""
    return [name for name in names if (target / name).exists() and _digest(source / name) != _digest(target / name)]
