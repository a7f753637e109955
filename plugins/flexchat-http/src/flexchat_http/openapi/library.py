"""A document, the files it refers to, and its references followed.

A reference leads into the same document, to a file in the document's folder (for a document from a URL: to a URL in
its folder), or, if that is allowed, to any URL. What it may not lead to is not read; only operations that need it are
left out.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from flexchat.plugin import run_in_thread

from .reading import MAX_BYTES, DocumentError, Unusable, read_document
from .swagger import as_openapi, is_swagger

MAX_FILES = 100
MAX_TOTAL_BYTES = 2 * MAX_BYTES  # of all files together
MAX_CHAIN = 30

Fetch = Callable[[str], Awaitable[bytes]]
"""Fetches the data at a URL. The text of an exception is the reason of a failure."""


@attrs.frozen(kw_only=True)
class Library:
    """A document and what was read for it.

    Attributes:
        root: The document's address: a URL, or a ``file:`` URL.
        files: What was read, by its address.
        missing: Why a file that is referred to was not read, by its address.
        content: The bytes of all of it, in order of the addresses; for a fingerprint.
    """

    root: str
    files: Mapping[str, dict[str, Any]]
    missing: Mapping[str, str] = attrs.field(factory=dict)
    content: bytes = b""

    @property
    def document(self) -> dict[str, Any]:
        """The document itself."""
        return self.files[self.root]

    def follow(self, value: Any, base: str) -> tuple[Any, str, str]:
        """Resolve a value that may be a reference. Returns the target, its file, and its address.

        The address is the same for all references to one target, and empty if *value* is not a reference.

        Raises:
            Unusable: A reference is broken or circular.
        """
        address = ""
        for _ in range(MAX_CHAIN):
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return value, base, address
            value, base, address = self._target(value["$ref"], base)
        raise Unusable(f"$ref '{address.partition('#')[2]}' refers to itself")

    def _target(self, reference: str, base: str) -> tuple[Any, str, str]:
        file, _, fragment = reference.partition("#")
        where = _join(base, file) if file else base
        if where not in self.files:
            why = self.missing.get(where) or "it was not read"
            raise Unusable(f"$ref '{reference[:200]}' leads to {where[:200]}: {why}")
        pointer = urllib.parse.unquote(fragment)
        if pointer and not pointer.startswith("/"):
            raise Unusable(f"$ref '{reference[:200]}' names an anchor; only paths such as #/components/… are followed")
        value: Any = self.files[where]
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isascii() and step.isdecimal() and int(step[:9]) < len(value):
                value = value[int(step[:9])]
            else:
                raise Unusable(f"$ref '{reference[:200]}' leads nowhere: there is no '{step[:80]}'")
        return value, where, f"{where}#{pointer}"


async def open_library(document: str, *, folder: Path | None = None, fetch: Fetch | None, remote: bool) -> Library:
    """Read a document and the files it refers to.

    Args:
        document: A path or an http(s) URL.
        folder: Where a relative path starts; None for the working folder.
        fetch: What URLs are read with; None if no URL may be read.
        remote: Whether references may lead to URLs outside the document's folder.

    Raises:
        DocumentError: The document itself cannot be read.
    """
    root = address_of(document, folder)
    reader = _Reader(root, fetch, remote)
    await reader.read(root)
    if root in reader.missing:
        raise DocumentError(document, "", reader.missing[root])
    waiting = [root]
    while waiting:
        base = waiting.pop()
        for address in sorted({_join(base, name) for name in _file_references(reader.files[base])}):
            if address not in reader.files and address not in reader.missing:
                await reader.read(address)
                if address in reader.files:
                    waiting.append(address)
    content = b"\0".join(reader.contents[address] for address in sorted(reader.contents))
    return Library(root=root, files=reader.files, missing=reader.missing, content=content)


def address_of(document: str, folder: Path | None = None) -> str:
    """Return the address of a path or URL.

    Raises:
        DocumentError: It is neither.
    """
    if document.lower().startswith(("http://", "https://")):
        return document.partition("#")[0]
    if "://" in document:
        raise DocumentError(document, "", "a document is a path, or a URL that begins with http:// or https://")
    from flexchat.store import PathError, located

    try:
        return located(document, folder).resolve().as_uri()
    except (PathError, OSError, RuntimeError) as error:
        raise DocumentError(document, "", str(error)) from None


class _Reader:
    """Reads files for one library; unreadable and forbidden ones are recorded in ``missing``."""

    def __init__(self, root: str, fetch: Fetch | None, remote: bool) -> None:
        self.root, self.fetch, self.remote = root, fetch, remote
        self.files: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}
        self.asked = 0

    async def read(self, address: str) -> None:
        try:
            self._check(address)
            content = await self._content(address)
            data = await run_in_thread(lambda: read_document(content, ""))
        except (Unusable, DocumentError) as error:
            self.missing[address] = str(error)
        else:
            self.files[address] = as_openapi(data) if is_swagger(data) else data
            self.contents[address] = content

    def _check(self, address: str) -> None:
        if address == self.root:
            return
        inside = address.startswith(_folder(self.root))
        if address.startswith("file:"):
            if not self.root.startswith("file:"):
                raise Unusable("a document from a URL may not refer to files")
            folder = _path(self.root).parent
            if not inside or not _path(address).resolve().is_relative_to(folder):
                raise Unusable(f"it is outside {folder}, the document's folder")
        elif not address.lower().startswith(("http://", "https://")):
            raise Unusable("this is not a file or an http(s) URL")
        elif not inside and not self.remote:
            raise Unusable("references to other places are not followed; allow them with remote_refs = true")
        self.asked += 1
        if self.asked > MAX_FILES:
            raise Unusable(f"the document refers to more than {MAX_FILES} files")
        if sum(map(len, self.contents.values())) >= MAX_TOTAL_BYTES:
            raise Unusable(f"the document and its files are larger than {MAX_TOTAL_BYTES // 2**20} MiB together")

    async def _content(self, address: str) -> bytes:
        if address.startswith("file:"):
            from flexchat.host import read_file

            try:
                content: bytes = await run_in_thread(lambda: read_file(_path(address), most=MAX_BYTES))
                return content
            except OSError as error:
                raise Unusable(error.strerror or str(error)) from None
        if self.fetch is None:
            raise Unusable("it is a URL, and no URL is read here")
        try:
            return await self.fetch(address)
        except (DocumentError, Unusable):
            raise
        except Exception as error:  # noqa: BLE001 - from the caller's function; its text is the reason
            raise Unusable(str(error) or type(error).__name__) from None


def _folder(address: str) -> str:
    """Return a folder's address: "https://a.example/b/" of "https://a.example/b/c?d/e" and of "https://a.example/b/"."""
    parts = urllib.parse.urlsplit(address)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path.rpartition("/")[0] + "/", "", ""))


def _path(address: str) -> Path:
    return Path(urllib.parse.unquote(urllib.parse.urlsplit(address).path))


def _join(base: str, file: str) -> str:
    try:
        return urllib.parse.urljoin(base, file)
    except ValueError:
        return file


def _file_references(data: dict[str, Any]) -> Iterator[str]:
    """Yield the file part of each reference that has one."""
    waiting: list[Any] = [data]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            reference = each.get("$ref")
            if isinstance(reference, str) and (file := reference.partition("#")[0]):
                yield file
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
