"""Attachments of messages at the command line, and files for the media that models make."""

from __future__ import annotations

import io
import mimetypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from flexchat.app import FlexChat
from flexchat.attachments import AttachmentReader, listed
from flexchat.domain import AssistantMessage, MediaPart, Turn
from flexchat.domain.media import clean_name, describe_media, in_brief
from flexchat.errors import ChatRequestError
from flexchat.files import located, read_at_most

from .context import UsageError
from .parameters import TEXT
from .standard_input import announce_wait
from .terminal import Terminal

# Those that systems lack, or disagree on.
_SUFFIXES = {"audio/wav": ".wav", "image/webp": ".webp", "audio/mpeg": ".mp3"}

attachment_option = click.option(
    "-a",
    "--attachment",
    "attachments",
    metavar="FILE|URL",
    type=TEXT,
    multiple=True,
    help="an image, PDF, sound, video or text to attach: a file, an address, or - for standard input; repeatable",
)
folder_option = click.option(
    "-O",
    "--output-folder",
    "folder",
    metavar="FOLDER",
    type=TEXT,
    help="where to write the images and sounds that the model makes; no file is replaced",
)


async def read_attachments(names: Sequence[str], chat: FlexChat, terminal: Terminal) -> tuple[MediaPart, ...]:
    """Return what a person attaches, and report each.

    Raises:
        UsageError: One cannot be read, or attached.
    """
    max_bytes = chat.config.media.max_bytes
    reader = AttachmentReader(max_bytes=max_bytes, fetcher=chat.fetcher, store=None, tenant="")
    try:
        items: list[Any] = [_standard_input(terminal, max_bytes) if name == "-" else name for name in listed(names)]
        parts = await reader.read(items)
    except ChatRequestError as error:
        raise UsageError(str(error)) from None
    for part in parts:
        terminal.say(f"attached: {describe_media(part)}", "dim")
    return parts


def _standard_input(terminal: Terminal, max_bytes: int) -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("-a - attaches standard input: give it a pipe or a file, as in < photo.png")
    stream = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
    with announce_wait(terminal, "the end of standard input"):
        return read_at_most(stream, max_bytes)


def made_media(turn: Turn) -> list[MediaPart]:
    """Return the media that the models of a turn made."""
    messages = [each for each in turn.response.messages if isinstance(each, AssistantMessage)]
    return [part for each in messages for part in each.parts if isinstance(part, MediaPart)]


def write_media(turn: Turn, folder: str | None, terminal: Terminal) -> None:
    """Write the media that models made into a folder, each under a free name; without a folder, report them.

    Raises:
        UsageError: The folder cannot be written to.
    """
    media = made_media(turn)
    for part in media if folder is None else ():
        terminal.say(f"{in_brief(part) if part.data else part.url} (-O FOLDER writes it to a file)", "dim")
    if folder is None:
        return
    path = located(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        for part in media:
            if part.data is None:
                terminal.say(f"{part.mime_type}: {part.url}")
            else:
                terminal.say(f"written: {_write(part, path)} {in_brief(part)}")
    except OSError as error:
        raise UsageError(f"-O {folder}: {error.strerror or error}") from None
    if not media:
        terminal.say(f"note: the model made no media, nothing was written to {folder}", "dim")


def _write(part: MediaPart, folder: Path) -> Path:
    name = clean_name(part.name or "") or part.kind
    suffix = _SUFFIXES.get(part.mime_type) or mimetypes.guess_extension(part.mime_type) or ".bin"
    stem, own = os.path.splitext(name)
    if own.lower() != suffix:
        stem = name
    number = 1
    while True:
        path = folder / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
        try:
            with path.open("xb") as file:  # never over a file, or through a link, that is there
                file.write(part.data or b"")
        except FileExistsError:
            number += 1
        else:
            return path
