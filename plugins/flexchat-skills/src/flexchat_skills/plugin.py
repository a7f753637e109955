"""What this package provides: the table of skills, their tools, and the gate of allowed-tools.

Light: modules are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flexchat.plugin import ConfigCheck, ConfigTable, ImplementationType, hookimpl
from flexchat_sdk import imported_late

from .settings import SkillsEntry, SkillToolSettings

FLEXCHAT_API = (0, 1)


def _check(read: Any) -> None:
    if "skills" in read.config.tables:
        from .checking import check_skills

        check_skills(read)


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register the table, which describes a tool source."""
    yield ConfigTable(
        name="skills",
        load=lambda: SkillsEntry,
        summary="Folders of skills: instructions that a model loads when it needs them.",
        is_list=True,
        source=imported_late("flexchat_skills.source", "open_source"),
    )


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer the check of the folders."""
    yield ConfigCheck(name="skills", run=_check, at_start=True)


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Offer the calls of load_skill and read_skill_file."""
    yield ImplementationType(
        name="skill",
        settings_class=SkillToolSettings,
        run=imported_late("flexchat_skills.calling", "run"),
        summary="loads a skill, or reads a file of one; made of the table skills",
    )


@hookimpl
def flexchat_register_chat_hooks(tables: Mapping[str, Any]) -> Iterable[object]:
    """Make the gate of a chat with skills."""
    if "skills" in tables:
        from .narrowing import Narrowing

        yield Narrowing()
