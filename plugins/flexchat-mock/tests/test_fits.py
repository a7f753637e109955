"""The small schema checker of the rehearsal model."""

import pytest
from flexchat_mock.rehearsal.fits import fits

ROOT = {"$defs": {"size": {"enum": ["s", "m"]}, "loop": {"$ref": "#/$defs/loop"}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 5.0, True),
        ({"type": ["string", "null"]}, None, 1),
        ({"enum": [1, "a", None]}, 1.0, True),
        ({"const": {"a": [1]}}, {"a": [1]}, {"a": [2]}),
        ({"minimum": 1, "maximum": 3}, 3, 4),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, 2, 3),
        ({"multipleOf": 5}, 10, 12),
        ({"minLength": 2, "maxLength": 3}, "abc", "a"),
        ({"pattern": "^[a-z]+$"}, "abc", "ABC"),
        ({"items": {"type": "string"}, "minItems": 1, "maxItems": 2}, ["a"], ["a", "b", "c"]),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1], ["a", "b"]),
        ({"uniqueItems": True}, [1, 2], [1, 1.0]),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": "x"}, {}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}),
        ({"minProperties": 1, "maxProperties": 1}, {"a": 1}, {}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, "ab", "a"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, 1),
        ({"$ref": "#/$defs/size"}, "s", "l"),
        (True, 1, None),
    ],
)
def test_what_a_schema_says_is_kept(schema, good, bad):
    """Keyword by keyword: one value that keeps it, one that does not."""
    assert fits(schema, good, ROOT)
    assert schema is True or not fits(schema, bad, ROOT)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        None,
        {"not": {}},
        {"oneOf": [{}]},
        {"unheardOf": 1},
        {"$ref": "#/$defs/loop"},
        {"$ref": "#/$defs/gone"},
        {"$ref": "https://example.com/schema"},
        {"type": "strange"},
        {"minLength": "two"},
        {"pattern": "("},
        {"enum": 3},
    ],
)
def test_what_is_not_known_for_certain_does_not_fit(schema):
    """Unknown keywords, references that lead nowhere, and schemas that are none: the answer is no, not an error."""
    assert not fits(schema, "x", ROOT)
