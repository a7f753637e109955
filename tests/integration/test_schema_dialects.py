"""What each first-party dialect makes of each keyword: a row of the table, a tool."""

import copy
import json
import warnings
from pathlib import Path

import jsonschema
import pytest
from flexchat_anthropic import dialects as anthropic
from flexchat_gemini.dialects import JSON_SCHEMA, PARAMETERS
from flexchat_ollama.tools import TOOLS
from flexchat_openai.dialects import LOOSE, STRICT
from flexchat_sdk.dialects.rewrite import rewrite
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from examples import examples

pytestmark = pytest.mark.slow

ALL = (LOOSE, STRICT, PARAMETERS, JSON_SCHEMA, TOOLS, anthropic.LOOSE, anthropic.STRICT)
DIALECTS = {dialect.name: dialect for dialect in ALL}

# A row for each keyword: what a property is, and what is sent for it in each dialect, "same", "refused" or "gone".
ROWS = json.loads(Path(__file__).with_name("schema_dialects.json").read_text("utf-8"))


def tool(form):
    """A tool that needs nothing rewritten but the form of its parameter p."""
    inner = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    holds_itself = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"p": form, "q": {**inner, "additionalProperties": False}},
        "required": ["p", "q"],
        "additionalProperties": False,
        "$defs": {"X": {"type": "string"}, "N": holds_itself},
    }


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("row", ROWS, ids=[row["row"] for row in ROWS])
def test_every_row_of_the_table(row, name):
    """What is sent for each keyword; a change is always noted, but for the spelling of types."""
    form, expected = row["form"], row[name]
    schema = tool(form)
    before = copy.deepcopy(schema)

    made = rewrite(schema, DIALECTS[name])

    assert schema == before
    if expected == "refused":
        assert made.schema is None
        assert [
            note
            for note in made.notes
            if note.severity == "error" and note.pointer.startswith(("/properties/p", "/$defs/N"))
        ]
        return
    sent = made.schema["properties"]
    assert sent.get("p", "gone") == (form if expected == "same" else expected)
    if name != "gemini.parameters" and expected != "same":
        assert any(note.pointer.startswith(("/properties/p", "/$defs")) or note.pointer == "" for note in made.notes)
    if name == "openai.strict":
        assert strict_problems(made.schema) == []


