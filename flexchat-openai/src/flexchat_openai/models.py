"""The list of models a server offers."""

from __future__ import annotations

from typing import Any

from flexchat_sdk import ModelInfo

# The fields for a model's context length: OpenRouter and Together, vLLM, Groq, Mistral.
_LENGTHS = ("context_length", "max_model_len", "context_window", "max_context_length")
# Mistral's words.
_MISTRAL = {"completion_chat": "chat", "function_calling": "tools", "vision": "vision", "reasoning": "reasoning"}


def read_models(body: object) -> tuple[ModelInfo, ...]:
    """Read a ``GET /models`` answer. OpenAI gives only a name; nothing is guessed from it.

    Raises:
        ValueError: It is not a list of models.
    """
    items = body.get("data", body.get("models")) if isinstance(body, dict) else body  # Together sends the bare list
    if not isinstance(items, list):
        raise ValueError("no list of models")
    return tuple([_model(i) for i in items if isinstance(i, dict) and isinstance(i.get("id"), str) and i["id"]])


def _model(item: dict[str, Any]) -> ModelInfo:
    name = item.get("name")
    return ModelInfo(
        id=item["id"],
        name=name if isinstance(name, str) and name else None,
        capabilities=frozenset(_capabilities(item)),
        context_length=_context_length(item),
    )


def _capabilities(item: dict[str, Any]) -> set[str]:
    """Read a model's capabilities from a server that lists all of them: a missing one is not supported."""
    if item.get("type") == "embedding":  # Together
        return {"embedding"}
    told = item.get("capabilities")
    if isinstance(told, dict) and "completion_chat" in told:
        return {word for key, word in _MISTRAL.items() if told.get(key) is True}
    parameters, architecture = item.get("supported_parameters"), item.get("architecture")
    if not isinstance(parameters, list) or not isinstance(architecture, dict):
        return set()
    found = {"chat"}  # OpenRouter
    found |= {"tools"} if "tools" in parameters else set()
    found |= {"reasoning"} if "reasoning" in parameters else set()
    modalities = architecture.get("input_modalities")
    if isinstance(modalities, list):
        found |= {"vision"} if "image" in modalities else set()
        found |= {"audio"} if "audio" in modalities else set()
    return found


def _context_length(item: dict[str, Any]) -> int | None:
    meta = item.get("meta")  # llama.cpp: what it was started with
    lengths = [item.get(key) for key in _LENGTHS] + [meta.get("n_ctx") if isinstance(meta, dict) else None]
    return next((length for length in lengths if type(length) is int and length > 0), None)
