"""Reads an output item of the Responses API, whole or streamed."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from flexchat_sdk import WrongShape, known_text, list_in, objects_of, text_in

from .chat_calls import arguments_text

SCOPE = "openai.responses"
"""Scope of what this API received and may get back: see ProviderData."""


def kind_of(item: Mapping[str, Any]) -> str:
    """Return an item's type; some servers omit it for messages. An unreadable type is inferred from the keys."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if item.get("role") == "assistant":
        return "message"
    if all(isinstance(item.get(key), str) for key in ("call_id", "name", "arguments")):
        return "function_call"
    return "reasoning" if isinstance(item.get("summary"), list) else ""


IMAGE_CALL = "image_generation_call"
"""Item of an image that the service's own tool has made; its ``result`` is the image in Base64."""


def image_of(item: Mapping[str, Any]) -> bytes | None:
    """Return the image that an item brings; None if there is none to read."""
    result = item.get("result")
    try:
        return base64.b64decode(result, validate=True) or None if isinstance(result, str) else None
    except ValueError:
        return None


def text_of(item: Mapping[str, Any]) -> str:
    """Return the text of a message item.

    Raises:
        WrongShape: A value is not text where text is expected.
    """
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(_texts_of(item, "text", ("output_text", "text")))


def refusal_of(item: Mapping[str, Any]) -> str:
    """Return the refusal text of a message item. Raises like text_of."""
    return "" if isinstance(item.get("content"), str) else "".join(_texts_of(item, "refusal", ("refusal",)))


def thought_of(item: Mapping[str, Any]) -> str:
    """Return a reasoning item's text: its summary or, if there is none, the thought itself."""
    return "\n\n".join([*_thoughts(item.get("summary"))] or [*_thoughts(item.get("content"))])


def annotations_of(item: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the citations in a message item."""
    collected: list[Mapping[str, Any]] = []
    content = item.get("content")
    for part in content if isinstance(content, list) else ():
        annotations = part.get("annotations") if isinstance(part, dict) else None
        if isinstance(annotations, list):
            collected.extend(a for a in annotations if isinstance(a, dict))
    return tuple(collected)


def arguments_of(item: Mapping[str, Any]) -> str:
    """Return the arguments of a call as text. Raises like text_of."""
    arguments = item.get("arguments")
    return arguments_text(arguments) if isinstance(arguments, dict) else text_in(item, "arguments", "item")


def name_of(item: Mapping[str, Any]) -> str:
    """Return the name of the tool a call asks for. Raises like text_of, also if it is missing."""
    name = item.get("name")
    if not isinstance(name, str):
        raise WrongShape("item.name", "text", name)
    return name


def id_of(item: Mapping[str, Any]) -> str | None:
    """Return an item's id if it is valid."""
    item_id = item.get("id")
    return item_id if isinstance(item_id, str) and item_id else None


def _texts_of(item: Mapping[str, Any], key: str, kinds: tuple[str, ...]) -> Iterator[str]:
    """Yield what a message's parts hold under a key. A part with an unreadable type is recognized by its key."""
    for path, part in objects_of(list_in(item, "content", "item", needed=True), "item.content"):
        kind = part.get("type")
        if kind in kinds or (key in part and not isinstance(kind, str)):
            yield text_in(part, key, path, needed=True)


def _thoughts(parts: object) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and (text := known_text(part.get("text"))):
            yield text


class ItemDraft:
    """One output item being read.

    Attributes:
        item: As the server last described it.
        index: Its place in the answer, if the server numbers the items.
        after: Id of the reasoning that led to it.
        pieces: The pieces of its text, thought or arguments that have been passed on.
        position: Index of its part.
    """

    def __init__(self, item: dict[str, Any], index: int | None, position: int, after: str | None) -> None:
        self.item = item
        self.index = index
        self.position = position
        self.after = after
        self.pieces: list[str] = []
        self.refusal = ""
        self.refusal_position = -1
        self.thought_part: object = None
        self.announced = False
        self.is_done = False

    @property
    def kind(self) -> str:
        """Return the item's type."""
        return kind_of(self.item)

    @property
    def text(self) -> str:
        """Return the pieces, joined."""
        return "".join(self.pieces)

    def with_pieces(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the item's final form, completed from its pieces where it lacks their content."""
        text = self.text
        if self.kind == "function_call":
            return item if arguments_of(item) or not text else {**item, "arguments": text}
        if self.kind == "reasoning":
            if not text or thought_of(item) or item.get("encrypted_content"):
                return item
            return {**item, "summary": [{"type": "summary_text", "text": text}]}
        if self.kind != "message" or text_of(item) or refusal_of(item) or not (text or self.refusal):
            return item
        content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
        if self.refusal:
            content.append({"type": "refusal", "refusal": self.refusal})
        return {"role": "assistant", **item, "content": content}
