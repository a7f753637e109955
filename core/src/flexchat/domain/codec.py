"""Frozen values as JSON data and back, with nothing lost: how messages, turns and steps of a journal are stored.

Default values are left out. Readers ignore unknown keys, so that later versions may add some, but refuse an unknown
part or role, because leaving it out would change the conversation. A field whose stored type is not that of its
annotation has it in its metadata, under STORED; None there leaves the field out.

The bytes of media are Base64, or apart from the JSON: then a part has their digest and size as "sha256" and "bytes".
"""

from __future__ import annotations

import base64
import functools
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import attrs

from .messages import (
    STORED,
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from .prices import Price, plain

if TYPE_CHECKING:
    import cattrs

T = TypeVar("T")

_PARTS: dict[str, type] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "refusal": RefusalPart,
    "media": MediaPart,
    "tool_call": ToolCall,
    "opaque": OpaquePart,
}
_MESSAGES: dict[str, type] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
}
_TAGS: dict[type, dict[str, Any]] = {
    **{cls: {"type": name} for name, cls in _PARTS.items()},
    **{cls: {"role": name} for name, cls in _MESSAGES.items()},
    AssistantMessage: {"role": "assistant", "parts": []},  # the key "parts" marks this form
}
_SCALARS: dict[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    int: ((int,), "a number"),  # a bool is an int
    float: ((int, float), "a number"),
    bool: ((bool,), "a boolean"),
}


class MisfitError(ValueError):
    """Data of the wrong form; its text begins with the path: ``messages[2].parts[0]: …``."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path, self.text = path, text

    @classmethod
    def at(cls, step: str, error: Exception) -> MisfitError:
        """Return the error with one more step before its path: a key, or an index in brackets."""
        if not isinstance(error, MisfitError):
            return cls(step, str(error))
        return cls(f"{step}{'' if error.path.startswith('[') else '.'}{error.path}", error.text)


class _WrongTypeError(ValueError):
    """A value that its field's annotation does not allow; the text is that of an item of a list, which has no field."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(text)
        self.value = value


class _UnknownWordError(_WrongTypeError):
    """A value that is none of the words of a Literal."""


# The bytes that are apart from the JSON being written or read, by their digests; None if they are in it, as Base64.
_apart: ContextVar[MutableMapping[str, bytes] | None] = ContextVar("media apart", default=None)
# A part in memory for each digest, so that bytes which are read again are the same object.
_live: weakref.WeakValueDictionary[str, MediaPart] = weakref.WeakValueDictionary()
_DIGEST = re.compile(r'"sha256":"([0-9a-f]{64})"')


def value_to_dict(value: Any, media: MutableMapping[str, bytes] | None = None) -> dict[str, Any]:
    """Return an instance of an attrs class as JSON data.

    Args:
        media: Gets the bytes of media by their digests, which stand for them; without it, they become Base64.
    """
    data: dict[str, Any]
    if media is None:
        data = _converter().unstructure(value)
        return data
    token = _apart.set(media)
    try:
        data = _converter().unstructure(value)
    finally:
        _apart.reset(token)
    return data


def value_from_dict(cls: type[T], data: Any, media: MutableMapping[str, bytes] | None = None) -> T:
    """Return the instance of a class that value_to_dict wrote.

    Args:
        media: Bytes that are apart from the data, by their digests.

    Raises:
        ValueError: The data are something else, or from a newer FlexChat. The text names the wrong field's path.
    """
    if media is None:
        return _converter().structure(data, cls)
    token = _apart.set(media)
    try:
        return _converter().structure(data, cls)
    finally:
        _apart.reset(token)


def digests_in(texts: Iterable[str | None]) -> set[str]:
    """Return the digests of the media that stored JSON texts may need; few of them may be something else."""
    return {digest for text in texts if text and '"sha256":"' in text for digest in _DIGEST.findall(text)}


