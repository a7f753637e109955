"""The engine that says a schema in a dialect: its actions, its bounds, its notes. The data of our providers' dialects
is tested in tests/integration/test_schema_dialects.py."""

import subprocess
import sys
import time

import attrs
import pytest
from flexchat_sdk import SchemaDialect
from flexchat_sdk.dialects.rewrite import rewrite
from flexchat_sdk.dialects.work import MAX_NODES

INLINE = SchemaDialect(name="inline", keywords={"$ref": "write out", "allOf": "merge"})
ALONE = SchemaDialect(name="alone", keywords={"$ref": "alone", "allOf": "merge"}, root={"$ref": "write out"})


def of_property(form, dialect, **more):
    """What becomes of property p, and the notes."""
    made = rewrite({"type": "object", "properties": {"p": form}, **more}, dialect)
    return made.schema and made.schema["properties"].get("p"), made.notes


def merged(*forms):
    form, notes = of_property({"allOf": [*forms]}, INLINE)
    return form, [note.keyword for note in notes if note.severity == "warning"]


def test_a_dialect_with_a_name_alone_takes_everything():
    """The schema that comes back is the very one that went in."""
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#", "x-y": 1, "const": 5}},
        "patternProperties": {"x": True},
    }

    made = rewrite(schema, SchemaDialect(name="any"))

    assert made.schema is schema
    assert made.notes == ()


def test_an_unknown_action_is_refused_when_the_dialect_is_made():
    """A typo in a table is found by whoever writes it."""
    with pytest.raises(ValueError, match="keywords: const: there is no action 'as enumm'"):
        SchemaDialect(name="x", keywords={"const": "as enumm"})


@pytest.mark.parametrize(
    ("action", "keyword", "value", "sent", "severity"),
    [
        ("drop", "title", "T", {"type": "string"}, "info"),
        ("note", "minLength", 2, {"type": "string", "description": "d (minLength: 2)"}, "warning"),
        ("note", "default", "x", {"type": "string", "description": "d (default: x)"}, "info"),
        ("refuse", "pattern", "x", None, "error"),
        ("as enum", "const", "x", {"type": "string", "enum": ["x"]}, "info"),
    ],
)
def test_an_action_is_done_and_noted(action, keyword, value, sent, severity):
    """The pointer leads to the place in the original, the keyword is named."""
    form, notes = of_property(
        {"type": "string", "description": "d", keyword: value}, SchemaDialect(name="x", keywords={keyword: action})
    )

    assert form == (sent and {"description": "d", **sent})
    assert [(n.severity, n.pointer, n.keyword) for n in notes] == [(severity, "/properties/p", keyword)]


def test_what_a_service_does_not_enforce_anyway_is_no_loss_when_told():
    """The severity of a told constraint follows SchemaDialect.enforces."""
    dialect = SchemaDialect(name="x", keywords={"minimum": "note"}, enforces=False)

    _, [note] = of_property({"type": "integer", "minimum": 1}, dialect)

    assert note.severity == "info"


def test_several_constraints_share_one_pair_of_parentheses():
    """(minimum: 1, maximum: 10), without a description too."""
    dialect = SchemaDialect(name="x", keywords={"minimum": "note", "maximum": "note"})

    form, _ = of_property({"type": "integer", "minimum": 1, "maximum": 10}, dialect)

    assert form == {"type": "integer", "description": "(minimum: 1, maximum: 10)"}


def test_what_is_too_long_to_tell_is_left_out_with_a_warning():
    """A description does not grow by more than 300 characters for one keyword."""
    dialect = SchemaDialect(name="x", keywords={"not": "note"}, enforces=False)

    form, [note] = of_property({"type": "string", "not": {"enum": ["x" * 300]}}, dialect)

    assert form == {"type": "string"}
    assert note.severity == "warning"


