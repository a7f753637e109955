"""One skill: its SKILL.md and its other files, read and checked.

Source: agentskills.io/specification.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
from flexchat.host import YamlError, did_you_mean, read_yaml
from flexchat_sdk import find_hidden

SKILL_FILE = "SKILL.md"

MAX_SKILL_BYTES = 64 * 1024  # of a SKILL.md; the specification recommends less than 5,000 tokens
MAX_FILE_BYTES = 1024 * 1024  # of any other file; a larger one cannot be read
MAX_FILES = 500  # in one skill

_MAX_FRONT_MATTER_CHARS = 16_384
MAX_CHARS = {"name": 64, "description": 1024, "compatibility": 500}
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")

Report = Callable[[str, int | None, str], None]
"""Reports a problem: the file's path in the skill, the line from 1 (None if unknown), and a sentence."""


@attrs.frozen(kw_only=True)
class Skill:
    """A skill that can be used.

    Attributes:
        folder: Name of its folder, which may spell the same letters with other characters of Unicode.
        allowed_tools: Names and patterns, the only tools to call once it is loaded; None for no restriction.
        hashes: Of its text files, by their paths in its folder; SKILL.md is among them.
    """

    name: str
    folder: str
    description: str
    allowed_tools: tuple[str, ...] | None = None
    hashes: Mapping[str, str] = attrs.field(factory=dict)


def hash_of(content: bytes) -> str:
    """Return the hash of a file in the form the lock has."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def read_skill(folder: str, files: Iterable[tuple[str, bytes]], report: Report) -> Skill | None:
    """Read a skill and report every problem; return None if there is one.

    Args:
        folder: Name of its folder, which is the skill's name.
        files: The path and content of each file. Those that are not text are left out.
    """
    problems = 0
    hashes: dict[str, str] = {}
    skill: Skill | None = None

    def count(path: str, line: int | None, text: str) -> None:
        nonlocal problems
        problems += 1
        report(path, line, text)

    for path, content in files:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if path == SKILL_FILE:
                count(path, content.count(b"\n", 0, error.start) + 1, "this is not UTF-8")
            continue
        if path == SKILL_FILE and len(content) > MAX_SKILL_BYTES:
            count(path, None, too_large(len(content)))
            continue
        for line, characters in _hidden_lines(text):
            listing = ", ".join(f"U+{ord(one):04X}" for one in characters[:3])
            count(path, line, f"there are characters that cannot be seen ({listing}): delete them")
        hashes[path] = hash_of(content)
        if path == SKILL_FILE:
            skill = _read_front_matter(folder, text, count)
    if SKILL_FILE not in hashes and not problems:
        count("", None, f"this skill has no {SKILL_FILE}{did_you_mean(SKILL_FILE, hashes)}")
    return None if problems or skill is None else attrs.evolve(skill, hashes=dict(sorted(hashes.items())))


def too_large(size: int | None = None) -> str:
    """Describe the problem of a SKILL.md that is too large."""
    seen = "" if size is None else f"{size:,} bytes, "
    return f"the file is too large ({seen}at most {MAX_SKILL_BYTES:,}): move details into files of their own"


def instructions_in(content: bytes) -> str:
    """Return the text after the front matter of a SKILL.md that has been checked."""
    return _split(content.decode("utf-8-sig"))[1]


def _split(text: str) -> tuple[str | None, str]:
    """Return the front matter, None if there is none, and what follows it."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return None, text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]).strip()
    return None, text


def _read_front_matter(folder: str, text: str, report: Report) -> Skill | None:
    front, instructions = _split(text)
    if front is None:
        report(SKILL_FILE, 1, "it does not begin with front matter: a line ---, name and description, a line ---")
        return None
    if len(front) > _MAX_FRONT_MATTER_CHARS:
        report(SKILL_FILE, 1, f"the front matter has more than {_MAX_FRONT_MATTER_CHARS:,} characters")
        return None
    try:
        data, lines, twice = read_yaml(front, max_depth=8, max_values=1000)
    except YamlError as error:
        report(SKILL_FILE, None if error.line is None else error.line + 1, f"the front matter is not YAML: {error}")
        return None
    if not isinstance(data, dict):
        report(SKILL_FILE, 2, "the front matter is not a table: write name: and description: in lines of their own")
        return None

    def problem(key: str, sentence: str) -> None:
        report(SKILL_FILE, lines.get((key,), 0) + 1, sentence)

    for path, _, line in twice:
        report(SKILL_FILE, line + 1, f"{'.'.join(map(str, path))} stands here twice")
    for key in data:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or ": the specification has no such key; put it under metadata"
            problem(key, f"unknown key '{key[:40]}'{hint}")
    for key in ("name", "description"):
        if key not in data:
            report(SKILL_FILE, 1, f"{key} is missing in the front matter")
    for key in ("name", "description", "license", "compatibility", "allowed-tools"):
        if key in data and (fault := _fault(key, data[key])) is not None:
            problem(key, fault)
    metadata = data.get("metadata", {})
    if not isinstance(metadata, dict) or any(isinstance(value, (dict, list)) for value in metadata.values()):
        problem("metadata", "metadata is a table of texts")
    name, description = data.get("name"), data.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        return None
    name = unicodedata.normalize("NFKC", name.strip())
    if name != unicodedata.normalize("NFKC", folder):
        problem("name", f"name is '{name[:70]}', but the folder is '{folder[:70]}': they must be equal")
    if not instructions:
        report(SKILL_FILE, None, "there are no instructions after the front matter")
    allowed = data.get("allowed-tools")
    return Skill(
        name=name,
        folder=folder,
        description=" ".join(description.split()),
        allowed_tools=tuple(allowed.replace(",", " ").split()) if isinstance(allowed, str) else None,
    )


def _fault(key: str, value: Any) -> str | None:
    """Find the fault of a text in the front matter; None if there is none."""
    if not isinstance(value, str):
        return f"{key} must be a text: put it in quotes" if not isinstance(value, list) else f"{key} must be one text"
    if not value.strip():
        return f"{key} is empty"
    if len(value) > (most := MAX_CHARS.get(key, _MAX_FRONT_MATTER_CHARS)):
        return f"{key} has {len(value):,} characters, at most {most:,} are allowed"
    name = unicodedata.normalize("NFKC", value.strip())
    is_legal = name == name.lower() and all(one.isalnum() or one == "-" for one in name)
    if key == "name" and not (is_legal and "" not in name.split("-")):
        return f"name '{name}' must be lowercase letters, digits and single hyphens between them"
    return None


def _hidden_lines(text: str) -> Iterable[tuple[int, list[str]]]:
    if text.isascii() and text.isprintable():
        return
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if characters := find_hidden(line):
            yield number, characters
