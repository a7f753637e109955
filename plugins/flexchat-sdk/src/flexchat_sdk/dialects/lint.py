"""Predicts, before any request, what services will do with tools: accept, rewrite or refuse them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import attrs
from flexchat.domain import ToolDefinition
from flexchat.tools.registry import wire_names

from .rewrite import rewrite
from .schema_dialect import SchemaDialect, SchemaNote

Outcome = Literal["accepted", "rewritten", "refused"]

_MAX_NOTES = 3  # most notes named in a sentence


@attrs.frozen(kw_only=True)
class ToolFinding:
    """The outcome of writing one tool in one dialect.

    Attributes:
        tool: The tool's name; empty for a finding about all tools together.
        dialect: Name of the SchemaDialect: "openai.strict".
        outcome: "accepted" unchanged, "rewritten" (the notes list the losses) or "refused" (the notes give the reason
            and an alternative).
    """

    tool: str
    dialect: str
    outcome: Outcome
    notes: tuple[SchemaNote, ...] = ()

    @property
    def sentence(self) -> str | None:
        """What a person should know, in one sentence; None if nothing is lost."""
        errors = [note for note in self.notes if note.severity == "error"]
        if not (notes := errors or [note for note in self.notes if note.severity == "warning"]):
            return None
        first: dict[str, SchemaNote] = {}
        for note in notes:
            first.setdefault(note.message, note)
        texts = [f"at {n.pointer}: {n.message}" if n.pointer else n.message for n in first.values()]
        more = f" (and {len(texts) - _MAX_NOTES} more: flexchat tools lint)" if len(texts) > _MAX_NOTES else ""
        verb = f"cannot be sent to {self.dialect}" if errors else f"is changed for {self.dialect}"
        who = f"tool '{self.tool}' {verb}" if self.tool else f"the tools for {self.dialect}"
        return f"{who}: {'; '.join(texts[:_MAX_NOTES])}{more}"


def lint_tools(tools: Iterable[ToolDefinition], dialects: Mapping[str, SchemaDialect]) -> tuple[ToolFinding, ...]:
    """Check each tool against each dialect; findings are ordered by tool, then by dialect.

    Args:
        tools: The tools that may be sent together.
        dialects: By name, as in ProviderType.schema_dialects.
    """
    tools = [*tools]
    sent = wire_names(tool.name for tool in tools)
    problems = []
    for tool in tools:
        wire_name = sent[tool.name]
        renamed = (_note("info", "name", f"is sent under the name {wire_name}"),) if wire_name != tool.name else ()
        for name, dialect in dialects.items():
            rewritten = rewrite(tool.parameters, dialect, renames=True)
            notes = renamed + _too_long(tool, dialect) + rewritten.notes
            outcome: Outcome = "refused" if rewritten.schema is None else "rewritten" if notes else "accepted"
            problems.append(ToolFinding(tool=tool.name, dialect=name, outcome=outcome, notes=notes))
    for name, dialect in dialects.items():
        if dialect.max_tools is not None and len(tools) > dialect.max_tools:
            text = f"there are {len(tools)}, a request accepts {dialect.max_tools}; let each rule allow fewer"
            problems.append(ToolFinding(tool="", dialect=name, outcome="accepted", notes=(_note("warning", "", text),)))
    return tuple(problems)


def portable_definition(tool: ToolDefinition) -> tuple[ToolDefinition, tuple[SchemaNote, ...]]:
    """Rewrite a tool's parameters into the form that most services accept; return it with notes on the changes.

    No check is weakened: constraints stay, because calls are validated against them locally. Parts that cannot be made
    portable also stay; lint_tools reports them.
    """
    rewritten = rewrite(tool.parameters, PORTABLE)
    if rewritten.schema is None or any(note.severity == "warning" for note in rewritten.notes):
        return tool, ()
    return attrs.evolve(tool, parameters=rewritten.schema), rewritten.notes


def _note(severity: Literal["info", "warning"], keyword: str, message: str) -> SchemaNote:
    return SchemaNote(severity=severity, pointer="", keyword=keyword, message=message)


def _too_long(tool: ToolDefinition, dialect: SchemaDialect) -> tuple[SchemaNote, ...]:
    size, most = len(tool.description), dialect.max_description
    if most is None or size <= most:
        return ()
    text = f"the tool's description has {size} characters, the service accepts {most}; shorten it"
    return (_note("warning", "description", text),)


PORTABLE = SchemaDialect(
    name="portable",
    keywords={
        "const": "as enum",
        "nullable": "as type",
        "allOf": "merge",
        "$ref": "alone",
        **dict.fromkeys(("title", "$schema", "$comment", "discriminator", "xml", "externalDocs"), "drop"),
    },
    root={"$ref": "write out"},
    formats={},
    fold_enums=True,
    bare_array="any",
    empty_properties="add",
)
"""The spelling every service understands without loss."""