ROOTS = (
    ("anyOf", {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
    ("oneOf", {"oneOf": [{"properties": {"c": {"const": "x"}}}, {"properties": {"c": {"const": "y"}}}]}),
    ("allOf", {"allOf": [{"properties": {"c": {"type": "string"}}}, {"required": ["a"]}]}),
    ("$ref", {"$ref": "#/$defs/Rest"}),
)


@pytest.mark.parametrize(("keyword", "more"), ROOTS, ids=[name for name, _ in ROOTS])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_the_root_is_one_object(keyword, more, dialect):
    """A union, an allOf or a $ref at the root becomes one object with the properties of all; a union is a loss."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "$defs": {"Rest": {"type": "object", "properties": {"c": {"type": "string"}}}},
        **more,
    }

    made = rewrite(schema, dialect)

    assert made.schema["type"].lower() == "object"
    assert {"anyOf", "oneOf", "allOf", "$ref"}.isdisjoint(made.schema)
    assert {"a", "b"} <= made.schema["properties"].keys()
    assert ("c" in made.schema["properties"]) == (keyword != "anyOf")
    assert any(n.severity == "warning" and n.keyword == keyword for n in made.notes) == (keyword in ("anyOf", "oneOf"))


NAMES = ["title", "default", "type", "const", "properties", "$ref", "enum", "items", "required", "anyOf", "$defs"]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=[*DIALECTS])
def test_a_property_may_be_called_like_a_keyword(dialect):
    """Keywords are told from names by where they stand, at every level."""
    allowed = [name for name in NAMES if dialect.property_name is None or not name.startswith("$")]
    inner = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in allowed},
        "required": allowed,
        "additionalProperties": False,
    }
    schema = {**inner, "properties": {**inner["properties"], "properties": inner}}

    made = rewrite(schema, dialect)

    assert made.schema["properties"].keys() == set(allowed)
    assert made.schema["properties"]["properties"]["properties"].keys() == set(allowed)
    assert made.schema["properties"]["properties"]["properties"]["properties"]["type"].lower() == "integer"


@pytest.mark.parametrize("name", ["a-b", "9", "$x", "a" * 65, "", "ä"])
def test_gemini_parameters_refuses_a_property_it_has_no_name_for(name):
    """A name outside [A-Za-z_][A-Za-z0-9_]{0,63} is an error that says where and what to do; elsewhere it is taken."""
    schema = {"type": "object", "properties": {name: {"type": "string"}}}

    [note] = rewrite(schema, PARAMETERS).notes

    assert note.severity == "error"
    assert "rename it" in note.message
    assert rewrite(schema, JSON_SCHEMA).schema is not None


def test_gemini_takes_recursion_in_optional_properties_only():
    """A required property that leads back to itself is sent as optional, with a warning."""
    properties = {"next": {"$ref": "#"}, "v": {"type": "integer"}}
    node = {"type": "object", "properties": properties, "required": ["next", "v"]}

    made = rewrite(node, JSON_SCHEMA)

    assert made.schema["required"] == ["v"]
    assert [(note.severity, note.keyword) for note in made.notes] == [("warning", "required")]


def test_a_description_beside_a_recursive_reference_is_kept():
    """$ref stands alone: its description goes around it."""
    node = {"type": "object", "properties": {"next": {"$ref": "#", "description": "the next"}}}

    for dialect in (STRICT, JSON_SCHEMA):
        form = rewrite(node, dialect).schema["properties"]["next"]
        assert form["description"] == "the next"
        assert {"$ref": "#"} in form["anyOf"]


def test_strict_limits_are_errors():
    """10 levels, 5,000 properties, 1,000 enum values, 120,000 characters."""
    deep = {"type": "string"}
    for _ in range(11):
        deep = {"type": "object", "properties": {"a": deep}, "additionalProperties": False}
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(4_999)}}
    many = {"type": "object", "properties": {"e": {"enum": [f"v{n}" for n in range(1_001)]}}}
    long = {"type": "object", "properties": {"e": {"enum": ["x" * 120_000]}}}

    for schema in (deep, many, long):
        assert rewrite(schema, STRICT).schema is None
    assert rewrite(wide, LOOSE).schema is not None
    assert rewrite(deep["properties"]["a"], STRICT).schema is not None


def test_ollama_does_not_say_in_the_roots_description_what_no_model_reads():
    """The server drops the description of the root: what would be told there is left out with a warning."""
    made = rewrite({"type": "object", "properties": {"a": {"type": "string"}}, "minProperties": 1}, TOOLS)

    assert made.schema == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert [(note.severity, note.keyword) for note in made.notes] == [("warning", "minProperties")]


# ---- the vendors' own types


def strict_problems(schema, path="#"):
    """What OpenAI's documentation of structured outputs forbids, checked without the rewriting's help."""
    known = {
        "type", "properties", "required", "additionalProperties", "description", "enum", "const", "items", "anyOf",
        "$ref", "$defs", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "minItems", "maxItems", "minLength", "maxLength",
    }  # fmt: skip
    found = [f"{path}: {keyword}" for keyword in schema.keys() - known]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if "$ref" in schema and len(schema) > 1:
        found.append(f"{path}: beside $ref")
    if not kinds and not {"anyOf", "$ref"} & schema.keys():
        found.append(f"{path}: no type")
    if "object" in kinds:
        if schema.get("additionalProperties") is not False:
            found.append(f"{path}: open")
        if [*schema.get("required", "?")] != [*schema.get("properties", "!")]:
            found.append(f"{path}: not all required")
    if "array" in kinds and "items" not in schema:
        found.append(f"{path}: no items")
    if path == "#" and (kinds != ["object"] or "anyOf" in schema):
        found.append("the root")
    for keyword in ("properties", "$defs"):
        for name, inner in schema.get(keyword, {}).items():
            found += strict_problems(inner, f"{path}/{keyword}/{name}")
    for index, inner in enumerate(schema.get("anyOf", ())):
        found += strict_problems(inner, f"{path}/anyOf/{index}")
    return found + (strict_problems(schema["items"], f"{path}/items") if "items" in schema else [])


def gemini_types():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        types = pytest.importorskip("google.genai.types")
        types.Schema.model_rebuild()
    return types


def test_what_is_sent_fits_the_types_of_googles_sdk():
    """types.Schema forbids unknown keys and takes strings only as enum values."""
    types = gemini_types()
    for form in (row["form"] for row in ROWS):
        for dialect, field in ((PARAMETERS, "parameters"), (JSON_SCHEMA, "parametersJsonSchema")):
            made = rewrite(tool(form), dialect)
            if made.schema is not None:
                types.FunctionDeclaration.model_validate({"name": "f", "description": "d", field: made.schema})


def dropped_by_ollama(schema):
    """Keywords that have no place in the structure the server reads a property into."""
    kept = {"type", "anyOf", "items", "description", "enum", "properties", "required"}
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return (schema.keys() - kept).union(*map(dropped_by_ollama, inner))


def test_what_is_sent_to_ollama_stands_in_the_fields_its_server_reads():
    """Nothing is sent that the server would drop without a word, and the SDK's own type takes it."""
    ollama = pytest.importorskip("ollama")
    for form in (row["form"] for row in ROWS):
        made = rewrite(tool(form), TOOLS)
        if made.schema is not None:
            assert dropped_by_ollama(made.schema) == set()
            assert "description" not in made.schema
            ollama.Tool.model_validate(
                {"type": "function", "function": {"name": "f", "description": "d", "parameters": made.schema}}
            )


# ---- laws


TYPES = st.sampled_from(("string", "integer", "number", "boolean", "object", "array", "null"))
SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(("a", "bb", "#", "object"))
REFERENCES = st.sampled_from(("#", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/a"))


def any_schemas(inner):
    """Schemas with any keywords in any company, most of them sound."""
    forms = st.lists(inner, min_size=1, max_size=3)
    names = st.sampled_from(("a", "b", "title", "properties", "$ref", "x-y"))
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "title": st.just("T"),
            "description": st.just("d"),
            "default": SCALARS,
            "const": SCALARS,
            "enum": st.lists(SCALARS, min_size=1, max_size=3),
            "properties": st.dictionaries(names, inner | st.booleans(), max_size=3),
            "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            "items": inner | st.booleans() | forms,
            "prefixItems": forms,
            "anyOf": forms,
            "oneOf": forms,
            "allOf": forms,
            "$ref": REFERENCES,
            "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "definitions": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "patternProperties": st.dictionaries(st.just("^x"), inner, max_size=1),
            "minimum": st.integers(0, 5),
            "exclusiveMinimum": st.integers(0, 5) | st.just(1.5),
            "minLength": st.integers(0, 3),
            "pattern": st.sampled_from(("a", "(?!b)a")),
            "format": st.sampled_from(("date-time", "uri")),
            "nullable": st.booleans(),
            "uniqueItems": st.booleans(),
            "not": inner,
        },
    )


SCHEMAS = st.recursive(st.fixed_dictionaries({"type": TYPES}), any_schemas, max_leaves=10)
KEYWORDS = st.sampled_from(("type", "anyOf", "properties", "$ref", "items", "enum", "a"))
JSON = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw):
    """A schema in which any JSON value stands in the place of a node."""
    schema = {"type": "object", **copy.deepcopy(draw(SCHEMAS))}
    places = []
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, step))
            if isinstance(inner, dict | list):
                waiting.append(inner)
    holder, step = draw(st.sampled_from(places))
    holder[step] = draw(JSON)
    return schema


