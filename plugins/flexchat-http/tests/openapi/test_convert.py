"""Documents to tools."""

import time

import jsonschema
import pytest
from flexchat_http.openapi.convert import MAX_TOOLS, convert
from flexchat_http.openapi.reading import DocumentError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_documents import converted, document, library, one

SCHEMAS = "#/components/schemas/"


def schema_of(schema, **options):
    """What a JSON body's schema becomes."""
    content = {"application/json": {"schema": {"type": "array", "items": schema}}}
    tool = one({"requestBody": {"content": content}}, method="post", **options)
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    return tool.parameters["properties"]["body"]["items"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "string", "nullable": True, "example": "x"}, {"type": ["string", "null"]}),
        ({"nullable": True}, {}),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 1}),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
        ({"type": "file"}, {"type": "string"}),
        ({"type": "any"}, {}),
        ({"type": "string", "minLength": -1, "maxLength": 3.0, "required": True}, {"type": "string", "maxLength": 3}),
        ({"type": "string", "pattern": "(?=x)"}, {"type": "string", "description": "Matches (?=x)"}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"enum": ["a", "a", 1, True]}, {"enum": ["a", 1, True]}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "prefixItems": [{"type": "string"}]}),
        ({"allOf": []}, {}),
        ({"title": "T", "xml": {}, "externalDocs": {}, "x-y": 1, "discriminator": {}}, {"description": "T"}),
        ({"type": "string", "const": "x", "if": {}}, {"type": "string"}),
    ],
)
def test_the_dialect_of_3_0_is_translated(given, made):
    assert schema_of(given) == made


def test_3_1_is_2020_12_already():
    given = {"type": ["string", "null"], "const": "x", "exclusiveMinimum": 2, "if": {"minLength": 1}, "then": False}

    assert schema_of(given, version="3.1.0") == given


def test_a_key_that_a_parameter_demands_is_sent_with_others_if_there_is_one():
    """As Trello's document has it: two keys as alternatives, and both as required parameters."""
    schemes = {
        name: {"type": "apiKey", "in": "query", "name": name.removeprefix("api_")} for name in ("api_key", "api_token")
    }
    keys = [{"in": "query", "name": name, "required": True, "schema": {"type": "string"}} for name in ("key", "token")]
    operation = {"security": [{"api_key": []}, {"api_token": []}], "parameters": keys}

    together = one(operation, components={"securitySchemes": schemes})
    apart = one({**operation, "parameters": []}, components={"securitySchemes": schemes})

    assert together.parameters["properties"] == {}
    assert [[each["scheme"] for each in some] for some in together.plan["security"]] == [
        ["api_key", "api_token"],
        ["api_key"],
        ["api_token"],
    ]
    assert [[each["scheme"] for each in some] for some in apart.plan["security"]] == [["api_key"], ["api_token"]]


def test_what_is_only_in_answers_is_left_out():
    schemas = {"Id": {"type": "string", "readOnly": True}}
    given = {
        "type": "object",
        "required": ["id", "key", "name"],
        "properties": {
            "id": {"readOnly": True},
            "key": {"$ref": "#/components/schemas/Id"},
            "name": {"writeOnly": True},
        },
    }

    made = schema_of(given, components={"schemas": schemas})

    assert made == {"type": "object", "properties": {"name": {}}, "required": ["name"]}


def test_recursive_schemas_are_definitions_and_others_are_written_out():
    schemas = {
        "Tree": {"properties": {"leaf": {"$ref": SCHEMAS + "Leaf"}, "in": {"$ref": SCHEMAS + "Tree"}}},
        "Leaf": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "Unused": {"type": "string"},
    }  # fmt: skip
    content = {"application/json": {"schema": {"$ref": f"{SCHEMAS}Tree"}}}
    tool = one({"requestBody": {"content": content}}, method="post", components={"schemas": schemas})

    assert [*tool.parameters["properties"]] == ["leaf", "in"]
    assert [*tool.parameters["$defs"]] == ["Leaf", "Tree"]
    jsonschema.validate({"in": {"in": {"leaf": {"n": 1}}}}, tool.parameters)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"in": {"in": {"leaf": {"n": "1"}}}}, tool.parameters)


@pytest.mark.slow
@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"$ref": "#/components/schemas/A"}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}},
        {"A": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/components/schemas/A"}}}},
        {a: {"allOf": [{"$ref": SCHEMAS + b}] * 2} for a, b in zip("ABCDEFGHIJKL", "BCDEFGHIJKLA", strict=True)},
        {"A": {"$ref": f"{SCHEMAS}B0"}, "B3000": {}}
        | {f"B{n}": {"properties": {"x": {"$ref": f"{SCHEMAS}B{n + 1}"}}} for n in range(3000)},
    ],
)  # fmt: skip
def test_circles_and_chains_end(schemas):
    """A tool that can be used, or a reason; never a loop."""
    content = {"application/json": {"schema": {"$ref": f"{SCHEMAS}A"}}}
    done = converted(document({"/x": {"post": {"requestBody": {"content": content}}}}, components={"schemas": schemas}))

    assert len(done.tools) + len(done.left_out) == 1
    for tool in done.tools:
        jsonschema.Draft202012Validator.check_schema(tool.parameters)


