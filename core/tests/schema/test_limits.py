"""Which schemas a tool may have."""

import datetime

import jsonschema
import pytest
from flexchat.installing import how_to_install
from flexchat.schema import limits
from flexchat.schema.check import ArgumentChecker
from flexchat.schema.limits import schema_problems
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples


def problem(schema):
    [found] = schema_problems({"type": "object", **schema})
    return found


def of_property(schema):
    return problem({"properties": {"days": schema}})


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "int"}, "property 'days': type 'int' is not a JSON Schema type (did you mean 'integer'?)"),
        ({"type": "STRING"}, "property 'days': type 'STRING' is not a JSON Schema type (did you mean 'string'?)"),
        ({"type": "strnig"}, "property 'days': type 'strnig' is not a JSON Schema type (did you mean 'string'?)"),
        ({"type": []}, "property 'days': type [] must name at least one type, and none twice"),
        ({"type": 5}, "property 'days': type must be a name such as \"string\" (got 5)"),
        ("string", 'property \'days\': must be a schema, an object such as {"type": "string"} (got "string")'),
        ({"description": 5}, "property 'days': description must be a text (got 5)"),
        ({"deprecated": 0}, "property 'days': deprecated must be true or false (got 0)"),
        ({"minimum": "1"}, "property 'days': minimum must be a number (got \"1\")"),
        ({"minimum": True}, "property 'days': minimum must be a number (got true)"),
        ({"multipleOf": 0}, "property 'days': multipleOf must be greater than 0 (got 0)"),
        ({"minLength": -1}, "property 'days': minLength must be a whole number from 0 (got -1)"),
        ({"maxItems": 1.5}, "property 'days': maxItems must be a whole number from 0 (got 1.5)"),
        ({"required": ["a", "a"]}, "property 'days': required must be a list of names, each of them once"),
        ({"required": True}, "it belongs next to properties"),
        ({"required": "a"}, "property 'days': required must be a list of names (got \"a\")"),
        ({"properties": []}, "property 'days': properties must be an object: a schema for each name (got [])"),
        ({"properties": {"x": {"type": "str"}}}, "property 'days.x': type 'str' is not"),
        ({"items": [{}]}, "for a list of schemas, one per position, write prefixItems"),
        ({"items": {"type": "dict"}}, "at #/properties/days/items: type 'dict' is not"),
        ({"anyOf": []}, "property 'days': anyOf must be a list of at least one schema (got [])"),
        ({"anyOf": [{}, {"type": "x"}]}, "at #/properties/days/anyOf/1: type 'x' is not"),
        ({"enum": "a"}, "property 'days': enum must be a list (got \"a\")"),
        ({"examples": "a"}, "property 'days': examples must be a list (got \"a\")"),
        ({"default": datetime.date(2026, 1, 1)}, "property 'days': default must be JSON data (got date"),
        ({"enum": [float("nan")]}, "property 'days': enum must be JSON data (got list [nan])"),
        ({"enum": [10**5000]}, "the schema contains an integer of more than 4,300 digits"),
        ({"minimum": -(10**5000)}, "the schema contains an integer of more than 4,300 digits"),
        ({"const": float("inf")}, "property 'days': const must be JSON data"),
        ({"maximum": float("nan")}, "property 'days': maximum must be"),
        ({"multipleOf": float("inf")}, "property 'days': multipleOf must be"),
        ({"enum": list(range(1001))}, "property 'days': enum has 1001 entries (at most 1000)"),
        ({"pattern": "a" * 501}, "has more than 500 characters"),
        ({"pattern": 5}, "property 'days': pattern must be a text (got 5)"),
        ({"pattern": r"(a)\1"}, "RE2 does not run this pattern"),
        ({"patternProperties": {"(?=a)": {}}}, "RE2 does not run this pattern"),
        ({"uniqueItems": True}, "property 'days': uniqueItems also needs maxItems, at most 1000"),
        ({"uniqueItems": True, "maxItems": 1001}, "uniqueItems also needs maxItems"),
        ({"$ref": "http://example.invalid/x"}, 'leaves the schema; copy its target into $defs and write "#/$defs/…"'),
        ({"$ref": "file:///etc/passwd"}, "leaves the schema"),
        ({"$ref": "#anchor"}, "leaves the schema"),
        ({"$ref": 5}, "$ref must be a text"),
        ({"$ref": "#/$defs/Adress", "$defs": {}}, 'leads nowhere: there is no "$defs"'),
        ({"$ref": "#/type"}, "does not lead to a schema"),
        ({"$ref": "#/properties/days"}, "refers to itself endlessly; put it into a property"),
        ({"$dynamicRef": "#x"}, "$dynamicRef is not supported"),
        ({"$schema": limits.DIALECTS[0]}, "$schema is allowed only at the root"),
        ({"$id": "x"}, "$id is allowed only at the root"),
        ({"dependentRequired": {"a": "b"}}, "at #/properties/days/dependentRequired/a: 'b' is not of type 'array'"),
        ({"dependencies": {"a": {"type": "int"}}}, "at #/properties/days/dependencies/a: type 'int' is not"),
    ],
)
def test_each_fault_has_a_sentence_with_its_place(schema, text):
    """A problem says where it is, what it is and what to do."""
    assert text in of_property(schema)


