"""Discovery of files below the given paths."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from .kinds import known_kind
from .sections import Trouble

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_VERSION_CONTROL = {"CVS", "_darcs"}  # the others' folders are hidden


@attrs.frozen(kw_only=True)
class FoundFile:
    """A file to read.

    Attributes:
        source: Its source name in a store.
    """

    path: Path
    source: str


@attrs.define
class Walk:
    """Finds files, each once, ordered by name. Folders are read lazily, one at a time.

    Hidden files and folders are skipped, and so are links inside folders unless follow_links is set. In folders, files
    of known kinds are found, or those that match *include*; files listed in ``paths`` are always included.

    Attributes:
        include, exclude: Patterns like "*.md" or "docs/*/old", matched against names and paths relative to the folder.
        left_out: Counts of skipped contents: files by suffix, "hidden" files and folders, "links". Those skipped
            because of *include* and *exclude* do not count.
        incomplete: Folders of ``paths`` that could not be read completely: a file missing there may still exist.
    """

    paths: Sequence[str]
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    follow_links: bool = False
    left_out: Counter[str] = attrs.field(factory=Counter)
    incomplete: set[str] = attrs.field(factory=set)

    def files(self) -> Iterator[FoundFile | Trouble]:
        """Yield the files, and a Trouble for each unreadable path."""
        for name in self.paths:
            if not name.strip():  # Usually an unset shell variable; Path("") would be the current folder.
                yield Trouble("a path is empty: name a file or a folder")
                continue
            path = Path(os.path.normpath(os.path.expanduser(name)))
            try:
                mode = path.stat().st_mode
            except (OSError, ValueError) as error:
                self.incomplete.add(str(path))
                yield Trouble(f"{source_name(path)} {_reason(error)}")
                continue
            if stat.S_ISDIR(mode):
                yield from self._below(path)
            elif stat.S_ISREG(mode):
                yield FoundFile(path=path, source=source_name(path))
            else:
                yield Trouble(f"{source_name(path)} is neither a file nor a folder")

    def folders(self) -> list[str]:
        """Return the folders among the paths that were read completely. Call it after files() is exhausted."""
        normal = [os.path.normpath(os.path.expanduser(name)) for name in self.paths if name.strip()]
        return [name for name in normal if name not in self.incomplete and os.path.isdir(name)]

    def _below(self, top: Path) -> Iterator[FoundFile | Trouble]:
        waiting, seen = [top], set()
        while waiting:
            folder = waiting.pop()
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in seen:  # a link leads back to it
                    continue
                seen.add((status.st_dev, status.st_ino))
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self.incomplete.add(str(top))
                yield Trouble(f"{source_name(folder)} {_reason(error)}")
                continue
            deeper = []
            for entry in listed:
                path = Path(entry.path)
                if not self._is_wanted(entry, path.relative_to(top).as_posix()):
                    continue
                try:
                    if entry.is_dir():
                        deeper.append(path)
                    elif entry.is_file() and self._is_included(entry.name, path.relative_to(top).as_posix()):
                        yield FoundFile(path=path, source=source_name(path))
                except OSError as error:
                    yield Trouble(f"{source_name(path)} {_reason(error)}")
            waiting += reversed(deeper)

    def _is_wanted(self, entry: os.DirEntry[str], below: str) -> bool:
        if entry.name in _VERSION_CONTROL or _fits(entry.name, below, self.exclude):
            return False
        if entry.name.startswith("."):
            self.left_out["hidden"] += 1
            return False
        if entry.is_symlink() and not self.follow_links:
            self.left_out["links"] += 1
            return False
        return True

    def _is_included(self, name: str, below: str) -> bool:
        if self.include:
            return _fits(name, below, self.include)
        if known_kind(Path(name)) is not None:
            return True
        self.left_out[_printable(Path(name).suffix.casefold()[:20]) or "without ending"] += 1
        return False


def source_name(path: Path) -> str:
    r"""Convert a path to a printable name, escaping control characters and invalid UTF-8 as \x0a."""
    return _printable(os.fspath(path) if os.sep == "/" else path.as_posix())


def _printable(text: str) -> str:
    text = os.fsencode(text).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _fits(name: str, below: str, patterns: Sequence[str]) -> bool:
    return any(
        fnmatch.fnmatchcase(name, p) or fnmatch.fnmatchcase(below, p.removeprefix("./").rstrip("/")) for p in patterns
    )


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
