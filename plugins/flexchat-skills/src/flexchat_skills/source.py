"""The tool source "skills": its tools have the skills' names, descriptions and hashes, so the lock keeps those.

A file is only handed to a model if its hash is the accepted one: a skill is an instruction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import attrs
from flexchat.plugin import SourcedTool, ToolError, ToolSourceContext, ToolSourceError

from .folder import read_folder, read_skill_file
from .server import SkillServer, read_server
from .settings import SkillsEntry
from .skill import SKILL_FILE, Skill, hash_of

LOAD, READ, TYPE = "load_skill", "read_skill_file", "skill"
TITLE = "# Skill: "  # begins what load_skill returns, before the skill's name
MAX_CATALOG_CHARS = 16_000  # of all names and descriptions: they are in every request

_LOAD = "Load a skill: instructions for one kind of task. Load the skill that fits a task before you begin it."
_READ = "Read a file of a skill that is loaded. Scripts can be read, but not run."


class Place(Protocol):
    """Where a skill's files are."""

    async def read(self, path: str) -> bytes:
        """Return the content of a file; raise OSError or ToolSourceError if it cannot be read."""


@attrs.frozen
class FolderPlace:
    """The folder of a skill."""

    folder: Path

    async def read(self, path: str) -> bytes:
        """Return the content of a file, read in a thread."""
        return await asyncio.to_thread(read_skill_file, self.folder, path)


async def open_source(entries: Sequence[SkillsEntry], context: ToolSourceContext) -> SkillsSource:
    """Return the source. Nothing is read yet."""
    return SkillsSource(entries, context)


class SkillsSource:
    """The skills of all [[skills]] tables.

    Attributes:
        left_out: Why skills cannot be used, by name or file.
    """

    fingerprint = ""  # the files are read and compared each time

    def __init__(self, entries: Sequence[SkillsEntry], context: ToolSourceContext) -> None:
        self._entries, self._context = entries, context
        self._places: dict[str, Place] = {}
        self.left_out: dict[str, str] = {}

    async def tools(self) -> Sequence[SourcedTool]:
        """Read all skills.

        Raises:
            ToolSourceError: None can be used, or a server of skills cannot be reached.
        """
        skills: dict[str, Skill] = {}
        places: dict[str, Place] = {}
        left_out: dict[str, str] = {}

        def leave_out(path: Any, line: int | None, text: str) -> None:
            left_out.setdefault(f"{path}" if line is None else f"{path}:{line}", text)

        for entry in self._entries:
            if entry.folder is not None:
                folder = folder_of(entry, self._context.folder)
                found = await asyncio.to_thread(read_folder, folder, leave_out)
                found_places: dict[str, Place] = {
                    name: FolderPlace(folder / skill.folder) for name, skill in found.items()
                }
            else:
                found, roots = await read_server(self._server(entry.server or ""), leave_out)
                found_places = {
                    name: ServerPlace(self._context, entry.server or "", root) for name, root in roots.items()
                }
            for name, skill in found.items():
                if name in skills:
                    left_out[name] = "another skill has this name"
                    continue
                skills[name], places[name] = skill, found_places[name]
        size = 0
        for name in [*skills]:
            size += len(_line(skills[name]))
            if size > MAX_CATALOG_CHARS:
                left_out[name] = f"names and descriptions have more than {MAX_CATALOG_CHARS:,} characters in all"
                del skills[name]
        self._places, self.left_out = places, left_out
        if not skills:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in [*left_out.items()][:3])
            raise ToolSourceError(f"there are no skills that can be used{': ' if reasons else ''}{reasons}")
        return skill_tools(skills)

    def still_callable(self, accepted: SourcedTool, now: SourcedTool | None) -> bool:
        """Whether calls by the accepted definition still work: each file is compared when it is read."""
        return now is not None

    async def read(self, skill: str, path: str, accepted: str) -> bytes:
        """Return the content of a skill's file, if it is the accepted one.

        Raises:
            ToolError: It has changed, or cannot be read.
            ToolSourceError: As tools.
        """
        if not self._places:
            await self.tools()
        try:
            content = await self._places[skill].read(path) if skill in self._places else None
        except OSError:
            content = None
        if content is not None and hash_of(content) == accepted:
            return content
        self._context.changed()
        what = f"the skill '{skill}' has changed since it was accepted, so {path} is not read"
        hint = f"the operator can look at it with: flexchat tools diff {self._context.name}"
        raise ToolError(f"the skill '{skill}' no longer has {path}" if content is None else what, hint=hint)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _server(self, name: str) -> ServerPlace:
        return ServerPlace(self._context, name)


@attrs.frozen
class ServerPlace:
    """A skill that an MCP server has, by the URI of its folder; or the server as a whole."""

    _context: ToolSourceContext
    _server: str
    root: str = ""

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return await (await self.opened()).read_resource(self.root + path)

    async def opened(self) -> SkillServer:
        """Open the MCP server's source.

        Raises:
            ToolSourceError: There is none of this name, or it has no resources.
        """
        configured = self._context.sources.get(self._server)
        if configured is None:
            raise ToolSourceError(f"no tool source is called '{self._server}'")
        source = await configured.opened()
        if not hasattr(source, "read_resource"):
            raise ToolSourceError(f"the tool source '{self._server}' has no resources: name one of [[tools.mcp]]")
        return cast(SkillServer, source)


def folder_of(entry: SkillsEntry, folder: Path | None) -> Path:
    """Return the folder of a table; a relative one starts in the config's folder."""
    return (folder or Path()) / Path(entry.folder or "").expanduser()


def skill_tools(skills: Mapping[str, Skill]) -> list[SourcedTool]:
    """Return load_skill, and read_skill_file if a skill has other files."""
    names = sorted(skills)
    loading: dict[str, Any] = {}
    for name in names:
        skill = skills[name]
        others = [path for path in skill.hashes if path != SKILL_FILE]
        loading[name] = {"hash": skill.hashes[SKILL_FILE]}
        loading[name] |= {"files": others} if others else {}
        loading[name] |= {} if skill.allowed_tools is None else {"allowed_tools": [*skill.allowed_tools]}
    catalog = "\n".join(_line(skills[name]) for name in names)
    parameters = {"name": {"type": "string", "enum": names, "description": f"The skill:\n{catalog}"}}
    tools = [_tool(LOAD, _LOAD, parameters, {"skills": loading})]
    files = {
        name: {path: digest for path, digest in skills[name].hashes.items() if path != SKILL_FILE} for name in names
    }
    if any(files.values()):
        parameters = {
            "skill": {"type": "string", "enum": [name for name in names if files[name]]},
            "path": {"type": "string", "description": "As load_skill lists it: references/policy.md."},
        }
        settings = {"files": {name: hashes for name, hashes in files.items() if hashes}}
        tools.append(_tool(READ, _READ, parameters, settings))
    return tools


def _tool(name: str, description: str, properties: Mapping[str, Any], settings: Mapping[str, Any]) -> SourcedTool:
    return SourcedTool(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        },
        implementation=TYPE,
        settings=settings,
        effect="read",
        pinned=True,
    )


def _line(skill: Skill) -> str:
    return f"- {skill.name}: {skill.description}"
