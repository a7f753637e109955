"""flexchat conversations import: what flexchat conversations export --json has written, into this store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import attrs
from flexchat.conversations.view import Conversations
from flexchat.domain import ConversationTurn
from flexchat.domain.conversation import turn_from_dict
from flexchat.domain.text import counted
from flexchat.errors import StorageError, UnknownConversationError

from .context import FAILED, OK, CommandContext, UsageError
from .conversations_store import open_conversations, tenant_option
from .parameters import FILE_NAME, argument, command

_MAX_FAULTS = 20
_SHA256 = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


@attrs.frozen(kw_only=True)
class ExportedConversation:
    """One line of an export."""

    id: str
    title: str
    turns: tuple[ConversationTurn, ...]


@command
@argument("file", metavar="FILE", type=FILE_NAME, help="what export --json --output has written, with FILE.media")
@tenant_option
async def import_(context: CommandContext, file: str, tenant: str) -> int:
    """Read conversations that export --json has written.

    A conversation whose id is there already with other turns is left unchanged, and named: exit status 1. If it has the
    first of these turns, as after an import that was stopped, the others follow.
    """
    outcomes: dict[str, list[str]] = {"added": [], "present": [], "different": []}
    try:
        with _opened(file) as lines:
            places = _check(lines, file)
            async with open_conversations(context, tenant) as conversations:
                for place in reversed(places):  # an export begins with the one used last
                    conversation = _read(lines, place, file)
                    outcomes[await _add(conversations, conversation)].append(conversation.id)
    except OSError as error:
        raise UsageError(f"'{error.filename or file}' cannot be read: {error.strerror or error}") from None
    added, present, different = outcomes.values()
    text = f"{counted(len(added), 'conversation')} added"
    text += f"; {len(present)} were there already" if present else ""
    if different:
        text += f"; left unchanged, because the id has other turns here: {', '.join(different)}"
    context.show(outcomes, text)
    return FAILED if different else OK


def _opened(file: str) -> BinaryIO:
    return Path(file).open("rb")


async def _add(conversations: Conversations, exported: ExportedConversation) -> str:
    try:
        turns: Sequence[ConversationTurn] = await conversations.turns(exported.id)
    except UnknownConversationError:
        turns = ()
    if tuple(turns) != exported.turns[: len(turns)]:
        return "different"
    if len(turns) == len(exported.turns):
        return "present"
    for turn in exported.turns[len(turns) :]:
        await conversations.store.append(exported.id, turn, tenant=conversations.tenant)
    if (await conversations.get(exported.id)).title != exported.title:
        await conversations.rename(exported.id, exported.title)
    return "added"


def _check(lines: BinaryIO, file: str) -> list[tuple[int, int]]:
    """Read all lines once; return the number and the offset of each.

    Raises:
        UsageError: Lines are no exported conversations. Nothing was imported.
    """
    places: list[tuple[int, int]] = []
    faults: list[str] = []
    ids: dict[str, int] = {}
    for place in _places(lines):
        try:
            id = _read(lines, place, file).id
        except UsageError as error:
            faults.append(str(error))
        else:
            if id in ids:
                faults.append(f"{file}:{place[0]}: the conversation '{id}' is in line {ids[id]} already")
            ids[id] = place[0]
        places.append(place)
        lines.seek(place[1])
        lines.readline()
    if faults:
        more = f"\n… and {len(faults) - _MAX_FAULTS} more" if len(faults) > _MAX_FAULTS else ""
        raise UsageError("\n".join(faults[:_MAX_FAULTS]) + f"{more}\nnothing was imported")
    if not places:
        raise UsageError(f"'{file}' has no conversation; flexchat conversations export --all --json writes them")
    return places


def _places(lines: BinaryIO) -> Iterator[tuple[int, int]]:
    number = 0
    while True:
        number, offset = number + 1, lines.tell()
        line = lines.readline()
        if not line:
            return
        if line.strip():
            yield number, offset


def _read(lines: BinaryIO, place: tuple[int, int], file: str) -> ExportedConversation:
    number, offset = place
    lines.seek(offset)
    line = lines.readline()
    try:
        data = json.loads(line)
        media = {digest: _medium(file, digest) for digest in map(bytes.decode, _SHA256.findall(line))}
        turns = tuple(turn_from_dict(turn, media) for turn in data["turns"])
        if not (turns and isinstance(data["id"], str) and isinstance(data["title"], str)):
            raise ValueError("it has no id, title or turns")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StorageError) as error:
        reason = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{file}:{number}: this is no exported conversation: {reason}") from None
    return ExportedConversation(id=data["id"], title=data["title"], turns=turns)


def _medium(file: str, digest: str) -> bytes:
    path = Path(f"{file}.media") / digest
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"the file {path} is missing") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"the file {path} was changed: it has another digest than its name")
    return data
