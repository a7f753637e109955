"""The question whether a call may run: its text, its schema, and the keys under which its reply counts again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flexchat.host import Mask, copied, schema_problems, visible
from flexchat.plugin import Call, TurnInfo
from flexchat.store import PendingQuestion

from .policies import Policy

_DATA = ("const", "default", "enum", "examples")  # keywords whose values are no schemas
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")  # tables of schemas
_ARGUMENTS = "#/properties/arguments"


def message_of(call: Call, mask: Mask) -> str:
    """Return the text of the question: all arguments, invisible characters escaped."""
    tool = call.tool
    assert tool is not None
    name = call.name if tool.source is None else f"{tool.source}/{call.name}"
    if not call.arguments:
        return f"Run {name} without arguments?"
    return f"Run {name} with {visible(json.dumps(mask.data(call.arguments), ensure_ascii=False))}?"


def schema_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a yes, which may bring a note, or other arguments that fit the tool's parameters."""
    own = copied(parameters)
    dialect = {"$schema": own.pop("$schema")} if "$schema" in own else {}
    properties = {"arguments": _moved(own), "note": {"type": "string", "description": "A remark, for the record."}}
    schema = {**dialect, "type": "object", "properties": properties, "additionalProperties": False}
    # Two levels deeper, the parameters may exceed a limit. The edited call is checked against them unchanged.
    if schema_problems(schema):
        schema["properties"] = {**properties, "arguments": {"type": "object"}}
    return schema


def _moved(schema: Any) -> Any:
    """Return a schema whose references lead to the same parts below ``arguments``."""
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: each if name in _DATA else _moved(each) for name, each in schema.items() if name not in _NAMED}
    for name in _NAMED:
        if isinstance(subschemas := schema.get(name), dict):
            moved[name] = {own: _moved(each) for own, each in subschemas.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = _ARGUMENTS + reference[1:]
    return moved


def edited_arguments(content: Mapping[str, Any], call: Call, mask: Mask) -> dict[str, Any] | None:
    """Return the arguments that a reply brings; None if they are those of the call.

    What the person saw masked, and left so, stays.
    """
    if "arguments" not in content:
        return None
    now = copied(call.arguments)
    edited = _unmasked(content["arguments"], mask.data(now), now)
    return None if _canonical(edited) == _canonical(now) else edited


def approves(row: PendingQuestion, call: Call, mask: Mask) -> bool:
    """Return whether a reply lets a call run with the arguments that it has now."""
    if row.reply is None or row.reply.action != "accept":
        return False
    if "arguments" in row.reply.content:
        return edited_arguments(row.reply.content, call, mask) is None
    return _canonical(row.question.details.get("arguments")) == _canonical(mask.data(copied(call.arguments)))


def counts_again(row: PendingQuestion) -> bool:
    """Return whether a reply lets further calls run.

    Only a yes does, and only once its own call has run with it: one that brings other arguments approves nothing.
    """
    return bool(row.remembered and row.used_by and row.reply is not None and row.reply.action == "accept")


def _unmasked(edited: Any, masked: Any, original: Any) -> Any:
    if _canonical(edited) == _canonical(masked):
        return original
    if isinstance(edited, Mapping) and isinstance(original, Mapping):
        return {name: _unmasked(each, masked.get(name), original.get(name)) for name, each in edited.items()}
    if isinstance(edited, list) and isinstance(original, list) and len(edited) == len(original):
        return [_unmasked(*each) for each in zip(edited, masked, original, strict=True)]
    return edited


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def keys_of(call: Call, policy: Policy) -> dict[str, str]:
    """Return the keys under which a reply to the question about a call counts again, by scope.

    "conversation": this tool with these arguments, in this conversation. "always": the same, for this tenant. "": under
    ``ask = "once"``, this tool in this conversation, with any yes. All are for this definition of the tool, and
    this policy. Without a kept conversation, there is only "always".
    """
    conversation = call.turn.conversation
    if policy.ask == "once":
        return {} if conversation is None else {"": _key(call, policy, "once", conversation, {})}
    keys = {"always": _key(call, policy, "always", None, call.arguments)}
    if conversation is not None:
        keys = {"conversation": _key(call, policy, "conversation", conversation, call.arguments), **keys}
    return keys


def _key(call: Call, policy: Policy, scope: str, conversation: str | None, arguments: Mapping[str, Any]) -> str:
    """Return the digest of a call that stands for all those of its scope."""
    turn = TurnInfo(tenant=call.turn.tenant, conversation=conversation)
    all_of_scope = Call(name=call.name, arguments=arguments, origin="program", tool=call.tool, turn=turn, path=scope)
    return all_of_scope.approval_digest({"scope": scope, "policy": policy.to_data()})