@settings(max_examples=examples(100), deadline=None)
@given(schema=SCHEMAS.map(lambda schema: {**schema, "type": "object"}) | damaged() | JSON)
def test_any_json_value_is_rewritten_or_refused(schema):
    """Never an exception; the input stays; the result is JSON; none exactly where there is an error."""
    before = copy.deepcopy(schema)
    for dialect in DIALECTS.values():
        made = rewrite(schema, dialect)

        assert schema == before
        json.dumps(made.schema, allow_nan=False)
        assert (made.schema is None) == any(note.severity == "error" for note in made.notes)
        assert made == rewrite(schema, dialect)


@settings(max_examples=examples(150), deadline=None)
@given(schema=SCHEMAS.map(lambda schema: {**schema, "type": "object"}))
def test_what_is_rewritten_needs_no_rewriting(schema):
    """Rewriting again gives the same schema and has nothing to say; strict rules and Google's type agree."""
    types = gemini_types()
    for name, dialect in DIALECTS.items():
        made = rewrite(schema, dialect)
        if made.schema is None:
            continue
        again = rewrite(made.schema, dialect)
        assert again.schema == made.schema
        assert again.notes == ()
        if name == "openai.strict":
            assert strict_problems(made.schema) == []
        if name == "gemini.parameters":
            types.Schema.model_validate(made.schema)


