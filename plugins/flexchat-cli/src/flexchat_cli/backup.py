"""flexchat backup, restore and migrate: copies of all that a configuration keeps, and the steps of its schemas."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click
from flexchat.domain.text import counted

from .backup_folder import (
    BackedUpDatabase,
    BackupError,
    Manifest,
    different_files,
    is_below,
    read_manifest,
    write_manifest,
)
from .context import FAILED, OK, CommandContext, UsageError
from .parameters import FILE_NAME, argument, command

if TYPE_CHECKING:
    from flexchat.config.reading import ReadConfig
    from flexchat.databases import Databases

_WITHOUT_CONFIG = {"conversations": {"provider": "sqlite"}}
_NEVER = ("keys (flexchat keys, .env, the environment)", "token file of flexchat serve", "sessions of its page")


@command
@argument("folder", metavar="FOLDER", type=FILE_NAME, help="where to write; it must not exist")
async def backup(context: CommandContext, folder: str) -> None:
    """Copy every database and the configuration, while serving.

    Each database is copied as it was at one moment; prompts and accepted tools are part of the configuration. Secrets
    are left out, and named.
    """
    target, new = Path(folder), Path(f"{folder}.partial")
    for path in (target, new):
        if path.exists():
            raise UsageError(f"'{path}' is there already: name a new folder")
    reading = _reading(context)
    copied: list[BackedUpDatabase] = []
    async with _open(context, reading) as databases:
        # A folder of this name is complete: until then it has another one. A configuration that cannot be used has
        # none, which would be in the way of the next backup.
        os.makedirs(new, mode=0o700)
        left_out = [f"{name}: has no copy of FlexChat's; use its own tools" for name in databases.others]
        for names, database in databases.by_names.items():
            if not (await database.schema()).version:
                context.terminal.say(f"{', '.join(names)}: there is nothing yet ({database.place})", "dim")
                continue
            file = f"databases/{names[0].replace('/', '-')}"
            (new / "databases").mkdir(exist_ok=True)
            state = await database.copy_to(new / file)
            copied.append(BackedUpDatabase(names=names, file=file, version=state.version, oldest=state.oldest))
    config, files, missing = _copy_config(reading, new / "config")
    manifest = Manifest(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        packages={each.name: each.version for each in distributions() if each.name.startswith("flexchat")},
        config=config,
        config_files=tuple(files),
        databases=tuple(copied),
        left_out=(*left_out, *missing, *_NEVER),
    )
    write_manifest(new, manifest)
    _sync(new)
    os.rename(new, target)
    text = f"{counted(len(copied), 'database')} and {counted(len(files), 'file')} written to {folder}"
    context.show(attrs.asdict(manifest), f"{text}; not in it: {'; '.join(manifest.left_out)}")


@command
@argument("backup", metavar="BACKUP", type=FILE_NAME, help="the folder that flexchat backup has written")
@click.option("--to", metavar="FOLDER", type=FILE_NAME, help="where the configuration goes (default: this folder)")
@click.option("--data", is_flag=True, help="the databases only, to the places that the present configuration names")
@click.option("--check", "is_check", is_flag=True, help="verify the backup, and change nothing")
async def restore(context: CommandContext, backup: str, to: str | None, data: bool, is_check: bool) -> None:
    """Verify a backup, and put it back.

    Nothing is overwritten. Stop every server and worker before. Turns that had not ended in the backup wait for
    flexchat turns resume: what they did afterwards is unknown.
    """
    if data and to is not None:
        raise UsageError("--to is where the configuration goes, and --data restores none: use only one of them")
    source, target = Path(backup), Path(to or "")
    manifest = read_manifest(source)
    if is_check:
        text = f"{backup} is complete: {counted(len(manifest.databases), 'database')}, made at {manifest.made_at}"
        context.show(attrs.asdict(manifest), text)
        return
    files = [] if data or manifest.config is None else [*manifest.config_files]
    if different := different_files(source / "config", target, files):
        names = ", ".join(f"'{target / name}'" for name in different)
        raise BackupError(f"{names}: another content is there already; --to names another folder, or move it away")
    # Written before the databases are opened: where those are is in the configuration.
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / "config" / name, target / name)
    reading = _reading(context, target / manifest.config if files and manifest.config else None)
    async with _open(context, reading) as databases:
        places = {name: database for names, database in databases.by_names.items() for name in names}
        if unknown := [each.names[0] for each in manifest.databases if each.names[0] not in places]:
            raise BackupError(f"the configuration has no place for {', '.join(unknown)}, which the backup has")
        for each in manifest.databases:
            await places[each.names[0]].check_copy(source / each.file)
        for each in manifest.databases:
            await places[each.names[0]].restore(source / each.file)
            context.terminal.say(f"{', '.join(each.names)}: {places[each.names[0]].place}", "dim")
    text = f"restored as of {manifest.made_at}; flexchat turns list --interrupted shows what waits for you"
    context.show(attrs.asdict(manifest), f"{text}; also needed: {'; '.join(manifest.left_out)}")


@command
@click.option("--check", "is_check", is_flag=True, help="change nothing; exit status 1: steps are missing")
async def migrate(context: CommandContext, is_check: bool) -> int:
    """Bring the schemas of the databases up to date.

    Without it, the first process that uses a database does them.
    """
    rows, status = [], OK
    async with _open(context, _reading(context)) as databases:
        for names, database in databases.by_names.items():
            state = await database.schema()
            what = "nothing to do"
            if not state.is_usable:
                what, status = "made by a newer FlexChat: update this one", FAILED
            elif state.is_behind and is_check:
                what, status = f"{counted(state.newest - state.version, 'step')} missing", FAILED
            elif state.is_behind:
                await database.migrate()
                what = f"{counted(state.newest - state.version, 'step')} done"
            rows.append((", ".join(names), database.place, f"{state.version} of {state.newest}", what))
    head = ("name", "place", "steps", "state")
    context.show_rows([dict(zip(head, row, strict=True)) for row in rows], head, rows, "there is no database")
    return status


def _reading(context: CommandContext, file: Path | None = None) -> ReadConfig:
    from flexchat.config.reading import read_config

    reading = read_config(file) if file is not None else context.read_config()
    # Read again: opening the databases adds to it.
    return read_config(reading if reading is not None else _WITHOUT_CONFIG)


@contextlib.asynccontextmanager
async def _open(context: CommandContext, reading: ReadConfig) -> AsyncIterator[Databases]:
    from flexchat.databases import open_databases

    async with open_databases(reading, context.load_plugins(reading)) as databases:
        yield databases


def _copy_config(reading: ReadConfig, folder: Path) -> tuple[str | None, list[str], list[str]]:
    """Copy a configuration's files; return its own, all of them, and what is left out."""
    if reading.path is None:
        return None, [], []
    from flexchat.config.check import written_secrets
    from flexchat.config.including import with_included
    from flexchat_sdk.sources.settings import lock_file

    assert reading.config is not None, "its databases were opened"
    root, contents = (
        Path(os.path.realpath(reading.document.folder)),
        {reading.path: reading.written.content, **reading.document.others},
    )
    lock = lock_file(reading.document.folder, reading.path, reading.config.tools)
    with contextlib.suppress(FileNotFoundError):
        contents[lock] = lock.read_bytes()
    secrets = {value for _, value in written_secrets(with_included(reading.written))}
    names, missing = [], []
    for path, content in contents.items():
        name = Path(os.path.relpath(os.path.realpath(path), root)).as_posix()
        if not is_below(name):
            missing.append(f"'{path}', which is outside of the configuration's folder")
            continue
        for secret in sorted(secrets, key=len, reverse=True):
            if secret.encode() in content:
                content = content.replace(secret.encode(), b"${FLEXCHAT_LEFT_OUT}")
                missing.append(f"a secret that is written in {name}: ${{FLEXCHAT_LEFT_OUT}} is in its place")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        names.append(name)
    return names[0] if names else None, names, missing


def _sync(folder: Path) -> None:
    """Write everything in a folder to the disk, before it gets the name of a complete backup."""
    for path in [*folder.rglob("*"), folder]:
        if os.name == "posix" or path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
