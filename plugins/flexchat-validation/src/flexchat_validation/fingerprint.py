"""The validity of results: hashes of tools and cases, and their differences from those of an earlier result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ModelInfo, ProviderError, ToolDefinition
from flexchat.host import ResponseRule, RuleTools

from .attempts import ModelKey
from .cases import Case, ValidationTable, is_set

if TYPE_CHECKING:
    from flexchat import FlexChat


LIST_S = 10.0
"""Seconds a service has to list its models."""

_RELEVANT = {"prompt", "max_tokens", "temperature"}
"""Keys of [validation] that change the requests to a model."""


def tools_hash(tools: Iterable[ToolDefinition]) -> str:
    """Return the SHA-256 of the parts of tools a model sees; their order and implementation do not matter."""
    return _sha256(_comparable(tools))


def case_hash(case: Case, tools: Iterable[ToolDefinition], table: ValidationTable | None = None) -> str:
    """Return the SHA-256 of a case's messages and expectations, its settings, and the tools it offers.

    Its name, its tags and keys that are not set do not count, so that keys added in the future change no hash.

    Args:
        tools: The config's, or those offered; they may include the case's own or not.
        table: Its prompt, temperature and the like count; the case's own values take precedence.
    """
    offered = allowed_tools(case, tools)
    settings = attrs.asdict(table, filter=_is_relevant) if table is not None else {}
    keys = {**settings, **attrs.asdict(case, filter=is_set)}
    return _sha256([{key: value for key, value in keys.items() if key not in ("name", "tags")}, _comparable(offered)])


def allowed_tools(case: Case, tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """Return those of the config's tools that a case offers; see ToolRegistry.offer."""
    tools, own = [*tools], {tool.name for tool in case.own_tools}
    unsourced = {tool.name for tool in tools if tool.source is None}

    def is_named(tool: ToolDefinition, names: Collection[str]) -> bool:
        # The name alone means the tool of no source, if there is one: sources may have others of the same name.
        is_its_name = tool.name in names and (tool.source is None or tool.name not in unsourced)
        return is_its_name or f"{tool.source}/*" in names

    return [tool for tool in tools if tool.name not in own and (case.tools is None or is_named(tool, case.tools))]


def case_hashes(
    cases: Iterable[Case], tools: Sequence[ToolDefinition], table: ValidationTable | None = None
) -> dict[str, str]:
    """Return the hash of each case by name, in order, for summarise to compare results with."""
    return {case.name: case_hash(case, tools, table) for case in cases}


class Keys:
    """Computes the current key of a model, with this chat's tools and plugins.

    Args:
        listed: The models that services list, for their digests; None if a service does not report them or does not
        answer.
    """

    def __init__(self, chat: FlexChat, listed: Mapping[str, Sequence[ModelInfo] | ProviderError] | None = None) -> None:
        self._packages, self._tools = chat.packages, tools_hash(chat.tools.get_registry().list())
        self._digests = {
            f"{service}/{model.id}": model.digest
            for service, models in (listed or {}).items()
            if not isinstance(models, ProviderError)
            for model in models
        }

    def __call__(self, model_id: str) -> ModelKey:
        """Return it for "LLM/MODEL"."""
        return ModelKey(
            model_id=model_id,
            digest=self._digests.get(model_id),
            package=self._packages.get(model_id.partition("/")[0], ""),
            tools=self._tools,
        )


async def open_tools(chat: FlexChat) -> None:
    """Open all tool sources: their tools are part of a case's offer and of its hash."""
    await chat.tools.ready_for(ResponseRule(llm="", tools=RuleTools()))


async def model_keys(chat: FlexChat, model_ids: Iterable[str]) -> dict[str, ModelKey]:
    """Compute the current keys of models, by "LLM/MODEL"; requests the lists of models from their services."""
    await open_tools(chat)  # before the hash of the tools is computed
    ids = tuple(dict.fromkeys(model_ids))
    services = {id.partition("/")[0] for id in ids}
    keys = Keys(chat, await chat.list_models(timeout_s=LIST_S, llms=services) if ids else None)
    return {id: keys(id) for id in ids}


def stale_reasons(old: ModelKey, now: ModelKey) -> tuple[str, ...]:
    """Compare two keys; return the reasons for which results of the old one are stale, one sentence each.

    A value that is unknown in either key is not a reason.
    """
    reasons = []
    if old.digest and now.digest and old.digest != now.digest:
        reasons.append("the model behind this name was replaced")
    if old.package and now.package and old.package != now.package:
        reasons.append(f"{old.package} is now {_version(old.package, now.package)}")
    if old.tools and now.tools and old.tools != now.tools:
        reasons.append("the tools have changed")
    return tuple(reasons)


def _is_relevant(field: attrs.Attribute[Any], value: Any) -> bool:
    return field.name in _RELEVANT and is_set(field, value)


def _version(old: str, now: str) -> str:
    name, _, version = now.rpartition(" ")
    return version if name and old.rpartition(" ")[0] == name else now


def _comparable(tools: Iterable[ToolDefinition]) -> list[list[Any]]:
    return sorted([tool.name, tool.description, _canonical(tool.parameters)] for tool in tools)


def _sha256(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
