"""The token file: TENANT TOKEN ROLE… in each line, where a token may be replaced by its hash."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import attrs
from flexchat import Principal
from flexchat.host import read_file
from flexchat.plugin import FlexChatError

from .identity import Identity

HASH = "sha256:"
MIN_TOKEN = 16
MAX_BYTES = 1 << 20
MAX_ENDS_CHARS = 4
"""How much of a token the file may show."""

_KEYS = ("user", "expires", "ends")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class TokenFileError(FlexChatError):
    """The token file cannot be used; the text names the file and the line."""

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
    if len(token) < MIN_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise TokenFileError(f"{place}: a token has at least {MIN_TOKEN} ASCII characters and no spaces")
    return token


def read_token_file(file: Path) -> tuple[TokenLine, ...]:
    """Read all lines of a token file.

    Raises:
        TokenFileError: It cannot be read, or a line cannot.
    """
    try:
        lines = read_file(file, most=MAX_BYTES).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise TokenFileError(f"--token-file {file}: {reason}") from None
    read: dict[str, TokenLine] = {}
    for number, text in enumerate(lines, 1):
        words, place = text.split(), f"{file}:{number}"
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2:
            raise TokenFileError(f"{place}: a line is TENANT TOKEN, and the token's roles, separated by spaces")
        line = _read_line(number, words, place)
        if line.digest in read:
            raise TokenFileError(f"{place}: this token is already in the file")
        read[line.digest] = line
    return tuple(read.values())


def _read_line(number: int, words: list[str], place: str) -> TokenLine:
    tenant, token, *rest = words
    is_hash = token.startswith(HASH)
    digest = token.removeprefix(HASH) if is_hash else digest_of(require_token(token, place))
    if not _DIGEST.fullmatch(digest):
        raise TokenFileError(f"{place}: {HASH} is followed by 64 hexadecimal digits; flexchat tokens add writes them")
    try:
        roles, values = read_words(rest)
        expires_at = read_time(values["expires"]) if "expires" in values else None
    except ValueError as error:
        raise TokenFileError(f"{place}: {error}") from None
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
