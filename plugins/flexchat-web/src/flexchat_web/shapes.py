"""JSON Schemas of requests and answers, and how to make them; for operations of plugins as well."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs
from flexchat import Citation, PendingQuestion
from flexchat.host import NOT_BLANK

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
WORDS: Schema = {"type": "string", "pattern": NOT_BLANK}
NULLABLE_TEXT: Schema = {"type": ["string", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
SWITCH: Schema = {"type": "boolean"}
TABLE: Schema = {"type": "object"}
NULLABLE_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
NULLABLE_TABLE: Schema = {"type": ["object", "null"]}
NULLABLE_SWITCH: Schema = {"type": ["boolean", "null"]}
VARIABLES: Schema = {
    "type": ["object", "null"],
    "description": "Values for {{name}} in prompts, besides the profile's fields; they override the configuration's.",
}
TEXTS: Schema = {"type": "array", "items": TEXT}
TOKENS: Schema = {"type": ["integer", "null"], "minimum": 1, "maximum": 2**31 - 1}
EFFORT: Schema = {"enum": [None, "none", "minimal", "low", "medium", "high", "xhigh", "max"]}
MODEL_OPTIONS: Mapping[str, Schema] = {
    "max_tokens": TOKENS,
    "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
    "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "stop": {"anyOf": [TEXT, {"type": "null"}, {"type": "array", "items": TEXT, "maxItems": 4}]},
    "seed": {"type": ["integer", "null"], "minimum": -(2**63), "maximum": 2**63 - 1},
    "tool_choice": {"enum": [None, "auto", "none", "required"]},
    "parallel_tool_calls": {"type": ["boolean", "null"]},
}
"""What a request may set about the model's answer."""


def listed(item: Any) -> Schema:
    """Return the schema of a list; *item* is a schema or a type, as in ``record``."""
    return {"type": "array", "items": _schema_of_type(item)}


def record(required: Mapping[str, Any], **optional: Any) -> Schema:
    """Return the schema of an object in an answer: these keys, and others as they come.

    A value is a JSON Schema or a Python type: ``str``, ``int`` (from 0), ``float``, ``bool``, ``dict``, ``list[str]``,
    ``str | None``, a ``Literal``.
    """
    properties = {name: _schema_of_type(value) for name, value in {**required, **optional}.items()}
    return {"type": "object", "properties": properties, "required": [*required]}


def schema_of(cls: type, *left_out: str, plus: Mapping[str, Any] = MappingProxyType({})) -> Schema:
    """Derive the schema of an object in an answer from the attributes of its class.

    Args:
        left_out: Attributes that the answer does not have.
        plus: Further keys of the answer, and other schemas of attributes.
    """
    hints = get_type_hints(cls)
    names = [field.name for field in attrs.fields(cls) if field.name not in left_out]
    return record({**{name: hints[name] for name in names}, **plus})


def _schema_of_type(kind: Any) -> Schema:
    if isinstance(kind, Mapping):
        return kind
    args = get_args(kind)
    if get_origin(kind) is Literal:
        return {"enum": [*args]}
    if get_origin(kind) in (tuple, list):
        return listed(args[0])
    if NoneType in args:
        inner = _schema_of_type(next(arg for arg in args if arg is not NoneType))
        return {"type": [inner["type"], "null"]}
    return {str: TEXT, bool: SWITCH, int: COUNT, float: NUMBER}.get(kind, TABLE)


def body_schema(required: Mapping[str, Any], **optional: Any) -> Schema:
    """Create the schema of a request's body, which allows these keys and no others."""
    return {**record(required, **optional), "additionalProperties": False}


