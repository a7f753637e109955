"""Loading, creating and closing LangChain chat models."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import re
import urllib.parse
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from typing import Any

from flexchat.host import did_you_mean, secrets_of_environment
from flexchat_sdk import error_name
from langchain_core.language_models import BaseChatModel
from pydantic import AliasChoices, SecretStr, ValidationError

_MODEL_KEYS = ("model", "model_name", "model_id")
_ADDRESS_KEYS = ("base_url", "api_base", "endpoint_url", "endpoint", "anthropic_api_url", "openai_api_base")
# Attributes with clients owned by one model; ChatAnthropic and ChatOpenAI share theirs within the process.
_OWN_CLIENTS = {"ChatOllama": "_async_client"}
_SECRET = re.compile(r"(?i)(key|token|secret|passw|credential|auth|header)")
_MIN_SECRET_CHARS = 6
_MISSPELT = 0.8  # similarity, 0 to 1, from which a setting counts as a misspelling of a field


def load_class(path: str, settings: Mapping[str, Any]) -> type[BaseChatModel]:
    """Import the chat model class MODULE:CLASS and check the settings for it.

    Raises:
        ValueError: The class does not exist or is not a chat model, or a setting is a misspelt field name. LangChain
            would drop such a setting, or send it to the service with every request.
    """
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        package = module_name.partition(".")[0]
        todo = ""
        if error.name == package:  # Otherwise an import inside the module failed.
            todo = did_you_mean(package, packages_distributions()) or f": pip install {package.replace('_', '-')}"
        raise ValueError(f"class_path: {module_name} cannot be imported ({error}){todo}") from None
    except Exception as error:  # noqa: BLE001  whatever a module does when it is imported
        raise ValueError(f"class_path: importing {module_name} failed: {error_name(error)}") from None
    cls = getattr(module, name, None)
    if cls is None:
        raise ValueError(f"class_path: {module_name} has no {name}{did_you_mean(name, dir(module))}")
    if not (isinstance(cls, type) and issubclass(cls, BaseChatModel)) or inspect.isabstract(cls):
        raise ValueError(f"class_path: {path} is not a LangChain chat model (not a BaseChatModel)")
    fields_of_class = _keys(cls)
    for key in settings.keys() - fields_of_class:
        if fields := difflib.get_close_matches(key, fields_of_class, n=1, cutoff=_MISSPELT):
            raise ValueError(f"settings: {name} has no '{key}' (did you mean '{fields[0]}'?)")
    return cls


def make_model(
    cls: type[BaseChatModel], name: str, usual: Mapping[str, Any], settings: Mapping[str, Any]
) -> BaseChatModel:
    """Create a chat model.

    Args:
        name: Name of the model, passed under the key the class uses for it; empty to use the settings.
        usual: Default settings, for classes that have these fields.

    Raises:
        ValueError: The class rejects the settings.
    """
    keys = _keys(cls)
    arguments = {**{key: value for key, value in usual.items() if key in keys}, **settings}
    model_key = next((key for key in _MODEL_KEYS if key in keys), None)
    if name and model_key:
        arguments = {**{key: value for key, value in arguments.items() if key not in _MODEL_KEYS}, model_key: name}
    try:
        return cls(**arguments)
    except ValidationError as error:
        wrong = [": ".join((*map(str, one["loc"]), one["msg"])) for one in error.errors(include_input=False)]
    raise ValueError(f"{cls.__name__} does not take these settings: {'; '.join(wrong)}")


def dropped_settings(cls: type[BaseChatModel], settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that the class would ignore: it has no such field and no model_kwargs."""
    if cls.model_config.get("extra") == "allow" or "model_kwargs" in cls.model_fields:
        return []
    return [key for key in settings if key not in _keys(cls) and key not in _MODEL_KEYS]


def _keys(cls: type[BaseChatModel]) -> set[str]:
    fields = cls.model_fields
    aliases = [field.validation_alias for field in fields.values()]
    names = [one for alias in aliases for one in (alias.choices if isinstance(alias, AliasChoices) else [alias])]
    return {*fields, *(one for one in names if isinstance(one, str))}


def profile_of(cls: type[BaseChatModel], name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what LangChain states about a model that does not exist yet; empty if nothing."""
    profile = settings.get("profile")
    if profile is None:
        model_key = next((key for key in _MODEL_KEYS if key in _keys(cls)), "model")
        values: dict[str, Any] = {model_key: name}
        with contextlib.suppress(Exception):  # an integration's own code; LangChain ignores its errors too
            profile = cls.model_construct(**values)._resolve_model_profile()
    return profile if isinstance(profile, Mapping) else {}


def named_model(settings: Mapping[str, Any]) -> str:
    """Return the model name in the settings; empty if there is none."""
    return next((value for key in _MODEL_KEYS if isinstance(value := settings.get(key), str)), "")


async def close_model(model: BaseChatModel) -> None:
    """Close a model's connections unless they are shared. LangChain has no method for this."""
    client = getattr(model, _OWN_CLIENTS.get(type(model).__name__, ""), None)
    if client is not None:
        with contextlib.suppress(Exception):  # errors on close have no remedy
            await client.close()


def address_of(settings: Mapping[str, Any]) -> str:
    """Return scheme://host[:port] of the service from the settings; empty if they do not name it."""
    for key in _ADDRESS_KEYS:
        value = settings.get(key)
        parts = urllib.parse.urlsplit(value) if isinstance(value, str) else None
        if parts is not None and parts.scheme in ("http", "https") and parts.hostname:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return ""


def secrets_of(settings: Mapping[str, Any]) -> set[str]:
    """Collect secrets to mask: those of the environment, and strings in settings whose name suggests a secret."""
    secrets = set(secrets_of_environment())

    def walk(value: Any, is_secret: bool) -> None:
        if isinstance(value, SecretStr):
            walk(value.get_secret_value(), True)
        elif isinstance(value, str):
            if is_secret and len(value) >= _MIN_SECRET_CHARS and "://" not in value:
                secrets.add(value)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                walk(item, is_secret or bool(_SECRET.search(str(key))))
        elif isinstance(value, list | tuple):
            for item in value:
                walk(item, is_secret)

    walk(settings, False)
    return secrets