def test_an_unsupported_dialect_is_refused():
    """Draft 2020-12 and draft-07 are known; the sentence says what to write."""
    assert "is not supported; write https://json-schema.org/draft/2020-12/schema" in problem(
        {"$schema": "http://json-schema.org/draft-03/schema#"}
    )


def test_all_faults_are_told_at_once():
    """One round of correction is enough."""
    assert len(schema_problems({"type": "object", "properties": {n: {"type": "int"} for n in "abc"}})) == 3


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": ["string", "null"], "nullable": True, "x-order": 1}}},
        {"properties": {"type": {"type": "string"}, "properties": {"type": "object"}, "$ref": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/definitions/a~1b%20c"}}, "definitions": {"a/b c": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#/components/x"}}, "components": {"x": {"type": "string"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{}]}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.invalid/x"},
        {"properties": {"a": True, "b": False, "c": {}}, "minProperties": 1.0},
    ],
)
def test_what_tools_really_bring_is_accepted(schema):
    """Unknown keywords, properties named like keywords, recursion and both drafts are fine."""
    assert schema_problems({"type": "object", **schema}) == []


def test_a_reference_target_outside_the_known_places_is_checked_too():
    """A schema cannot hide from the limits behind a $ref."""
    schema = {"properties": {"a": {"$ref": "#/components/x"}}, "components": {"x": {"pattern": r"(a)\1"}}}

    assert problem(schema).startswith("at #/components/x: pattern")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"description": "x" * 70_000}, "the schema is longer than 64 KiB"),
        ({"description": "é" * 40_000}, "the schema is longer than 64 KiB"),
        ({"properties": {f"p{i}": {} for i in range(2_100)}}, "the schema has more than 2000 parts"),
        (
            {"properties": {f"p{i}": {"$ref": "#/$defs/a"} for i in range(101)}, "$defs": {"a": {}}},
            "more than 100 $ref",
        ),
    ],
)
def test_a_schema_beyond_the_limits_is_refused_once(schema, text):
    """64 KiB, 2,000 parts, 100 references."""
    assert text in problem(schema)


def test_depth_is_limited_however_deep():
    """32 levels; a thousand of them is still a sentence."""
    for levels in (40, 5_000):
        schema = {"type": "object"}
        for _ in range(levels):
            schema = {"type": "object", "properties": {"a": schema}}

        [found] = schema_problems(schema)

        assert "nested too deeply (at most 32 levels)" in found


def test_a_schema_of_exactly_the_depth_is_accepted():
    """The limit itself is allowed."""
    schema = {"type": "object"}
    for _ in range(32):
        schema = {"type": "object", "properties": {"a": schema}}

    assert schema_problems(schema) == []


def test_a_python_cycle_is_refused():
    """A dict that holds itself is no JSON."""
    schema = {"type": "object"}
    schema["properties"] = {"a": schema}

    assert schema_problems(schema)


def test_doubled_references_are_refused():
    """22 levels of doubled $ref are 2^22 checks of one value."""
    levels = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(22)}

    assert "multiplies to" in problem({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**levels, "d22": {}}})


