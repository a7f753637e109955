"""The settings of a [[skills]] table and of the two tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.plugin import key


@attrs.frozen(kw_only=True)
class SkillsEntry:
    """Where skills are."""

    folder: str | None = key("Folder whose subfolders are skills, each with a SKILL.md.", default=None)
    server: str | None = key("In place of folder: name of an MCP server in [[tools.mcp]] with skill://.", default=None)

    def __attrs_post_init__(self) -> None:
        if (self.folder is None) == (self.server is None):
            raise ValueError("skills come from either a folder or a server")


@attrs.frozen(kw_only=True)
class SkillToolSettings:
    """The implementation table of load_skill or read_skill_file, as kept in the lock.

    Attributes:
        skills: Of load_skill: for each skill, the "hash" of its SKILL.md, the names of its other "files", and its
            "allowed_tools" if it has any.
        files: Of read_skill_file: for each skill, the hashes of those files by their paths.
    """

    skills: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    files: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