MEDIA: Schema = {
    **listed(record({"kind": str, "mime_type": str, "bytes": int}, name=str, sha256=str, data=str)),
    "description": "sha256: for /api/media. Where no media are kept, images have their data instead, in Base64.",
}
TOOL_RESULT = record(
    {"success": bool, "tool_name": str, "execution_time_ms": int},
    result={},
    error=str | None,
    hint=str,
    notes=list[str],
    media=MEDIA,
    left_out={**TEXTS, "description": "Descriptions of further parts, which are not in media."},
)
TOOL_CALL = record(
    {"tool": str, "params": dict, "result": TOOL_RESULT, "iteration": int},
    raw_arguments=str,
    facts={"type": "object", "description": "Additions of steps, by step; effect: its key, if its outcome is unknown."},
)
COST: Schema = {
    **record({"amount": str | None, "currency": str, "unpriced": list[str]}),
    "description": "amount: a decimal number, null if nothing is priced; unpriced: why something is missing from it.",
}
TURN_STATUS: Schema = {"enum": ["done", "cancelled", "failed", "suspended", "accepted"]}
USAGE = {
    **record({}, **dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens"), int)),
    "description": "Tokens; a count that the service does not report is missing.",
}
USAGE["properties"] |= dict.fromkeys(("cache_read_tokens", "cache_write_tokens"), COUNT)
NULLABLE_USAGE = {**USAGE, "type": ["object", "null"]}
ROUND = record(
    {
        "llm": str,
        "model": str,
        "elapsed_ms": float,
        "finish_reason": str | None,
        "reasoning": str,
        "usage": NULLABLE_USAGE,
        "cost": COST,
    }
)
PHASE = record(
    {"phase": str, "outcome": {}, "elapsed_ms": float},
    input={},
    skipped=str,
    warnings=list[str],
    usage=USAGE,
    rounds=listed(ROUND),
)
CITATION = schema_of(Citation)
TURN_FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(("id", "service", "model", "topic"), str),
    **dict.fromkeys(("intent", "rule_name", "finish_reason"), str | None),
    "citations": listed(CITATION),
    "phases": listed(PHASE),
    "status": TURN_STATUS,
    "rule": NULLABLE_COUNT,
    "usage": NULLABLE_USAGE,
    "cost": COST,
    "rounds": listed(ROUND),
    "warnings": list[str],
    "elapsed_ms": float,
}
TURN = record(
    {"content": str, **TURN_FIELDS},
    media=MEDIA,
    tool_calls=listed(TOOL_CALL),
    max_iterations_reached=bool,
    conversation=str,
    traceparent=str,
    parsed={},
    pending={
        "type": "array",
        "items": TABLE,
        "description": "Open questions, as in /api/questions.",
    },
)
_INDEX_TEXT = record({"index": int, "text": str})
_TURN_ID = record({"id": str}, conversation=str | None)
STREAM_EVENTS: Mapping[str, Schema] = {
    "turn_started": _TURN_ID,
    "turn_resumed": _TURN_ID,
    "phase_started": record({"phase": str}),
    "model_request_started": record({"llm": str, "model": str}),
    "model_request_finished": record({"llm": str, "model": str, "elapsed_ms": float}, error=str),
    "text": _INDEX_TEXT,
    "reasoning": _INDEX_TEXT,
    "tool_call": record({"index": int, "name": str}),
    "tool_arguments": record({"index": int, "arguments": str}),
    "tool_started": record({"call_id": str, "name": str}, arguments={}),
    "tool_progress": record({"call_id": str, "name": str}, progress=float, total=float | None, message=str),
    "tool_finished": {**TOOL_CALL, "required": ["call_id", *TOOL_CALL["required"]]},
    "question": record({"id": str, "message": str}),
    "question_answered": record({"id": str, "action": str}, why=str),
    "answer_end": TABLE,
    "turn": TURN,
    "suspended": TABLE,
    "accepted": _TURN_ID,
    "interrupted": record({"detail": str}),
    "error": record({"type": str, "title": str, "status": int, "detail": str}, retry_after=int),
}
"""The data of a turn's events, by their names."""
TURN_PROBLEMS: tuple[int, ...] = (403, 404, 409, 413, 422, 429, 502, 503, 504)
"""What a turn may fail with, in addition to what every request may."""

CONVERSATION_ID: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"}
PAGE: Mapping[str, Schema] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    "before": {"type": "string", "maxLength": 128},
}
"""Parameters of a list that is read in parts."""
MESSAGES: Schema = {
    "type": "array",
    "maxItems": 2_000,
    "items": {
        "type": "object",
        "description": "As OpenAI's API has it, tool_calls and their results included; {type, text}; or as kept.",
        "properties": {
            "role": NULLABLE_TEXT,
            "content": {"type": ["string", "array", "null"]},
            "type": NULLABLE_TEXT,
            "text": NULLABLE_TEXT,
            "parts": {"type": "array"},
            "tool_calls": {"type": ["array", "null"]},
            "tool_call_id": NULLABLE_TEXT,
        },
    },
}
COLLECTIONS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"service": TEXT, "name": NULLABLE_TEXT},
        "required": ["service"],
    },
}

_QUESTION_FIELDS = record(
    dict.fromkeys(("id", "call_id", "tool", "message"), str),
    **{"schema": dict, "details": dict},
    **dict.fromkeys(("url", "digest"), str),
    remember={"type": "object", "description": "Scopes in which a reply may count again."},
    arguments_text={**TEXT, "description": "An approval's arguments in JSON, with all characters visible."},
)
_REPLY_GIVEN = {**record({"action": str, "content": dict, "why": str, "remember": str}), "type": ["object", "null"]}
QUESTION: Schema = schema_of(PendingQuestion, plus={"id": str, "question": _QUESTION_FIELDS, "reply": _REPLY_GIVEN})
"""A kept question in an answer."""

REPLY: Schema = {
    **body_schema(
        {"action": {"enum": ["accept", "decline", "cancel"]}},
        content=dict | None,
        reason={**TEXT, "maxLength": 2000, "description": "Why it is declined, for the tool and the model."},
        remember={**TEXT, "description": "A scope of the question in which the reply counts again."},
    ),
    "examples": [{"action": "accept", "content": {"seat": "window"}}, {"action": "decline", "reason": "too much"}],
}
"""A body with the reply to a question."""
