"""Checks of [[skills]] tables: every problem of every skill, with its file and line."""

from __future__ import annotations

from pathlib import Path

from flexchat.host import ReadConfig, did_you_mean
from flexchat.plugin import Problem

from .folder import read_folder
from .skill import Skill
from .source import MAX_CATALOG_CHARS, folder_of, skill_tools


def check_skills(reading: ReadConfig) -> None:
    """Report what is wrong with the folders, and with the names of servers."""
    assert reading.config is not None
    skills: dict[str, Skill] = {}
    places: dict[str, Path] = {}

    def report(path: Path, line: int | None, text: str) -> None:
        reading.add(Problem(path="", text=text, source=str(path), line=line))

    servers = [table.get("name", "mcp") for _, table in reading.tables("tools", "mcp")]
    for index, entry in enumerate(reading.config.tables["skills"]):
        if entry.server is not None and entry.server not in servers:
            listing = ", ".join(servers) or "none"
            text = f"no MCP server is called '{entry.server}'{did_you_mean(entry.server, servers)}"
            reading.problem(("skills", index, "server"), f"{text}; configured: {listing}")
        if entry.folder is None:
            continue
        folder = folder_of(entry, reading.document.folder)
        if not folder.is_dir():
            near = [one.name for one in folder.parent.iterdir() if one.is_dir()] if folder.parent.is_dir() else []
            reading.problem(
                ("skills", index, "folder"), f"there is no folder {folder}{did_you_mean(folder.name, near)}"
            )
            continue
        for name, skill in read_folder(folder, report).items():
            if name in skills:
                report(folder / skill.folder, None, f"two skills are called '{name}': the other is {places[name]}")
                continue
            skills[name], places[name] = skill, folder / skill.folder
    if skills:
        size = len(skill_tools(skills)[0].parameters["properties"]["name"]["description"])
        if size > MAX_CATALOG_CHARS:
            text = f"names and descriptions of {len(skills)} skills have {size:,} characters, at most "
            reading.problem(("skills",), f"{text}{MAX_CATALOG_CHARS:,}: they are in every request")
