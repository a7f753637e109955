"""Skills of an MCP server: resources whose URIs begin with skill://, read once and then compared like files.

Source: Skills over MCP (SEP-2640), its mapping of files to resources.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from flexchat.plugin import ToolSourceError

from .skill import MAX_FILE_BYTES, SKILL_FILE, Report, Skill, read_skill

SCHEME = "skill://"
MAX_SERVER_FILES = 200  # of all skills of one server: each is a request


class SkillServer(Protocol):
    """The resources of a server, as flexchat-mcp's source has them."""

    async def resource_uris(self, prefix: str) -> list[str]:
        """Return the URIs that begin so; raise ToolSourceError if they cannot be listed."""

    async def read_resource(self, uri: str) -> bytes:
        """Return the content of a resource; raise ToolSourceError if it cannot be read."""


class Opening(Protocol):
    """Opens the server."""

    async def opened(self) -> SkillServer:
        """Return it; raise ToolSourceError if it cannot be opened."""


async def read_server(opening: Opening, report: Report) -> tuple[dict[str, Skill], dict[str, str]]:
    """Return the usable skills of a server, and the URIs of their folders, by name; report every problem.

    Raises:
        ToolSourceError: It cannot be reached, or has too many files.
    """
    server = await opening.opened()
    uris = sorted(await server.resource_uris(SCHEME))
    if len(uris) > MAX_SERVER_FILES:
        raise ToolSourceError(f"it has {len(uris):,} files of skills: at most {MAX_SERVER_FILES} are read")
    skills: dict[str, Skill] = {}
    roots: dict[str, str] = {}
    for root in [uri.removesuffix(SKILL_FILE) for uri in uris if uri.endswith(f"/{SKILL_FILE}")]:
        name = root.rstrip("/").rpartition("/")[2]
        files = [(uri.removeprefix(root), content) async for uri, content in _contents(server, root, uris, report)]

        def at(path: str, line: int | None, text: str, root: str = root) -> None:
            report(root + path, line, text)

        if (skill := read_skill(name, files, at)) is None:
            continue
        if skill.name in skills:
            report(root, None, "another skill of this server has this name")
            continue
        skills[skill.name], roots[skill.name] = skill, root
    return skills, roots


async def _contents(
    server: SkillServer, root: str, uris: list[str], report: Report
) -> AsyncIterator[tuple[str, bytes]]:
    for uri in uris:
        if uri.startswith(root):
            content = await server.read_resource(uri)
            if len(content) <= MAX_FILE_BYTES:
                yield uri, content
