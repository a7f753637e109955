"""Skills in a folder: only regular files inside a skill's own folder are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from flexchat.host import read_file

from .skill import MAX_FILE_BYTES, MAX_FILES, MAX_SKILL_BYTES, SKILL_FILE, Report, Skill, read_skill, too_large

ReportFile = Callable[[Path, int | None, str], None]
"""Reports a problem: the file or folder, the line (None if there is none), and a sentence."""


def read_folder(folder: Path, report: ReportFile) -> dict[str, Skill]:
    """Return the usable skills of a folder by name, and report every problem. Blocks."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        report(folder, None, f"the folder of skills cannot be read: {error.strerror}")
        return {}
    if any(entry.name == SKILL_FILE for entry in entries):
        report(folder / SKILL_FILE, None, "this folder is a skill itself: name the folder around it")
        return {}
    skills: dict[str, Skill] = {}
    folders = [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    for entry in folders:
        if not _is_inside(entry, folder):
            report(entry, None, f"this skill is a link that leads outside of {folder}")
        elif (skill := _read_one(entry, report)) is None:
            continue
        elif skill.name in skills:
            report(entry, None, f"two skills are called '{skill.name}': their folders look the same")
        else:
            skills[skill.name] = skill
    if not folders:
        report(folder, None, f"there are no skills: a skill is a folder in it with a {SKILL_FILE}")
    return skills


def read_skill_file(folder: Path, path: str) -> bytes:
    """Return the content of an accepted file of a skill's folder; the caller compares its hash. Blocks.

    Raises:
        OSError: It cannot be read.
    """
    return read_file(folder / path, most=MAX_FILE_BYTES)


def _read_one(folder: Path, report: ReportFile) -> Skill | None:
    faults = 0

    def at(path: str, line: int | None, text: str) -> None:
        nonlocal faults
        faults += 1
        if path or faults == 1:  # a SKILL.md that was not read is missing as well
            report(folder / path, line, text)

    skill = read_skill(folder.name, _files(folder, at), at)
    return None if faults else skill


def _files(folder: Path, report: Report) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a skill, except those that are too large or not regular; those it cannot have are reported."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in (*folders, *sorted(names)):
            path = Path(place, name)
            if path.is_symlink() and not _is_inside(path, folder):
                report(path.relative_to(folder).as_posix(), None, "this link leads outside of the skill's folder")
        for name in sorted(names):
            path = Path(place, name)
            below = path.relative_to(folder).as_posix()
            if name.startswith(".") or not _is_inside(path, folder) or not path.is_file():
                continue
            if (count := count + 1) > MAX_FILES:
                report(below, None, f"the skill has more than {MAX_FILES} files")
                return
            size = path.stat().st_size
            if below == SKILL_FILE and size > MAX_SKILL_BYTES:
                report(below, None, too_large(size))
            elif size <= MAX_FILE_BYTES:
                try:
                    yield below, read_file(path, most=MAX_FILE_BYTES)
                except OSError as error:
                    report(below, None, f"it cannot be read: {error.strerror}")


def _is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path leads into a folder, once all links are followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
