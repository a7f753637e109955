"""flexchat tokens …: the lines of a token file, with hashes in place of tokens."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import flexchat_cli as cli
from flexchat import ConfigError
from flexchat.host import did_you_mean
from flexchat.store import replacing
from flexchat_cli import CommandContext, UsageError
from flexchat_sdk import lock_folder

from ..token_file import (
    HASH,
    MAX_ENDS_CHARS,
    TokenFileError,
    TokenLine,
    describe_unknown,
    digest_of,
    read_time,
    read_token_file,
)

ID_CHARS = 12
"""Of a digest: enough to name a token."""

_WORD = re.compile(r"[^\s=#][^\s=]*")
_DAYS = re.compile(r"([1-9][0-9]{0,4})d")

_file = click.option(
    "--token-file", "file", metavar="FILE", type=cli.FILE_NAME, required=True, help="the token file of flexchat serve"
)


@click.command
@cli.argument("tenant", help="whose conversations it may see")
@cli.argument("roles", nargs=-1, help="names of tables in [roles]")
@_file
@click.option("--user", metavar="NAME", type=cli.TEXT, help="whom it stands for; default: a name made of its hash")
@click.option("--expires", metavar="WHEN", type=cli.TEXT, help="2027-01-31, 2027-01-31T18:00:00+00:00, or 90d for days")
@click.pass_obj
def add(
    context: CommandContext, tenant: str, roles: tuple[str, ...], file: str, user: str | None, expires: str | None
) -> None:
    """Make a token, print it once, and add its hash to a token file.

    A running server reads the file again. The file is created if it is missing, readable by its owner only.
    """
    for what, word in (("tenant", tenant), *(("role", role) for role in roles), ("user", user or "x")):
        if not _WORD.fullmatch(word) or not word.isprintable():
            raise UsageError(f"'{word[:60]}' cannot be a {what}: it is one word, without '='")
    token = secrets.token_urlsafe(32)
    words = [tenant, HASH + digest_of(token), *roles, *([f"user={user}"] if user else [])]
    words += [f"expires={_end(expires)}"] if expires else []
    with _changing(Path(file), creates=True) as lines:
        lines.append(" ".join([*words, f"ends={token[-MAX_ENDS_CHARS:]}"]))
    configured = _configured_roles(context) if roles else None
    for role in roles:
        if configured is not None and role not in configured:
            context.terminal.say(f"note: {describe_unknown(role, configured)}", "dim")
    if context.json:
        context.terminal.json({"id": digest_of(token)[:ID_CHARS], "token": token})
        return
    context.terminal.out(token)
    context.terminal.say(f"this token is shown only now; {file} has its hash", "dim")


@click.command("list")
@_file
@click.pass_obj
def list_(context: CommandContext, file: str) -> None:
    """List the tokens of a token file by their hashes."""
    rows = [_row(line) for line in read_token_file(Path(file))]
    if context.json:
        context.terminal.json(rows)
        return
    for row in rows:
        ends = f"…{row['ends']}" if row["ends"] else ""
        until = row["expires"] and f"{'expired' if row['has_expired'] else 'expires'} {row['expires']}"
        facts = (row["id"], ends, row["tenant"], row["user"], ", ".join(row["roles"]), until)
        stored = "" if row["is_hashed"] else "(stored in plain text)"
        context.terminal.out("  ".join(filter(None, (*facts, stored))))
    if not rows:
        context.terminal.say(f"{file} contains no token", "dim")


@click.command
@cli.argument("id", metavar="ID", help="its id in flexchat tokens list, or the start of it")
@_file
@click.pass_obj
def remove(context: CommandContext, id: str, file: str) -> None:
    """Remove a token from a token file.

    A running server reads the file again, and ends the token's sessions and streams.
    """
    with _changing(Path(file)) as lines:
        tokens = read_token_file(Path(file))
        matches = [line for line in tokens if line.digest.startswith(id)]
        if len(matches) != 1 or not id:
            hint = did_you_mean(id, [line.digest[:ID_CHARS] for line in tokens])
            text = "several tokens" if len(matches) > 1 else "no token"
            raise UsageError(f"{file}: {text} with the id '{id[:64]}'{hint or ': flexchat tokens list shows the ids'}")
        del lines[matches[0].number - 1]
    context.terminal.say(f"the token {matches[0].digest[:ID_CHARS]} is removed from {file}", "dim")


def _configured_roles(context: CommandContext) -> list[str] | None:
    """Return the names of the configuration's roles; None if it has none, or cannot be read."""
    try:
        roles = context.config_data().get("roles")
    except ConfigError:
        return None
    return [*roles] if isinstance(roles, Mapping) else None


def _row(line: TokenLine) -> dict[str, Any]:
    identity = line.identity
    assert identity.principal is not None
    until = identity.expires_at
    return {
        "id": line.digest[:ID_CHARS],
        "ends": line.ends,
        "tenant": identity.tenant,
        "user": identity.principal.name,
        "roles": [*identity.principal.roles],
        "expires": None if until is None else _iso(until),
        "has_expired": identity.has_expired,
        "is_hashed": not line.token,
    }


def _end(text: str) -> str:
    try:
        if match := _DAYS.fullmatch(text):
            return _iso(time.time() + int(match[1]) * 86_400)
        if read_time(text) <= time.time():
            raise UsageError(f"--expires {text}: that is in the past")
    except ValueError as error:
        raise UsageError(f"--{error}, or 90d".replace("--expires=", "--expires ", 1)) from None
    return text


def _iso(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def _changing(file: Path, *, creates: bool = False) -> Iterator[list[str]]:
    """Yield the lines of a token file, to be changed in place; no other program changes them meanwhile.

    Raises:
        TokenFileError: It cannot be used or written; it stays as before.
    """
    try:
        file = Path(os.path.realpath(file))
        with lock_folder(file.parent):
            if creates and not file.exists():
                os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            read_token_file(file)
            lines = file.read_text("utf-8-sig").splitlines()
            yield lines
            facts = file.stat()
            with replacing(file) as new:
                with contextlib.suppress(OSError, AttributeError):  # root writes for the server's user
                    os.fchown(new.fileno(), facts.st_uid, facts.st_gid)
                new.write("".join(f"{line}\n" for line in lines))
            read_token_file(file)
    except OSError as error:
        raise TokenFileError(f"{file}: {error.strerror or error}") from None