def test_a_schema_that_is_too_large_loses_its_deep_optional_parts():
    leaf = {"type": "string", "description": "x" * 300}
    schema = leaf
    for _ in range(3):
        schema = {"type": "object", "required": ["p0"], "properties": {f"p{n}": schema for n in range(9)}}
    content = {"application/json": {"schema": schema}}
    tool = one({"requestBody": {"required": True, "content": content}}, method="post")

    assert len(str(tool.parameters)) < 65_536
    assert len(tool.parameters["properties"]) == 9
    assert "p0" in tool.parameters["properties"]["p1"]["properties"]


def test_effects_follow_the_method_unless_said():
    data = document({"/x": {m: {"operationId": m} for m in ("get", "head", "post", "put", "delete")}})
    done = converted(data, effect={"/x": "idempotent", "POST /x": "read", "get": "write"})

    assert {t.name: t.effect for t in converted(data).tools} == {
        "get": "read", "head": "read", "post": "write", "put": "write", "delete": "write"}  # fmt: skip
    assert {t.name: t.effect for t in done.tools}["post"] == "read"


@pytest.mark.parametrize(
    ("servers", "url"),
    [
        ([{"url": "https://{h}.x.example:{p}/v", "variables": {"h": {"default": "eu"}, "p": {"default": 8443}}}],
         "https://eu.x.example:8443/v"),
        ([{"url": "/v2/"}], "https://docs.example/v2"),
        ([{"url": "v2"}], "https://docs.example/api/v2"),
        ([], "https://docs.example"),
        ([{"url": "https://{h}/"}], "variable 'h' without a default"),
        ([{"url": "file:///etc"}], "is not an http"),
        ([{"url": "https://u:p@x"}], "user name"),
        ([{"url": "https://x/\r\nHost: y"}], "characters that URLs do not have"),
        ([{"url": "https://[::1"}], "is not a URL"),
        ([{"url": "https://x:99999"}], "is not a URL"),
        ([7], "https://docs.example"),
    ],
)  # fmt: skip
def test_servers(servers, url):
    data = document({"/x": {"get": {}}}) | {"servers": servers}
    done = converted(data)

    assert url in (done.tools[0].plan["server"] if done.tools else done.left_out[0].why)


def test_the_nearest_servers_count_and_the_settings_before_all():
    data = document(
        {"/x": {"get": {"servers": [{"url": "https://op.example"}]}, "servers": [{"url": "https://p.example"}]}}
    )

    assert converted(data).tools[0].plan["server"] == "https://op.example"
    assert converted(data, server="http://127.0.0.1:8080/").tools[0].plan["server"] == "http://127.0.0.1:8080"
    with pytest.raises(DocumentError, match="server"):
        converted(data, server="nowhere")


def test_a_relative_server_of_a_file_needs_one_to_be_set():
    data = document({"/x": {"get": {}}}) | {"servers": [{"url": "/v1"}]}

    assert "set server" in convert(library(data, "file:///docs/openapi.json")).left_out[0].why


@pytest.mark.slow
def test_too_many_operations_are_refused_unless_chosen():
    data = document({f"/{n}": {"get": {}} for n in range(MAX_TOOLS + 1)})

    with pytest.raises(DocumentError, match="choose some with include"):
        converted(data)
    assert len(converted(data, include=["/1"]).tools) == 1


@pytest.mark.timed
@pytest.mark.slow
def test_a_million_operations_are_refused_in_seconds():
    data = document({f"/{n}": {"get": {}} for n in range(1_000_000)})
    started = time.thread_time()
    with pytest.raises(DocumentError, match="1,000,000 operations are wanted"):
        converted(data)

    assert time.thread_time() - started < 60


ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = st.sampled_from(
    ["paths", "/x", "/{y}", "get", "post", "parameters", "requestBody", "content", "application/json", "schema", "type",
     "properties", "items", "$ref", "name", "in", "required", "servers", "url", "security", "components", "schemas",
     "a", "multipart/form-data", "encoding", "allOf", "enum", "operationId", "tags", "securitySchemes", "variables"]
)  # fmt: skip
VALUES = st.sampled_from(["#/components/schemas/a", "#/paths", "object", "array", "string", "path", "query", "header"])
ANYTHING = st.recursive(
    ODD | VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=40
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example], deadline=None)
@given(ANYTHING, ANYTHING, ANYTHING)
def test_whatever_a_document_holds_is_a_tool_or_left_out(item, operation, components):
    """Nothing else is raised."""
    paths = {"/x": item, "/y/{y}": {"post": operation, "parameters": [operation, item]}}
    for version in ("3.0.0", "3.1.0"):
        for tool in converted(document(paths, version=version, components=components)).tools:
            jsonschema.Draft202012Validator.check_schema(tool.parameters)
