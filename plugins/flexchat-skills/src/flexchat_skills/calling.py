"""The implementation type "skill": what load_skill and read_skill_file return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from flexchat.host import did_you_mean
from flexchat.plugin import ToolContext, ToolError, ToolSourceError

from .settings import SkillToolSettings
from .skill import SKILL_FILE, instructions_in
from .source import READ, TITLE, SkillsSource

_MAX_LISTED = 50  # files in one text


async def run(settings: SkillToolSettings, params: Mapping[str, Any], context: ToolContext) -> str:
    """Return a skill's instructions, or a file of a skill.

    Raises:
        ToolError: There is no such skill or file, it has changed since it was accepted, or it cannot be read.
    """
    if context.source is None:
        raise ToolError("this tool belongs to [[skills]], which the configuration no longer has")
    try:
        source = cast(SkillsSource, await context.source.opened())
        if "path" in params:
            return await _read(settings.files, params["skill"], params["path"], source)
        return await _load(settings.skills, params["name"], source)
    except ToolSourceError as error:
        raise ToolError(f"skills cannot be read: {error}") from None


async def _load(skills: Mapping[str, Mapping[str, Any]], name: str, source: SkillsSource) -> str:
    if (accepted := skills.get(name)) is None:
        raise ToolError(f"no skill is called '{name}'", hint=_hint(name, skills))
    instructions = instructions_in(await source.read(name, SKILL_FILE, accepted["hash"]))
    notes = []
    if files := accepted.get("files"):
        listing = ", ".join(files[:_MAX_LISTED]) + (", …" if len(files) > _MAX_LISTED else "")
        notes.append(f"Files of this skill, to be read with {READ}: {listing}")
    if (allowed := accepted.get("allowed_tools")) is not None:
        listing = ", ".join(allowed) or "none"
        notes.append(f"Of the tools offered, only these can be called until this message is answered: {listing}")
    return "\n\n".join([f"{TITLE}{name}", *notes, instructions])


async def _read(files: Mapping[str, Mapping[str, str]], skill: str, path: str, source: SkillsSource) -> str:
    if (accepted := files.get(skill)) is None:
        raise ToolError(f"no skill with files is called '{skill}'", hint=_hint(skill, files))
    # Only accepted paths are opened, so no other name, however written, leads anywhere.
    if path not in accepted:
        raise ToolError(f"the skill '{skill}' has no file '{path[:200]}'", hint=_hint(path, accepted))
    return (await source.read(skill, path, accepted[path])).decode("utf-8-sig")


def _hint(name: str, known: Mapping[str, Any]) -> str:
    listing = ", ".join([*known][:_MAX_LISTED]) + (", …" if len(known) > _MAX_LISTED else "")
    return did_you_mean(name, known).strip(" ()") or f"there are: {listing}"