@pytest.mark.parametrize(
    ("forms", "one"),
    [
        (({"minimum": 1}, {"minimum": 3}), {"minimum": 3}),
        (({"maxLength": 5}, {"maxLength": 3}), {"maxLength": 3}),
        (({"type": "number"}, {"type": "integer"}), {"type": "integer"}),
        (({"type": ["string", "null"]}, {"type": ["null", "string"]}), {"type": ["string", "null"]}),
        (({"enum": [1, 2, True]}, {"enum": [2, 1]}), {"enum": [1, 2]}),
        (({"required": ["a"]}, {"required": ["b", "a"]}), {"required": ["a", "b"]}),
        (({"additionalProperties": False}, {"additionalProperties": {}}), {"additionalProperties": False}),
        (({"description": "first"}, {"description": "second"}), {"description": "first"}),
        (({"uniqueItems": False}, {"uniqueItems": True}), {"uniqueItems": True}),
        (({"items": {"minimum": 1}}, {"items": {"maximum": 2}}), {"items": {"minimum": 1, "maximum": 2}}),
        ((True, {"minimum": 1}), {"minimum": 1}),
        (({"allOf": [{"minimum": 1}]}, {"$ref": "#/$defs/two"}), {"minimum": 2}),
    ],
)
def test_allof_is_merged_exactly_where_one_schema_can_say_it(forms, one):
    """What fits the merged schema fits all of them."""
    form, notes = of_property({"allOf": [*forms]}, INLINE, **{"$defs": {"two": {"minimum": 2}}})

    assert form == one
    assert {note.severity for note in notes} == {"info"}


@pytest.mark.parametrize(
    ("one", "other", "keyword"),
    [
        ({"type": "string"}, {"type": "integer"}, "type"),
        ({"enum": [1]}, {"enum": [True]}, "enum"),
        ({"pattern": "a"}, {"pattern": "b"}, "pattern"),
        ({"const": 1}, {"const": 2}, "const"),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "null"}]}, "anyOf"),
    ],
)
def test_where_allof_contradicts_itself_the_last_counts(one, other, keyword):
    """A conflict is a warning that names the keyword."""
    form, lost = merged(one, other)

    assert form[keyword] == other[keyword]
    assert lost == [keyword]


def test_properties_that_are_said_twice_are_merged_in_depth():
    """The same name in two branches must fit both."""
    form, lost = merged(
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"properties": {"a": {"minLength": 1}, "b": {}}},
    )

    assert form["properties"] == {"a": {"type": "string", "minLength": 1}, "b": {}}
    assert lost == []


def test_pointers_lead_into_the_original():
    """Through $ref, allOf and names with ~ and /: the place where a person must look."""
    schema = {
        "type": "object",
        "properties": {"a/b~c": {"allOf": [{"$ref": "#/$defs/D"}]}},
        "$defs": {"D": {"type": "object", "properties": {"x": {"type": "integer", "minimum": 1}}}},
    }
    dialect = attrs.evolve(INLINE, keywords={**INLINE.keywords, "minimum": "note"})

    notes = rewrite(schema, dialect).notes

    assert [n.pointer for n in notes if n.keyword == "minimum"] == ["/$defs/D/properties/x"]
    assert [n.pointer for n in notes if n.keyword == "$ref"] == ["/properties/a~1b~0c"]


def test_references_that_stay_go_to_defs():
    """From definitions and from anywhere else; two of one name are told apart; what nobody refers to is left out."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/definitions/X"},
            "b": {"$ref": "#/$defs/X"},
            "c": {"$ref": "#/properties/a"},
        },
        "$defs": {"X": {"type": "string"}, "Unused": {}},
        "definitions": {"X": {"type": "integer"}},
    }

    made = rewrite(schema, ALONE).schema

    assert made["properties"] == {
        "a": {"$ref": "#/$defs/X"},
        "b": {"$ref": "#/$defs/X_2"},
        "c": {"$ref": "#/$defs/a"},
    }
    assert made["$defs"] == {"X": {"type": "integer"}, "X_2": {"type": "string"}, "a": {"$ref": "#/$defs/X"}}


def test_a_recursive_root_behind_a_reference_is_written_out_once():
    """What pydantic makes of a model that holds itself."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}

    made = rewrite({"$ref": "#/$defs/Node", "$defs": {"Node": node}}, ALONE).schema

    assert made == {**node, "$defs": {"Node": node}}


@pytest.mark.parametrize("reference", ["#", "#/properties/a", "#/$defs/A"])
def test_recursion_that_must_be_written_out_is_an_error_that_says_what_to_write(reference):
    """Not a loop, and not a schema cut short."""
    a = {"type": "object", "properties": {"a": {"$ref": reference}}}

    made = rewrite({**a, "$defs": {"A": a}, "properties": {"a": a, "b": {"$ref": reference}}}, INLINE)

    assert made.schema is None
    assert any("write out as many levels as needed" in note.message for note in made.notes)


