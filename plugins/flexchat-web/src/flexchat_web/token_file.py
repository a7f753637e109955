"""The token file: TENANT TOKEN ROLE… in each line, where a token may be replaced by its hash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from flexchat import Principal
from flexchat.host import counted, did_you_mean, read_file
from flexchat.plugin import FlexChatError

from .identity import Identity

HASH = "sha256:"
MIN_TOKEN = 16
MAX_BYTES = 1 << 20
MAX_PROBLEMS = 20
"""Lines that an error names."""

MAX_ENDS_CHARS = 4
"""How much of a token the file may show."""

_KEYS = ("user", "expires", "ends")
_UNUSABLE = f"a token has at least {MIN_TOKEN} ASCII characters and no spaces"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class TokenFileError(FlexChatError):
    """The token file cannot be used; the text names the file and the lines."""

    exit_status = 2


@attrs.frozen(kw_only=True)
class TokenLine:
    """A line of the file.

    Attributes:
        number: Of the line, from 1.
        token: The token itself; empty if the file has its hash.
        ends: Its last characters, for people.
    """

    number: int
    identity: Identity
    token: str = attrs.field(default="", repr=False)
    ends: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the token, 64 hexadecimal digits."""
        return self.identity.token_digest


def digest_of(token: str) -> str:
    """Return the SHA-256 of a token. It needs no salt: a token of 256 random bits cannot be found by trying."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def require_token(token: str, place: str) -> str:
    """Return a token that can be used.

    Raises:
        TokenFileError: It is too short, or has characters that no header carries.
    """
    if not _is_usable(token):
        raise TokenFileError(f"{place}: {_UNUSABLE}")
    return token


def read_token_file(file: Path) -> tuple[TokenLine, ...]:
    """Read all lines of a token file.

    Raises:
        TokenFileError: It cannot be read, or lines cannot: its text has a line for each.
    """
    try:
        lines = read_file(file, most=MAX_BYTES).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise TokenFileError(f"--token-file {file}: {reason}") from None
    read: dict[str, TokenLine] = {}
    problems = []
    for number, text in enumerate(lines, 1):
        words = text.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            line = _read_line(number, words)
            if line.digest in read:
                raise ValueError(f"this token is already in line {read[line.digest].number}")
            read[line.digest] = line
        except ValueError as error:
            problems.append(f"{file}:{number}: {error}")
    if problems:
        more = len(problems) - MAX_PROBLEMS
        problems[MAX_PROBLEMS:] = [f"{file}: {counted(more, 'more line')} cannot be read"] if more > 0 else []
        raise TokenFileError("\n".join(problems))
    return tuple(read.values())


def unknown_roles(lines: Iterable[TokenLine], roles: Collection[str]) -> dict[str, int]:
    """Return the roles of tokens that a configuration does not have, each with the first line that names it."""
    unknown: dict[str, int] = {}
    for line in lines:
        assert line.identity.principal is not None
        for role in {*line.identity.principal.roles} - {*roles}:
            unknown.setdefault(role, line.number)
    return unknown


def describe_unknown(role: str, roles: Collection[str]) -> str:
    """Return the sentence about a role that a configuration does not have."""
    hint = did_you_mean(role, roles) or f" (roles: {', '.join(roles) or 'none'})"
    return f"no role is called '{role}'{hint}: it grants nothing"


def check_token_file(read: Any, name: str) -> None:
    """Report a configured token file that cannot be used, and note its roles that the configuration does not have."""
    file, at = (read.document.folder or Path()) / Path(name).expanduser(), ("serve", "token_file")
    try:
        lines = read_token_file(file)
    except TokenFileError as error:
        read.problem(at, str(error).removeprefix("--token-file "))
        return
    roles = read.config.tables.get("roles")
    for role, number in unknown_roles(lines, roles).items() if roles is not None else ():
        read.note(at, f"{name}:{number}: {describe_unknown(role, roles)}")


def _is_usable(token: str) -> bool:
    return len(token) >= MIN_TOKEN and token.isascii() and token.isprintable() and " " not in token


def _read_line(number: int, words: list[str]) -> TokenLine:
    if len(words) < 2:
        raise ValueError("a line is TENANT TOKEN, and the token's roles, separated by spaces")
    tenant, token, *rest = words
    is_hash = token.startswith(HASH)
    if not is_hash and not _is_usable(token):
        raise ValueError(_UNUSABLE)
    digest = token.removeprefix(HASH) if is_hash else digest_of(token)
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{HASH} is followed by 64 hexadecimal digits; flexchat tokens add writes them")
    roles, values = read_words(rest)
    expires_at = read_time(values["expires"]) if "expires" in values else None
    principal = Principal(values.get("user") or f"token-{digest[:8]}", roles)
    identity = Identity(tenant=tenant, principal=principal, expires_at=expires_at, token_digest=digest)
    ends = values.get("ends", "") if is_hash else token[-MAX_ENDS_CHARS:]
    return TokenLine(number=number, identity=identity, token="" if is_hash else token, ends=ends)


def read_words(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Read what follows a token: names of roles, and user=NAME, expires=DATE, ends=CHARACTERS.

    Raises:
        ValueError: A word cannot be read; the text names it.
    """
    values: dict[str, str] = {}
    for word in words:
        name, has_value, value = word.partition("=")
        if has_value and (name not in _KEYS or not value or name in values):
            raise ValueError(f"'{word[:60]}' cannot be read: write names of roles, user=NAME, expires=DATE")
        if has_value:
            values[name] = value
    return [word for word in words if "=" not in word], values


def read_time(text: str) -> float:
    """Return the seconds since the epoch of a date or a time; without an offset it is UTC.

    Raises:
        ValueError: It is none.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expires={text[:40]} is no date: write 2027-01-31 or 2027-01-31T18:00:00+00:00") from None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
