"""Imports questions of the Berkeley Function Calling Leaderboard (version 4) as cases.

A file of questions has a JSON object on each line: id, question (a list of turns, each a list of messages) and function
(the tools on offer, with Python types); the ground truth is in a file of the same name in a folder possible_answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flexchat.host import path_exists

from ..case_files import failed, json_lines
from ..cases import Case, CaseTool
from ..checking import Offered, find_issues
from ..reading import Imported

# Its names for types, and their JSON Schema equivalents; every other name means text.
# Source: bfcl-eval 2026.3.23, constants/type_mappings.py (GORILLA_TO_OPENAPI).
_TYPES = {
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("number", "float", "double"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "ArrayList", "Array", "Queue", "Stack"), "array"),
    **dict.fromkeys(("object", "dict", "HashMap", "Hashtable"), "object"),
}

_NOT_TAKEN = {
    "multi_turn": "its questions of several turns need its own simulated programs",
    "memory": "its questions about memory need its own store",
    "web_search": "its web searches need the network",
    "simple_javascript": "calls of JavaScript are judged by JavaScript's syntax",
    "simple_java": "calls of Java are judged by Java's syntax",
    "live_relevance": "it only expects some call, not which one",
    "format_sensitivity": "it is about the format of prompts, not about tools",
}


def read_bfcl(questions: Path, answers: Path | None = None, *, limit: int | None = None) -> Imported:
    """Return the questions of a file as cases that the leaderboard's rules judge.

    Args:
        answers: The file of ground truths; default: the one in a folder possible_answer next to the questions.
        limit: Maximum number of cases.

    Raises:
        ConfigError: A file cannot be read, or belongs to a category that cannot be imported.
    """
    category = category_of(questions)
    for word, reason in _NOT_TAKEN.items():
        if category.startswith(word):
            raise failed(questions, f"the leaderboard's category {category} cannot be imported: {reason}")
    abstains = "irrelevance" in category
    rows = json_lines(questions)
    beside = questions.parent / "possible_answer" / questions.name
    truths = {} if abstains else _ground_truths(answers or beside, questions)
    cases: list[Case] = []
    notes: list[str] = []
    for line, row in rows:
        if limit is not None and len(cases) >= limit:
            break
        id = str(row.get("id") or f"{category}_{line}")
        try:
            case = _case(id, row, category, None if abstains else truths.get(id))
        except _LeftOutError as reason:
            notes.append(f"{id}: left out: {reason}")
            continue
        wrong = next(find_issues(case, Offered()), None)
        if wrong is not None:
            notes.append(f"{id}: left out: {wrong.sentence()}")
        else:
            cases.append(case)
    return Imported(cases=tuple(cases), notes=tuple(notes))


def category_of(questions: Path) -> str:
    """Extract the category from a file's name: BFCL_v4_live_simple.json is live_simple."""
    return re.sub(r"^BFCL_v\d+_", "", questions.stem)


def json_schema_of(schema: Any) -> Any:
    """Return parameters with JSON Schema's names for types, at every depth."""
    if not isinstance(schema, Mapping):
        return schema
    converted = dict(schema)
    if isinstance(converted.get("type"), str):
        converted["type"] = _TYPES.get(converted["type"], "string")
    if isinstance(converted.get("properties"), Mapping):
        converted["properties"] = {name: json_schema_of(inner) for name, inner in converted["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in converted:
            converted[keyword] = json_schema_of(converted[keyword])
    return converted


class _LeftOutError(Exception):
    """A question cannot be imported; the text gives the reason."""


def _case(id: str, row: Mapping[str, Any], category: str, truth: Any) -> Case:
    if "irrelevance" not in category and truth is None:
        raise _LeftOutError("there is no ground truth for it")
    if truth is not None and not (isinstance(truth, list) and all(isinstance(call, Mapping) for call in truth)):
        raise _LeftOutError("its ground truth is not a list of calls")
    prompt, message = _parse_question(row.get("question"))
    return Case(
        name=id,
        message=message,
        prompt=prompt,
        no_call=truth is None,
        possible_answers=None if truth is None else tuple(truth),
        tools=(),
        own_tools=tuple(_tool(function) for function in _listed(row.get("function"))),
        max_iterations=1,
        judge="bfcl",
        tags=(category,),
    )


def _parse_question(question: Any) -> tuple[str | None, str]:
    turns = question if isinstance(question, list) else []
    if len(turns) != 1 or not isinstance(turns[0], list):
        raise _LeftOutError("its question does not have exactly one turn")
    messages = [m for m in turns[0] if isinstance(m, Mapping) and isinstance(m.get("content"), str)]
    roles = [message.get("role") for message in messages]
    if len(messages) != len(turns[0]) or roles not in (["user"], ["system", "user"]):
        raise _LeftOutError("its question is a conversation, not one message")
    prompt = str(messages[0]["content"]) if len(messages) == 2 else None
    return prompt, str(messages[-1]["content"])


def _tool(function: Any) -> CaseTool:
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise _LeftOutError("one of its functions has no name")
    name = function["name"]
    return CaseTool(
        name=name,
        description=str(function.get("description") or "").strip() or name,
        parameters=json_schema_of(function.get("parameters") or {"type": "object", "properties": {}}),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _ground_truths(file: Path, questions: Path) -> dict[str, Any]:
    if not path_exists(file):
        raise failed(questions, f"its ground truth is needed: there is no file {file}; name it with --answers")
    return {str(row.get("id")): row.get("ground_truth") for _, row in json_lines(file)}