def test_two_ways_to_one_schema_are_no_recursion():
    """allOf of two schemas with one base: merged, in every dialect that merges."""
    base = {"type": "object", "properties": {"id": {"type": "string"}}}
    two = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"$ref": "#/$defs/Base"}]
    schema = {
        "type": "object",
        "properties": {"x": {"allOf": two}, "y": {"$ref": "#/$defs/A"}},
        "$defs": {"Base": base, "A": {"allOf": [{"$ref": "#/$defs/Base"}]}, "B": {"$ref": "#/$defs/Base"}},
    }

    for dialect in (INLINE, ALONE):
        assert rewrite(schema, dialect).schema["properties"]["x"] == base


@pytest.mark.parametrize("reference", ["https://example.com/x", "other.json", "#anchor", "", 5, None, "#/$defs/None"])
def test_a_reference_that_leads_nowhere_here_is_an_error_in_every_dialect(reference):
    """A URL is never fetched."""
    for dialect in (SchemaDialect(name="any"), INLINE, ALONE):
        made = rewrite({"type": "object", "properties": {"a": {"$ref": reference}}}, dialect)

        assert made.schema is None


def doubling(levels, word):
    """2**levels copies of the last, if written out."""
    forms = {f"L{n}": {word: [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/L0"}}, "$defs": {**forms, f"L{levels}": {}}}


@pytest.mark.timed
@pytest.mark.parametrize("word", ["anyOf", "allOf", "prefixItems", "oneOf"])
def test_a_schema_that_explodes_when_written_out_is_refused(word):
    """2**30 copies: an error within a second, whatever word multiplies them."""
    started = time.thread_time()
    made = rewrite(doubling(30, word), INLINE)

    assert time.thread_time() - started < 2
    assert made.schema is None
    assert str(MAX_NODES) in made.notes[0].message or "lead to one another" in made.notes[0].message


def test_nesting_is_bounded():
    """100,000 levels of JSON: an error, not a RecursionError."""
    for word, wrap in (
        ("items", lambda s: {"items": s}),
        ("not", lambda s: {"not": s}),
        ("x", lambda s: {"default": s}),
    ):
        deep = {"type": "string"}
        for _ in range(100_000):
            deep = wrap(deep)

        for dialect in (SchemaDialect(name="any"), INLINE, SchemaDialect(name="told", keywords={word: "note"})):
            made = rewrite({"type": "object", "properties": {"a": deep}}, dialect)
            assert made.schema is None or word == "x"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"properties": []}, "properties must be an object with a schema for each name"),
        ({"type": "float"}, "is not one of array, boolean, integer"),
        ({"type": []}, "at least one type"),
        ({"required": True}, "a list of names next to properties"),
        ({"anyOf": []}, "a list of at least one schema"),
        ({"minimum": "1"}, "minimum must be a number"),
        ({"exclusiveMinimum": True}, "exclusiveMinimum must be a number"),
        ({"description": 5}, "description must be a text"),
        ({"enum": []}, "a list of at least one value"),
        (5, "properties must be an object with a schema for each name"),
    ],
)
def test_what_is_no_json_schema_is_an_error_with_its_place(form, words):
    """A sentence that says what the keyword must be."""
    _, notes = of_property(form, INLINE)

    [error] = [note for note in notes if note.severity == "error"]
    assert words in error.message
    assert error.pointer in ("/properties/p", "")


@pytest.mark.parametrize("schema", [None, 5, "object", [], True, [{"type": "object"}]])
def test_a_schema_that_is_no_object_is_an_error(schema):
    """Whatever JSON value it is."""
    [note] = rewrite(schema, INLINE).notes

    assert note.message == "a schema must be an object"


@pytest.mark.parametrize("kind", ["string", ["string", "null"], "array"])
def test_the_root_must_be_an_object(kind):
    """Arguments are an object; nothing else can be sent."""
    assert rewrite({"type": kind}, SchemaDialect(name="any")).schema is None
    assert rewrite({"type": ["object", "null"]}, INLINE).schema == {"type": "object"}
    assert rewrite({}, INLINE).schema == {"type": "object"}


def test_the_module_is_light():
    """Providers import it when their plugin is loaded."""
    heavy = ("jsonschema", "re2", "httpx")
    code = f"import sys, flexchat_sdk.dialects.rewrite; print([m for m in {heavy} if m in sys.modules])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