def test_a_pattern_without_re2_is_refused_with_the_extra_to_install(monkeypatch):
    """RE2 is an optional extra; the sentence names it."""
    import sys

    monkeypatch.setitem(sys.modules, "re2", None)

    assert how_to_install("flexchat-core", "regex") in of_property({"pattern": "^a$"})


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from([0.0, 1.0, 1.5])
    | st.sampled_from(["", "a", "string"])
)
junk = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from("ab"), scalars, max_size=2)
types = st.sampled_from(["string", "integer", "null", "array", "object", "int"])


def keywords(inner):
    good = {
        "type": types | st.lists(types, max_size=3),
        "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        "required": st.lists(st.sampled_from("ab"), max_size=3),
        "enum": st.lists(junk, max_size=3),
        "anyOf": st.lists(inner, max_size=2),
        "prefixItems": st.lists(inner, max_size=2),
        "uniqueItems": st.just(False),
    }
    for name in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
        good[name] = inner
    for name in ("unevaluatedProperties", "contentSchema"):
        good[name] = inner
    for name in ("title", "description", "format", "$comment", "contentEncoding"):
        good[name] = st.just("text")
    for name in ("minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxItems", "minProperties", "maxContains"):
        good[name] = st.sampled_from([0, 1, -1, 1.0, 1.5, 0.5])
    for name in ("default", "const", "x-more"):
        good[name] = junk
    good["examples"] = st.lists(junk, max_size=2)
    good["dependentRequired"] = st.dictionaries(
        st.sampled_from("ab"), st.lists(st.sampled_from("ab"), max_size=2), max_size=2
    )
    good["readOnly"] = st.booleans()
    return good


KEYWORDS = sorted(keywords(st.nothing()))


def schemas_over(inner):
    good = keywords(inner)
    pairs = st.lists(st.sampled_from(KEYWORDS), max_size=3, unique=True)
    return pairs.flatmap(
        lambda chosen: st.fixed_dictionaries(
            {name: st.integers(0, 9).flatmap(lambda n, name=name: junk if n == 0 else good[name]) for name in chosen}
        )
    )


schemas = st.recursive(st.booleans() | schemas_over(st.just({})), schemas_over, max_leaves=5)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [None, "http://json-schema.org/draft-07/schema#"])
def test_the_walk_agrees_with_the_meta_schema(dialect):
    """On the common vocabulary a schema has problems exactly if check_schema refuses it (differential)."""
    head = {"$schema": dialect} if dialect else {}
    draft = jsonschema.Draft7Validator if dialect else jsonschema.Draft202012Validator
    newer = {"prefixItems", "$defs", "maxContains", "dependentRequired", "unevaluatedProperties", "contentSchema"}

    @given(schemas_over(schemas))
    @settings(max_examples=examples(500), deadline=None)
    def law(schema):
        if dialect and newer & set(str(schema).replace("'", " ").split()):
            return  # words that draft-07 does not know, and the walk does
        if "uniqueItems': True" in str(schema):
            return  # a limit of ours
        schema = {**schema, **head}
        try:
            draft.check_schema(schema, format_checker=None)
            refused = False
        except jsonschema.SchemaError:
            refused = True
        assert bool(schema_problems(schema)) == refused

    law()


@pytest.mark.slow
@given(
    schemas_over(schemas), st.lists(junk, max_size=3) | st.dictionaries(st.sampled_from("ab"), junk, max_size=2) | junk
)
@settings(max_examples=examples(500), deadline=None)
def test_an_accepted_schema_checks_any_value_as_jsonschema_does(schema, value):
    """No accepted schema makes the checker raise; it differs from jsonschema in what it can read from texts only."""
    tool = {"type": "object", "properties": {"x": schema}}
    if schema_problems(tool):
        return
    plain = jsonschema.Draft202012Validator(tool)

    checked = ArgumentChecker(tool).check({"x": value})

    if plain.is_valid({"x": value}):
        assert (checked.problems, checked.notes) == ((), ())
    else:
        assert bool(checked.problems) != bool(checked.notes)
        assert checked.problems or plain.is_valid(checked.params)
