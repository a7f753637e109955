"""OpenAPI 2.0 documents: the requests that are sent, as the document's own words ask for them."""

import json
from urllib.parse import unquote

import pytest
from flexchat_http.openapi.convert import convert
from flexchat_http.openapi.library import Library
from flexchat_http.openapi.request import build_request
from flexchat_http.openapi.swagger import as_openapi, is_swagger
from hypothesis import given
from hypothesis import strategies as st

PET = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


def swagger(path, method, operation, **more):
    paths = {path: {method: {"operationId": "go", "summary": "Go.", **operation}}}
    return {"swagger": "2.0", "info": {}, "host": "a.example", "basePath": "/v2/", "paths": paths, **more}


def tool_of(document, root="file:///a.json"):
    made = convert(Library(root=root, files={root: as_openapi(document)}))
    assert made.left_out == ()
    (tool,) = made.tools
    return tool


def sent(document, arguments):
    return build_request(tool_of(document).plan, arguments)


def test_a_body_by_reference_is_sent_as_json():
    body = {"in": "body", "name": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    request = sent(swagger("/pet", "post", {"parameters": [body]}, definitions={"Pet": PET}), {"name": "Rex", "age": 3})

    assert (request.method, request.url) == ("POST", "https://a.example/v2/pet")
    assert json.loads(request.body) == {"name": "Rex", "age": 3}
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("format", "query"),
    [
        (None, "tags=a,b"),
        ("csv", "tags=a,b"),
        ("ssv", "tags=a b"),
        ("pipes", "tags=a|b"),
        ("multi", "tags=a&tags=b"),
    ],
)
def test_lists_are_sent_in_their_collection_format(format, query):
    tags = {"in": "query", "name": "tags", "type": "array", "items": {"type": "string"}}
    tags |= {"collectionFormat": format} if format else {}

    request = sent(swagger("/a", "get", {"parameters": [tags]}), {"tags": ["a", "b"]})

    assert unquote(request.url.partition("?")[2]) == query


def test_shared_parameters_and_references_are_followed():
    shared = [{"$ref": "#/parameters/id"}, {"in": "query", "name": "n", "type": "integer", "minimum": 1}]
    document = swagger("/pets/{id}", "get", {"parameters": [{"in": "query", "name": "n", "type": "string"}]})
    document["paths"]["/pets/{id}"]["parameters"] = shared
    document["parameters"] = {"id": {"in": "path", "name": "id", "required": True, "type": "string"}}

    tool = tool_of(document)

    assert {name: each["type"] for name, each in tool.parameters["properties"].items()} == {
        "id": "string",
        "n": "string",
    }
    assert build_request(tool.plan, {"id": "x/y", "n": "1"}).url == "https://a.example/v2/pets/x%2Fy?n=1"


@pytest.mark.parametrize(
    ("fields", "consumes", "kind"),
    [
        ([{"name": "title", "type": "string"}], None, "application/x-www-form-urlencoded"),
        ([{"name": "title", "type": "string"}], ["multipart/form-data"], "multipart/form-data"),
        ([{"name": "title", "type": "string"}, {"name": "f", "type": "file"}], None, "multipart/form-data"),
    ],
)
def test_form_fields_are_sent_as_a_form(fields, consumes, kind):
    operation = {"parameters": [{"in": "formData", **each} for each in fields]}
    operation |= {"consumes": consumes} if consumes else {}

    request = sent(swagger("/a", "post", operation), {"title": "A&B", **({"f": "SGk="} if len(fields) > 1 else {})})

    assert request.headers["Content-Type"].partition(";")[0] == kind
    assert (b"title=A%26B" if "urlencoded" in kind else b"A&B") in request.body
    assert len(fields) == 1 or b"Hi" in request.body


@pytest.mark.parametrize(
    ("more", "root", "server"),
    [
        ({"schemes": ["http", "https"]}, "file:///a.json", "https://a.example/v2"),
        ({"schemes": ["http"]}, "file:///a.json", "http://a.example/v2"),
        ({"schemes": ["ws"]}, "file:///a.json", "https://a.example/v2"),
        ({"host": None}, "https://b.example/docs/api.json", "https://b.example/v2"),
        ({"host": "a.example:8080", "basePath": None}, "file:///a.json", "https://a.example:8080"),
    ],
)
def test_the_server_is_made_of_schemes_host_and_base_path(more, root, server):
    assert tool_of({**swagger("/a", "get", {}), **more}, root).plan["server"] == server


def test_security_is_what_the_document_defines():
    definitions = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "pw": {"type": "basic"},
        "app": {
            "type": "oauth2",
            "flow": "application",
            "tokenUrl": "https://a.example/token",
            "scopes": {"r": "Read"},
        },
    }
    needs = [{"key": []}, {"pw": []}, {"app": ["r"]}]

    plan = tool_of(swagger("/a", "get", {"security": needs}, securityDefinitions=definitions)).plan

    assert [schemes[0]["type"] for schemes in plan["security"]] == ["key", "basic", "oauth2"]
    assert plan["security"][2][0]["token_url"] == "https://a.example/token"


@pytest.mark.parametrize(("version", "known"), [("2.0", True), (2.0, True), ("1.2", False), (None, False)])
def test_only_version_2_is_converted(version, known):
    assert is_swagger({"swagger": version}) is known


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["in", "name", "type", "schema"]), inner)
    ),
    max_leaves=5,
)


@given(ANYTHING, st.sampled_from(["parameters", "consumes", "security"]))
def test_one_malformed_operation_costs_only_itself(odd, key):
    document = swagger("/a", "get", {})
    document["paths"]["/b"] = {"post": {"operationId": "b", key: odd}, "parameters": odd, "put": odd}
    root = "file:///a.json"

    made = convert(Library(root=root, files={root: as_openapi(document)}))

    assert "go" in [tool.name for tool in made.tools]
