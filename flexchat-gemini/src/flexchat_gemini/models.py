"""The list of models a server offers."""

from __future__ import annotations

from flexchat_sdk import ModelInfo

from .traits import UNKNOWN, traits_of


def read_models(body: object) -> tuple[tuple[ModelInfo, ...], str | None]:
    """Read a page of ``GET /models``; return its models and the token of the next page, None on the last.

    Raises:
        ValueError: It is not a list of models.
    """
    items = body.get("models", body.get("publisherModels")) if isinstance(body, dict) else None
    if not isinstance(body, dict) or not (isinstance(items, list) or body == {}):
        raise ValueError("no list of models")
    token = body.get("nextPageToken")
    models = tuple(_model(item) for item in items or () if isinstance(item, dict) and isinstance(item.get("name"), str))
    return models, token if isinstance(token, str) and token else None


def _model(item: dict[str, object]) -> ModelInfo:
    title, length = item.get("displayName"), item.get("inputTokenLimit")
    name = str(item["name"])
    # Models that are not the service's own keep their kind: tunedModels/x.
    name = name.removeprefix("models/").removeprefix("publishers/google/models/")
    return ModelInfo(
        id=name,
        name=title if isinstance(title, str) else None,
        capabilities=_capabilities(name, item),
        context_length=length if type(length) is int else None,
    )


def _capabilities(name: str, item: dict[str, object]) -> frozenset[str]:
    """Read a model's capabilities; for Google's own models, add tools and media, which the service does not list."""
    methods = item.get("supportedGenerationMethods")
    if not isinstance(methods, list):
        return frozenset()
    found = set()
    if any(isinstance(method, str) and method.lower().endswith("embedcontents") for method in methods) or (
        "embedContent" in methods
    ):
        found.add("embedding")
    if "generateContent" in methods:
        traits = traits_of(name)
        if traits is UNKNOWN:
            return frozenset()  # "chat" alone would mean that the model has no tools
        found.add("chat")
        found |= {"tools"} if traits.tools else set()
        found |= {"vision", "audio"} if traits.media else set()
        found |= {"reasoning"} if item.get("thinking") is True else set()
    return frozenset(found)
