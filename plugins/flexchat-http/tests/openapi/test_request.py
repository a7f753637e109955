"""From a plan and arguments to a request."""

import base64
import email
import email.policy
import json
import urllib.parse

import pytest
from flexchat.plugin import ToolError
from flexchat_http.openapi.request import build_request
from hypothesis import given
from hypothesis import strategies as st
from openapi_documents import one

SERVER = "https://api.example/v1"


def parameter(name, place, *, style=None, **rest):
    schema = {"schema": {"type": "string"}} if "content" not in rest and "schema" not in rest else {}
    return {"name": name, "in": place, **({"style": style} if style else {}), **schema, **rest}


def request(arguments, *, path="/x", method="get", **operation):
    return build_request(one(operation, method=method, path=path).plan, arguments)


def test_parameters_go_to_their_places():
    made = request(
        {"id": "a b", "q": "x&y=z", "X-Trace": "t", "session": "s;t"},
        path="/items/{id}",
        parameters=[
            parameter("id", "path", required=True),
            parameter("q", "query"),
            parameter("X-Trace", "header"),
            parameter("session", "cookie"),
        ],
    )

    assert made.url == f"{SERVER}/items/a%20b?q=x%26y%3Dz"
    assert made.headers == {"X-Trace": "t", "Cookie": "session=s%3Bt"}
    assert made.body == b""


def test_names_in_several_places_are_told_apart():
    tool = one(
        {
            "parameters": [parameter("id", "path", required=True), parameter("id", "query"), parameter("id", "header")],
            "requestBody": {
                "content": {
                    "application/json": {"schema": {"type": "object", "properties": {"id": {"type": "integer"}}}}
                }
            },
        },
        method="post",
        path="/{id}",
    )
    made = build_request(tool.plan, {"id": "p", "id_query": "q", "id_header": "h", "id_body": 1})

    assert [*tool.parameters["properties"]] == ["id", "id_query", "id_header", "id_body"]
    assert made.url == f"{SERVER}/p?id=q"
    assert made.headers["id"] == "h"
    assert json.loads(made.body) == {"id": 1}


@pytest.mark.parametrize("value", ["..", ".", "", "../x", "..\\x", "a/b", "?x=1", "#f", "%2e%2e", "\r\nHost: x", "é"])
def test_a_path_value_cannot_leave_its_segment(value):
    operation = {"path": "/a/{id}/b", "parameters": [parameter("id", "path", required=True)]}
    try:
        url = request({"id": value}, **operation).url
    except ToolError:
        assert value in ("..", ".", "")
        return

    parts = urllib.parse.urlsplit(url)
    assert parts.netloc == "api.example"
    assert parts.path.count("/") == 4
    assert urllib.parse.unquote(parts.path.split("/")[3]) == value


@given(st.text())
def test_no_header_value_begins_another_header(text):
    try:
        made = request({"X-A": text}, parameters=[parameter("X-A", "header")])
    except ToolError:
        return

    assert not set(made.headers["X-A"]) & set("\r\n\0")


def test_a_required_body_is_sent_even_if_all_it_has_is_optional():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}

    assert request({}, method="post", requestBody=body).body == b"{}"
    assert request({}, method="post", requestBody={**body, "required": False}).body == b""
    assert request({"a": "x"}, method="post", requestBody=body).body == b'{"a":"x"}'


def body_of(media, schema, arguments, **entry):
    content = {media: {"schema": schema, **entry}}
    return request(arguments, method="post", requestBody={"required": True, "content": content})


OBJECT = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string"}},
        "table": {"type": "object", "properties": {"k": {"type": "integer"}}},
    },
}
VALUES = {"text": "a&b c", "list": ["x", "y"], "table": {"k": 1}}


def test_a_form_is_encoded():
    made = body_of("application/x-www-form-urlencoded", OBJECT, VALUES)

    assert made.body == b"text=a%26b+c&list=x&list=y&k=1"
    assert dict(made.headers)["Content-Type"] == "application/x-www-form-urlencoded"


def test_a_forms_encoding_is_kept():
    encoding = {
        "list": {"style": "spaceDelimited", "explode": False},
        "table": {"contentType": "application/json"},
    }
    made = body_of("application/x-www-form-urlencoded", OBJECT, VALUES, encoding=encoding)

    assert made.body == b"text=a%26b+c&list=x+y&table=%7B%22k%22%3A1%7D"


def test_multipart_has_files_and_types():
    schema = {
        "type": "object",
        "properties": {**OBJECT["properties"], "file": {"type": "string", "format": "binary"}},
    }
    content = b"\x00\xff--\r\n"
    values = {**VALUES, "file": base64.b64encode(content).decode()}
    made = body_of("multipart/form-data", schema, values, encoding={"file": {"contentType": "image/png"}})
    head = f"Content-Type: {dict(made.headers)['Content-Type']}\r\n\r\n".encode()
    parts = email.message_from_bytes(head + made.body, policy=email.policy.HTTP).get_payload()
    said = [
        (p.get_param("name", header="content-disposition"), p["content-type"], p.get_payload(decode=True))
        for p in parts
    ]

    assert said == [
        ("text", None, b"a&b c"),
        ("list", None, b"x"),
        ("list", None, b"y"),
        ("table", "application/json", b'{"k":1}'),
        ("file", "image/png", content),
    ]


def test_texts_and_bytes_are_one_argument():
    assert body_of("text/plain", {"type": "string"}, {"body": "hé"}).body == "hé".encode()
    assert body_of("application/xml", {"type": "object"}, {"body": "<a/>"}).body == b"<a/>"
    assert body_of("application/octet-stream", {"type": "string"}, {"body": "AAE="}).body == b"\x00\x01"
    with pytest.raises(ToolError, match="'body' is not base64"):
        body_of("application/octet-stream", {"type": "string"}, {"body": "é"})


def test_content_parameters_are_json():
    content = {"application/json": {"schema": {"type": "object"}}}
    made = request({"f": {"a": [1, "é"]}}, parameters=[{"name": "f", "in": "query", "content": content}])

    assert json.loads(urllib.parse.unquote(made.url.partition("?f=")[2])) == {"a": [1, "é"]}


def test_a_missing_part_of_the_path_is_said():
    with pytest.raises(ToolError, match="'id' is missing"):
        request({}, path="/{id}", parameters=[parameter("id", "path")])


def test_credentials_are_not_arguments():
    schemes = {"k": {"type": "apiKey", "in": "query", "name": "key"}, "b": {"type": "http", "scheme": "Bearer"}}
    operation = {"parameters": [parameter("key", "query", required=True)], "security": [{"k": []}, {"b": []}]}
    tool = one(operation, components={"securitySchemes": schemes})

    assert tool.parameters["properties"] == {}
    key, bearer = {"scheme": "k", "type": "key", "place": "query", "key": "key"}, {"scheme": "b", "type": "bearer"}
    assert tool.plan["security"] == [[key], [key, bearer], [bearer]]


def test_the_same_call_is_the_same_request():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}

    assert body_of("multipart/form-data", schema, {"a": "x"}) == body_of("multipart/form-data", schema, {"a": "x"})
