"""Settings of an llms entry with ``provider = "langchain"``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.plugin import key
from flexchat_sdk import HttpSettings

_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_seconds = attrs.fields(HttpSettings).timeout_s.validator


def _class_path(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not _CLASS_PATH.fullmatch(value):
        raise ValueError(f'{attribute.name} must be a module and a class in it, "langchain_ollama:ChatOllama"')


@attrs.frozen(kw_only=True)
class LangChainConfig:
    """A chat model of LangChain.

    The configured class is imported and instantiated, so only trusted users may edit the configuration.
    """

    class_path: str = key(
        'The model\'s class, as MODULE:CLASS: "langchain_ollama:ChatOllama". It is imported.', validator=_class_path
    )
    settings: Mapping[str, Any] = key(
        "What the class is given beside the model's name: base_url, api_key …", factory=dict, repr=False
    )
    timeout_s: float = key("For a whole answer, in seconds.", default=600.0, validator=_seconds)