def live_media(digests: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of those of the media that a message in memory has."""
    parts = [part for digest in digests if (part := _live.get(digest)) is not None]
    return {part.sha256: part.data or b"" for part in parts}


def move_media(data: Mapping[str, Any], media: MutableMapping[str, bytes]) -> bool:
    """Move the Base64 in a stored turn's data apart, in place; return whether there was any."""
    places = [message.get(name) for message in _objects(data.get("messages")) for name in ("media", "parts")]
    places += [_media_of(entry) for entry in _objects(data.get("tool_calls"))]
    is_changed = False
    for part in [part for place in places for part in _objects(place)]:
        if part.get("type") == "media" and isinstance(part.get("data"), str):
            moved = MediaPart(kind="image", mime_type="", data=_read_bytes(part["data"], bytes))
            assert moved.data is not None
            media[moved.sha256] = moved.data
            del part["data"]
            part |= {"sha256": moved.sha256, "bytes": len(moved.data)}
            is_changed = True
    return is_changed


def _objects(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def message_to_dict(message: Message) -> dict[str, Any]:
    """Return a message as JSON data: its role and its content. Media bytes become Base64."""
    return value_to_dict(message)


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Return the message that message_to_dict wrote. Raises as value_from_dict."""
    return _converter().structure(data, Message)  # type: ignore[arg-type]  # a union


IN_MESSAGE = "as in the message"  # in place of a result's media: they are those of the message with the same call's id


def restore_media(turn: Any) -> Any:
    """Return a turn's data with its messages' media put back into its records; unchanged if there are none.

    Turn.to_dict describes a result's media without their bytes; if no message has them, they are lost.
    """
    entries = turn.get("tool_calls") if isinstance(turn, Mapping) else None
    if not isinstance(entries, list) or not any(map(_media_of, entries)):
        return turn
    messages = turn.get("messages")
    sent = {
        message.get("tool_call_id"): message.get("media") or []
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, Mapping) and message.get("role") == "tool"
    }
    restored = []
    for entry in entries:
        media = _media_of(entry)
        described = any("bytes" in part and "type" not in part for part in _objects(media))
        if described or media == IN_MESSAGE:
            entry = {**entry, "result": {**entry["result"], "media": sent.get(entry.get("call_id"), [])}}
        restored.append(entry)
    return {**turn, "tool_calls": restored}


def _media_of(entry: Any) -> Any:
    result = entry.get("result") if isinstance(entry, Mapping) else None
    return result.get("media") if isinstance(result, Mapping) else None


@functools.cache
def _converter() -> cattrs.Converter:
    """Return the converter of all values; it compiles a reader and a writer for each class at its first use."""
    import cattrs  # takes 30 ms, and a chat that keeps nothing does not need it

    new = cattrs.Converter()
    for kind in _SCALARS:
        new.register_structure_hook(kind, _read_scalar)
    new.register_structure_hook(bytes, _read_bytes)
    new.register_structure_hook(Decimal, _read_decimal)
    new.register_structure_hook_func(lambda kind: isinstance(kind, TypeVar), lambda value, _: value)
    new.register_structure_hook_func(_is_kind(Literal), _read_word)
    new.register_structure_hook_func(_is_kind(Mapping), _read_mapping)
    new.register_structure_hook_factory(_is_kind(tuple), _tuple_reader)
    new.register_structure_hook_factory(attrs.has, _class_reader)
    new.register_structure_hook_func(lambda kind: kind == Message, _read_message)
    new.register_structure_hook_func(
        lambda kind: kind == AssistantPart, lambda data, _: _read_tagged(_PARTS, data, "type")
    )
    new.register_unstructure_hook(bytes, lambda value: base64.b64encode(value).decode())
    new.register_unstructure_hook(Decimal, plain)
    new.register_unstructure_hook(Price, Price.to_dict)
    new.register_unstructure_hook(list, lambda value: value)
    for is_mapping in (lambda kind: kind in (dict, Mapping), _is_kind(Mapping)):
        new.register_unstructure_hook_func(is_mapping, lambda value: value if type(value) is dict else dict(value))
    for is_tuple in (lambda kind: kind is tuple, _is_kind(tuple)):
        new.register_unstructure_hook_func(is_tuple, lambda value: [*map(new.unstructure, value)])
    new.register_unstructure_hook_factory(attrs.has, _class_writer)
    return new


def _is_kind(origin: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


def _reader_as(kind: Any) -> Callable[[Any, Any], Any]:
    return lambda value, _: _converter().structure(value, kind)


def _class_reader(cls: Any) -> Callable[[Any, Any], Any]:
    from cattrs import AttributeValidationNote, ClassValidationError
    from cattrs.gen import make_dict_structure_fn, override

    plain_cls = get_origin(cls) or cls
    overrides: dict[str, Any] = {}
    for field in attrs.fields(plain_cls):
        stored = field.metadata.get(STORED)
        if stored is not None:
            overrides[field.name] = override(struct_hook=_reader_as(stored))
        elif STORED in field.metadata or not field.eq:
            overrides[field.name] = override(omit=True)

    @functools.cache
    def compile(*, detailed: bool) -> Any:
        return make_dict_structure_fn(
            cls, _converter(), _cattrs_use_linecache=False, _cattrs_detailed_validation=detailed, **overrides
        )

    def explain(error: Exception) -> ValueError:
        name = next((n.name for n in getattr(error, "__notes__", ()) if isinstance(n, AttributeValidationNote)), None)
        if name is None:  # from a validator or the class itself
            return ValueError(str(error))
        if isinstance(error, KeyError):
            return ValueError(f"{plain_cls.__name__} is incomplete: {name} is missing")
        annotation = str(plain_cls.__annotations__[name])
        if isinstance(error, _UnknownWordError) and not annotation.startswith("Literal["):
            noun = re.findall("[A-Z][a-z]*", plain_cls.__name__)[-1].lower()  # a ConversationTurn is a turn
            return MisfitError(name, f"this FlexChat cannot read a {noun} with the {name} {error.value!r:.40}")
        if isinstance(error, _WrongTypeError):
            return ValueError(f"{plain_cls.__name__}.{name}: {annotation} was expected, got {error.value!r:.40}")
        return MisfitError.at(name, error)

    read = compile(detailed=False)

    def read_class(data: Any, _: Any) -> Any:
        if type(data) is not dict and not isinstance(data, Mapping):
            raise _misfit(data, "a JSON object")
        try:
            return read(data, cls)
        except Exception:  # noqa: BLE001  whatever it is, the slower reader finds the field
            try:
                return compile(detailed=True)(data, cls)
            except ClassValidationError as error:
                raise explain(error.exceptions[0]) from None

    return _media_reader(read_class) if cls is MediaPart else read_class


def _media_reader(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def read_part(data: Any, cls: Any) -> Any:
        part, media = read(data, cls), _apart.get()
        if part.data is not None or part.url is not None or "sha256" not in data:
            return part
        digest = data["sha256"]
        if media is None or not isinstance(digest, str) or digest not in media:
            raise ValueError(f"the bytes of the medium {digest!r:.66} are missing")
        part = attrs.evolve(part, data=media[digest])
        object.__setattr__(part, "sha256", digest)  # cached: the store has compared it
        _live.setdefault(digest, part)
        return part

    return read_part


def _class_writer(cls: Any) -> Callable[[Any], dict[str, Any]]:
    from cattrs.gen import make_dict_unstructure_fn, override

    overrides: dict[str, Any] = {"id": override(omit_if_default=False)}
    for field in attrs.fields(cls):
        if field.metadata.get(STORED) is not None:
            overrides[field.name] = override(unstruct_hook=_converter().unstructure)
        elif STORED in field.metadata or not field.eq:
            overrides[field.name] = override(omit=True)
    write = make_dict_unstructure_fn(
        cls, _converter(), _cattrs_omit_if_default=True, _cattrs_use_linecache=False, **overrides
    )
    tag = _TAGS.get(cls)
    if cls is MediaPart:
        return lambda part: {**_TAGS[MediaPart], **_write_part(part, write)}
    return write if tag is None else lambda value: {**tag, **write(value)}


def _write_part(part: MediaPart, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    media = _apart.get()
    if media is None or part.data is None:
        return write(part)
    media[part.sha256] = part.data
    _live.setdefault(part.sha256, part)
    return {**write(attrs.evolve(part, data=None)), "sha256": part.sha256, "bytes": len(part.data)}


def _tuple_reader(kind: Any) -> Callable[[Any, Any], Any]:
    item_kind = get_args(kind)[0]
    read = _converter().get_structure_hook(item_kind)

    def read_tuple(items: Any, _: Any) -> Any:
        if not isinstance(items, list):
            raise _misfit(items, "a list")
        try:
            return tuple([read(item, item_kind) for item in items])
        except ValueError:
            for index, item in enumerate(items):
                try:
                    read(item, item_kind)
                except ValueError as error:
                    raise MisfitError.at(f"[{index}]", error) from None
            raise

    return read_tuple


def _read_message(data: Any, _: Any) -> Any:
    """Read a message; one that is a text alone, as most of a history is, in a fifth of the general reader's time."""
    if type(data) is dict and len(data) == 2:
        if data.get("role") == "user" and type(data.get("content")) is str:
            return UserMessage(data["content"])
        parts = data.get("parts")
        if data.get("role") == "assistant" and type(parts) is list and len(parts) == 1 and type(parts[0]) is dict:
            part = parts[0]
            if len(part) == 2 and part.get("type") == "text" and type(part.get("text")) is str:
                return AssistantMessage((TextPart(part["text"]),))
    return _read_tagged(_MESSAGES, data, "role")


def _read_tagged(classes: Mapping[str, type], data: Any, key: str) -> Any:
    name = data.get(key) if type(data) is dict or isinstance(data, Mapping) else None
    cls = classes.get(name) if isinstance(name, str) else None
    if cls is None:
        reason = f"{key} {name!r}" if name is not None else f"no {key}"
        raise ValueError(f"this FlexChat cannot read a message with {reason} (it knows: {', '.join(classes)})")
    return _converter().structure(data, cls)


def _read_scalar(value: Any, kind: type) -> Any:
    types, name = _SCALARS[kind]
    if isinstance(value, types):
        return value
    raise _WrongTypeError(value, f"{name} was expected, got {value!r:.40}")


def _read_word(value: Any, kind: Any) -> Any:
    if value in get_args(kind):
        return value
    text = f"one of {', '.join(get_args(kind))} was expected, got {value!r:.40}"
    raise _WrongTypeError(value, text) if value is None else _UnknownWordError(value, text)


def _read_mapping(value: Any, _: Any) -> Any:
    if type(value) is dict or isinstance(value, Mapping):
        return value
    raise _WrongTypeError(value, f"a JSON object was expected, got {type(value).__name__}")


def _misfit(value: Any, expected: str) -> ValueError:
    text = f"{expected} was expected, got {type(value).__name__}"
    return _WrongTypeError(value, text) if value is None else ValueError(text)


def _read_bytes(text: Any, _: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("bytes are kept as Base64 text")
    return base64.b64decode(text, validate=True)


def _read_decimal(text: Any, _: Any) -> Decimal:
    try:
        amount = Decimal(text)
    except (ArithmeticError, TypeError, ValueError):
        amount = Decimal("nan")
    if not amount.is_finite():
        raise ValueError("this is not a number of dollars")
    return amount
