"""The list of models a server offers."""

from __future__ import annotations

from flexchat.plugin import ModelInfo


def read_models(body: object) -> tuple[ModelInfo, ...]:
    """Read a ``GET /models`` answer. Most servers tell a name; OpenRouter also what a model can do.

    Raises:
        ValueError: It is no list of models.
    """
    items = body.get("data", body.get("models")) if isinstance(body, dict) else body  # Together sends the bare list
    if not isinstance(items, list):
        raise ValueError("no list of models")
    return tuple(_model(item) for item in items if isinstance(item, dict) and isinstance(item.get("id"), str))


def _model(item: dict[str, object]) -> ModelInfo:
    found = set()
    parameters, architecture = item.get("supported_parameters"), item.get("architecture")
    if isinstance(parameters, list) and "tools" in parameters:
        found.add("tools")
    modalities = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    if isinstance(modalities, list) and "image" in modalities:
        found.add("vision")
    name = item.get("name")
    return ModelInfo(id=str(item["id"]), name=name if isinstance(name, str) else None, capabilities=frozenset(found))
