"""What a result is valid for: hashes of tools and cases, and how they differ from those of an earlier result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ModelInfo, ProviderError, ToolDefinition

from .attempts import ModelKey
from .cases import Case, ValidationTable

if TYPE_CHECKING:
    from flexchat import FlexChat


LIST_S = 10.0
"""Seconds a service has to list its models."""

_ASKED_WITH = {"prompt", "max_tokens", "temperature"}
"""Keys of [validation] that change what a model is asked."""


def tools_hash(tools: Iterable[ToolDefinition]) -> str:
    """Return the SHA-256 of what a model sees of tools; their order, and how they are run, do not matter."""
    return _sha256(_comparable(tools))


def case_hash(case: Case, tools: Iterable[ToolDefinition], table: ValidationTable | None = None) -> str:
    """Return the SHA-256 of what a case asks and expects, the settings it is asked with, and the tools it offers.

    Its name, its tags and keys that are not set do not count, so that keys added in the future change no hash.

    Args:
        tools: The config's, or those offered; they may include the case's own or not.
        table: Its prompt, temperature and the like count; the case's own values take precedence.
    """
    own = {tool.name for tool in case.own_tools}
    offered = [tool for tool in tools if tool.name not in own and (case.tools is None or tool.name in case.tools)]
    settings = attrs.asdict(table, filter=_is_asked_with) if table is not None else {}
    asked = {**settings, **attrs.asdict(case, filter=_is_said)}
    return _sha256([{key: value for key, value in asked.items() if key not in ("name", "tags")}, _comparable(offered)])


def case_hashes(
    cases: Iterable[Case], tools: Sequence[ToolDefinition], table: ValidationTable | None = None
) -> dict[str, str]:
    """Return the hash of each case by name, in order: what summarise compares results with."""
    return {case.name: case_hash(case, tools, table) for case in cases}


class Keys:
    """Says what a model's results are valid for now, with this chat's tools and plugins.

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


async def model_keys(chat: FlexChat, model_ids: Iterable[str]) -> dict[str, ModelKey]:
    """Compute the current keys of models, by "LLM/MODEL"; requests the lists of models from their services."""
    wanted = tuple(dict.fromkeys(model_ids))
    services = {id.partition("/")[0] for id in wanted}
    keys = Keys(chat, await chat.list_models(timeout_s=LIST_S, llms=services) if wanted else None)
    return {id: keys(id) for id in wanted}


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


def _is_said(field: attrs.Attribute[Any], value: Any) -> bool:
    default = field.default
    return bool(value != ({} if isinstance(default, attrs.Factory) else default))  # type: ignore[arg-type]


def _is_asked_with(field: attrs.Attribute[Any], value: Any) -> bool:
    return field.name in _ASKED_WITH and _is_said(field, value)


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