TEXTS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": st.integers(0, 1),
        "maxLength": st.integers(3, 4),
        "pattern": st.sampled_from(("^[a-z]*$", "^(?!x)")),
        "format": st.sampled_from(("date", "uri")),
        "title": st.just("T"),
        "default": st.just("a"),
    },
)
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(("integer", "number"))},
    optional={
        "minimum": st.integers(0, 1),
        "exclusiveMinimum": st.sampled_from((0, -1, 0.5)),
        "exclusiveMaximum": st.sampled_from((5, 4.5)),
        "multipleOf": st.just(1),
    },
)
CHOICES = st.lists(st.sampled_from(("a", "b", 1, 2, True, None)), min_size=1, max_size=3, unique_by=repr).map(
    lambda values: {"enum": values}
) | st.sampled_from(({"const": "a"}, {"const": 2}, {"type": ["string", "null"]}, {"type": ["integer", "string"]}))


def honest_schemas(inner):
    """Schemas that mean what they say: no type left open, no array of anything."""
    forms = st.lists(inner, min_size=1, max_size=2)
    objects = st.dictionaries(st.sampled_from(("a", "title", "properties")), inner, min_size=1, max_size=3)
    return (
        objects.flatmap(
            lambda properties: st.fixed_dictionaries(
                {"type": st.just("object"), "properties": st.just(properties)},
                optional={
                    "required": st.lists(st.sampled_from([*properties]), unique=True),
                    "additionalProperties": st.just(False),
                },
            )
        )
        | st.builds(lambda items: {"type": "array", "items": items, "minItems": 1, "maxItems": 3}, inner)
        | st.builds(lambda forms: {"type": "array", "prefixItems": forms, "minItems": len(forms)}, forms)
        | st.builds(lambda word, forms: {word: forms}, st.sampled_from(("anyOf", "oneOf", "allOf")), forms)
        | st.builds(lambda form: {"anyOf": [form, {"type": "null"}]}, inner)
        | st.just({"$ref": "#/$defs/text", "description": "d"})
    )


def values(schema):
    """Values that are likely to fit a schema."""
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    if "properties" in schema:
        return st.fixed_dictionaries({}, optional={n: values(s) for n, s in schema["properties"].items()})
    if "prefixItems" in schema:
        return st.tuples(*map(values, schema["prefixItems"])).map(list)
    if "items" in schema:
        return st.lists(values(schema["items"]), min_size=1, max_size=3)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return st.one_of(*map(values, schema[word]))
    kinds = schema.get("type", "string")
    kinds = [kinds] if type(kinds) is str else kinds
    of_kind = {"integer": st.integers(0, 5), "number": st.integers(0, 5), "null": st.none()}
    return st.one_of(*(of_kind.get(kind, st.sampled_from(("", "a", "bb"))) for kind in kinds))


