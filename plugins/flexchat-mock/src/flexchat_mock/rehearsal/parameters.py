"""What a parameter asks for, told from its name, its schema and its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .fits import resolve
from .vocabulary import BOILERPLATE
from .words import is_stop_word, name_words, stem, words_of

# What the last words of a name, or a format, say a text is. The first kind with a word of the name is taken.
_KINDS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (kind, frozenset(words.split()))
    for kind, words in (
        ("expression", "expression expr formula equation calculation"),
        ("zone", "timezone tz zone"),
        ("email", "email mail recipient recipients"),
        ("url", "url uri link website webpage homepage"),
        ("path", "file filename path filepath folder directory"),
        ("phone", "phone telephone mobile"),
        ("currency", "currency"),
        ("symbol", "symbol ticker"),
        ("language", "language lang locale"),
        ("moment", "datetime timestamp deadline due when"),
        ("date", "date day birthday"),
        ("time", "time"),
        ("place", "location city place country address destination origin town region state airport station area"),
        ("identifier", "id identifier uuid key code number reference ref sku isbn order ticket invoice account"),
        (
            "text",
            "text message content body input sentence phrase prompt note comment string words reason summary value",
        ),
        ("topic", "query search question keyword keywords topic term terms subject q item product task"),
        ("name", "name person user username author customer contact title who artist song movie company brand pet"),
    )
)
_FORMATS = {
    "date": "date",
    "date-time": "moment",
    "time": "time",
    "email": "email",
    "uri": "url",
    "url": "url",
    "uuid": "uuid",
    "iri": "url",
}
_IN_DESCRIPTION = (
    ("expression", ("expression", "formula", "equation")),
    ("zone", ("timezone", "iana")),
    ("currency", ("currency",)),
    ("email", ("email", "e-mail", "recipient")),
    ("symbol", ("ticker",)),
    ("url", ("url",)),
    ("language", ("language",)),
    ("place", ("city", "place", "location", "country", "airport")),
    ("date", ("date",)),
)
_OTHER_EXPRESSIONS = {"regular", "regex", "regexp", "cron", "pattern"}
# Cue words that lead to a parameter of that name or kind.
_CUES = {
    "from": ("from",), "source": ("from",), "origin": ("from",), "departure": ("from",), "start": ("from", "since"),
    "to": ("to", "into", "in"), "target": ("to", "into", "in"), "destination": ("to",), "arrival": ("to",),
    "recipient": ("to",), "end": ("until", "to"), "since": ("since",), "until": ("until",),
    "replace": ("with", "by"), "replacement": ("with", "by"), "separator": ("at", "by"), "delimiter": ("at", "by"),
    "author": ("by",), "artist": ("by",), "company": ("at", "of", "for"), "sender": ("from",),
}  # fmt: skip
_KIND_CUES = {
    "place": ("in", "at", "for", "near", "from", "to", "of"),
    "language": ("into", "in", "to"),
    "topic": ("about", "on", "for", "regarding", "concerning", "of"),
    "name": ("called", "named", "titled", "for", "to", "with", "by", "of"),
    "email": ("to", "for", "at"),
    "currency": ("to", "into", "in", "from"),
    "text": ("saying", "that says"),
    "symbol": ("for", "of"),
    "zone": ("in", "at", "for"),
}
_UNINFORMATIVE = {"max", "min", "num", "number", "of", "count", "n", "total", "the", "is", "value", "input", "id"}


@attrs.frozen
class Parameter:
    """A property of a tool's schema, as the text is searched for it.

    Attributes:
        required: Whether it takes a guess, rather than nothing.
        types: The JSON types it may have, "null" left out.
        kind: For texts: what they are; "" if nothing says so.
        words: Stems of its name that mean something.
        described: Stems of its description that mean something.
        cues: Prepositions that lead to it.
        schema: With a local ``$ref`` followed.
    """

    name: str
    schema: Mapping[str, Any]
    required: bool
    types: tuple[str, ...]
    kind: str
    words: frozenset[str]
    described: frozenset[str]
    cues: tuple[str, ...]
    options: tuple[Any, ...]


def parameters_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Return what an object schema asks for, required ones first in the order of the schema."""
    properties = schema.get("properties")
    required = schema.get("required")
    names = required if isinstance(required, list | tuple) else ()
    found = [
        _parameter(name, resolve(part, root), name in names)
        for name, part in (properties.items() if isinstance(properties, Mapping) else ())
    ]
    known = tuple(p for p in found if p is not None)
    if len(known) == 1 and known[0].kind == "text":
        return (attrs.evolve(known[0], required=True),)  # a tool that takes one text is called with one
    return known


def _parameter(name: str, schema: Any, required: bool) -> Parameter | None:
    if not isinstance(schema, Mapping):
        return None
    schema = _one_form(schema)
    said = str(schema.get("description") or schema.get("title") or "")
    in_name = name_words(name)
    types = _types(schema)
    kind = _kind(in_name, schema, said) if "string" in types else ""
    own = [cue for word in in_name for cue in _CUES.get(word, ())]
    return Parameter(
        name=name,
        schema=schema,
        required=required,
        types=types,
        kind=kind,
        words=frozenset(stem(w) for w in in_name if w not in _UNINFORMATIVE),
        described=content_stems(said),
        cues=tuple(own) or _KIND_CUES.get(kind, ()),
        options=_options(schema),
    )


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a description that mean something."""
    return frozenset(
        stem(w.text) for w in words_of(text) if not is_stop_word(w.text) and w.text.casefold() not in BOILERPLATE
    )


def _one_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """An optional value ("this or null") as the value it may be."""
    forms = schema.get("anyOf")
    if isinstance(forms, list | tuple):
        real = [f for f in forms if isinstance(f, Mapping) and f.get("type") != "null"]
        if real and all("$ref" not in f for f in real):
            return {**schema, **real[0], "anyOf": forms}
    return schema


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    said = schema.get("type")
    types = (said,) if isinstance(said, str) else tuple(said) if isinstance(said, list | tuple) else ()
    if not types:
        types = ("object",) if "properties" in schema else ("array",) if "items" in schema else ("string",)
    return tuple(t for t in types if t != "null")


def _options(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    options = schema.get("enum")
    if isinstance(options, list | tuple):
        return tuple(options)
    return (schema["const"],) if "const" in schema else ()


def _kind(in_name: tuple[str, ...], schema: Mapping[str, Any], said: str) -> str:
    format_ = schema.get("format")
    if isinstance(format_, str) and format_ in _FORMATS:
        return _FORMATS[format_]
    described = {w.text.casefold() for w in words_of(said)}
    joined = "".join(in_name)
    for kind, words in _KINDS:
        if joined in words or any(word in words or stem(word) in words for word in in_name):
            if kind == "time" and "date" in in_name:
                return "moment"
            return kind
    for kind, hints in _IN_DESCRIPTION:
        if described & set(hints) and not (kind == "expression" and described & _OTHER_EXPRESSIONS):
            return kind
    return ""
