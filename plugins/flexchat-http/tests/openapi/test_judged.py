"""Generated calls of nasty documents, judged by openapi-core: every request must be one the document describes."""

import random

import pytest
from openapi_documents import converted, document, library

pytest.importorskip("openapi_core", reason="the judge is not installed: pip install openapi-core")
pytestmark = pytest.mark.slow

TEXT = {"type": "string"}
LIST = {"type": "array", "items": {"type": "string"}, "minItems": 1}
TABLE = {"type": "object", "properties": {"a": {"type": "integer"}, "b": TEXT}, "required": ["a", "b"]}
SAFE = {**TABLE, "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}}  # no commas, which end a value


def parameter(name, place, schema, **rest):
    return {"name": name, "in": place, "schema": schema, "required": True, **rest}


def described(paths, **rest):
    """Return a document that the judge takes."""
    for item in paths.values():
        for method in item.keys() - {"parameters"}:
            item[method]["responses"] = {"default": {"description": "Whatever it is."}}
    return document(paths, **rest)


def styled():
    """The styles that the judge reads (not label and matrix), with values of each kind."""
    paths = {}
    for explode in (False, True):
        for kind, schema in (("text", TEXT), ("list", {**LIST, "items": {"type": "integer"}}), ("table", SAFE)):
            found = parameter("p", "path", schema, style="simple", explode=explode)
            paths[f"/{kind}{explode}/{{p}}/end"] = {"get": {"parameters": [found]}}
    for style, explode, schema in (
        ("form", True, TEXT),
        ("form", True, LIST),
        ("form", False, {**LIST, "items": {"type": "integer"}}),
        ("deepObject", True, TABLE),
    ):
        found = parameter("q[x]" if schema is TEXT else "q", "query", schema, style=style, explode=explode)
        paths[f"/query{len(paths)}"] = {"get": {"parameters": [found]}}
    content = {"application/json": {"schema": TABLE}}
    paths["/content"] = {"get": {"parameters": [{"name": "c", "in": "query", "required": True, "content": content}]}}
    paths["/header"] = {"get": {"parameters": [parameter("X-A", "header", {"type": "integer"})]}}
    paths["/cookie"] = {"get": {"parameters": [parameter("session", "cookie", TEXT)]}}
    return described(paths)


def bodies(version):
    """Bodies of all kinds, recursive, nullable, read only, and under names that clash."""
    nullable = {"type": "string", "nullable": True} if version < "3.1" else {"type": ["string", "null"]}
    tree = {
        "type": "object",
        "required": ["name", "id"] if version < "3.1" else ["name"],  # 3.1 has no rule for what is only in answers
        "additionalProperties": False,
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "name": nullable,
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        },
    }
    file = {"f": {"type": "string", "format": "binary"}} if version < "3.1" else {}  # the judge reads no files of 3.1
    form = {"type": "object", "properties": {"id": TEXT, "many": LIST}, "required": ["many"]}
    many = {
        "application/json": {"$ref": "#/components/schemas/Tree"},
        "application/x-www-form-urlencoded": form,
        "multipart/form-data": {
            "type": "object",
            "properties": {"id": TEXT, **file},
        },
        "text/plain": {"type": "string", "minLength": 1},
    }
    paths = {
        f"/{number}/{{id}}": {
            "parameters": [parameter("id", "path", TEXT), parameter("id", "query", {"type": "boolean"})],
            "post": {"requestBody": {"required": True, "content": {media: {"schema": schema}}}},
        }
        for number, (media, schema) in enumerate(many.items())
    }
    return described(paths, version=version, components={"schemas": {"Tree": tree}})


@pytest.mark.parametrize(
    "data", [styled(), bodies("3.0.3"), bodies("3.1.0")], ids=["styles", "bodies 3.0", "bodies 3.1"]
)
def test_every_request_is_one_the_document_describes(data):
    from flexchat_http.openapi.request import build_request
    from openapi_directory import Judge, arguments_of_call

    made = converted(data)
    judge, chance = Judge(data, library(data).root), random.Random(7)

    assert made.left_out == ()
    assert len(made.tools) == len(data["paths"])
    for tool in made.tools:
        for number in range(12):
            arguments = arguments_of_call(tool, chance, number % 2 == 0)
            request = build_request(tool.plan, arguments)

            assert judge.refuses(tool.plan, request) is None, (request, arguments)