@st.composite
def schema_and_value(draw):
    form = draw(st.recursive(TEXTS | NUMBERS | CHOICES, honest_schemas, max_leaves=6))
    schema = {"type": "object", "properties": {"p": form}, "$defs": {"text": {"type": "string", "minLength": 1}}}
    return schema, draw(values(schema))


def with_nulls(value, schema, root):
    """The value as a model must write it under a strict schema: null for what is left out."""
    schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else schema
    for form in schema.get("anyOf", ()):
        filled = with_nulls(value, form, root)
        if jsonschema.Draft202012Validator({**form, "$defs": root.get("$defs", {})}).is_valid(filled):
            return filled
    if isinstance(value, dict):
        return {name: with_nulls(value.get(name), inner, root) for name, inner in schema.get("properties", {}).items()}
    return [with_nulls(each, schema.get("items", {}), root) for each in value] if isinstance(value, list) else value


def in_json_schema(schema):
    """Gemini's Schema in the words of JSON Schema."""
    made = {k: v for k, v in schema.items() if k not in ("type", "nullable")}
    if "properties" in made:
        made["properties"] = {name: in_json_schema(inner) for name, inner in made["properties"].items()}
    if "items" in made:
        made["items"] = in_json_schema(made["items"])
    if "anyOf" in made:
        made["anyOf"] = [in_json_schema(inner) for inner in made["anyOf"]]
    if "type" in schema:
        made["type"] = schema["type"].lower()
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") else made


@settings(max_examples=examples(150), deadline=None)
@given(case=schema_and_value())
def test_what_fits_the_original_fits_what_is_sent(case):
    """What is sent is weaker than the original, or as strong: no call that we would take is kept from the model."""
    schema, value = case
    assume(jsonschema.Draft202012Validator(schema).is_valid(value))
    for name, dialect in DIALECTS.items():
        made = rewrite(schema, dialect)
        if made.schema is None or any(n.severity == "warning" and n.message.endswith("is sent") for n in made.notes):
            continue  # two alternatives that contradict each other
        sent = in_json_schema(made.schema) if name == "gemini.parameters" else made.schema
        written = with_nulls(value, sent, sent) if name == "openai.strict" else value
        jsonschema.Draft202012Validator(sent).validate(written)


# ---- the page


PAGE = Path(__file__).resolve().parents[2] / "docs" / "contributing" / "schema-dialects.md"


def test_the_page_shows_the_dialects_as_they_are():
    """Every keyword of every dialect stands in the table, with its action."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    start = next(at for at, line in enumerate(lines) if line[0] == "keyword")
    names = lines[start][1:]
    shown = {}
    for cells in lines[start + 2 :]:
        if cells[0] == "action":
            break
        for keyword in cells[0].replace("`", "").split(", "):
            shown |= {(name, keyword): action for name, action in zip(names, cells[1:], strict=True)}

    assert set(names) == DIALECTS.keys()
    keywords = {keyword for dialect in DIALECTS.values() for keyword in dialect.keywords}
    expected = {(n, k): d.keywords.get(k, d.other_keywords) for n, d in DIALECTS.items() for k in keywords}
    assert shown == expected | {(name, "any other"): dialect.other_keywords for name, dialect in DIALECTS.items()}


def test_the_pages_example_runs(capsys):
    """What it prints is what the page says."""
    code = PAGE.read_text("utf-8").split("```python\n")[1].split("```")[0]

    exec(code, {})

    assert capsys.readouterr().out == (
        "{'type': 'object', 'properties': {'kind': {'enum': ['grey'], 'type': 'string'}}}\n"
        "info /properties/kind const is sent as an enum of one value\n"
    )
