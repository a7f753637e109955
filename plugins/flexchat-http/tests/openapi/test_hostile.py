"""Documents made to do harm: refused or contained, in bounded time."""

import time

import jsonschema
import pytest
from flexchat.plugin import FetchRequest
from flexchat_http.openapi import convert as converting
from flexchat_http.openapi.reading import DocumentError
from flexchat_http.openapi.request import build_request
from openapi_documents import converted, document

SCHEMAS = "#/components/schemas/"


def ref(name):
    return {"$ref": f"{SCHEMAS}{name}"}


def body(schema, media="application/json"):
    return {"post": {"requestBody": {"content": {media: {"schema": schema}}}}}


def objects(count, follows, **rest):
    """Schemas A0, A1, … with properties that lead to others."""
    return {
        f"A{at}": {"type": "object", "properties": {f"p{to}": ref(f"A{to}") for to in follows(at)}, **rest}
        for at in range(count)
    }


def calls(schemas, count=1):
    return document({f"/{at}": body(ref("A0")) for at in range(count)}, components={"schemas": schemas})


EXPENSIVE = {
    "a chain of schemas": lambda: calls(objects(10_000, lambda at: [at + 1] if at < 9_999 else [])),
    "a circle of schemas": lambda: calls(objects(10_000, lambda at: [(at + 1) % 10_000])),
    "all schemas lead to all": lambda: calls(objects(150, lambda at: range(150)), 2),
    "a schema of thousands": lambda: calls(objects(3_000, lambda at: range(3_000) if at == 0 else []), 10),
    "doubled sixty times": lambda: calls(
        {f"A{at}": {"allOf": [ref(f"A{at + 1}")] * 2} for at in range(60)} | {"A60": {"type": "object"}}, 10
    ),
    "doubled, and all required": lambda: calls(
        {
            f"A{at}": {
                "required": ["a", "b"],
                "properties": {"a": ref(f"A{at + 1}"), "b": ref(f"A{at + 1}")},
            }
            for at in range(200)
        }
        | {"A200": {}},
        10,
    ),
    "one operationId": lambda: document({f"/{at}": {"get": {"operationId": "same"}} for at in range(10_000)}),
    "operationIds without letters": lambda: document({f"/{at}": {"get": {"operationId": "☃"}} for at in range(10_000)}),
    "long operationIds": lambda: document(
        {f"/{at}": {"get": {"operationId": "x" * 10_000 + str(at)}} for at in range(200)}
    ),
    "names alike": lambda: calls(
        {"A0": {"anyOf": [ref("é" + chr(0x4E00 + at)) for at in range(5_000)]}}
        | {"é" + chr(0x4E00 + at): {"type": "string"} for at in range(5_000)}
    ),
    "parameters": lambda: document(
        {"/x": {"get": {"parameters": [{"name": f"é{at}", "in": "query"} for at in range(50_000)]}}}
    ),
    "properties": lambda: document({"/x": body({"properties": {"é" * at: {} for at in range(4_000)}})}),
    "values": lambda: document(
        {"/x": {"get": {"parameters": [{"name": "q", "in": "query", "schema": {"enum": [*range(500_000)]}}]}}}
    ),
    "patterns": lambda: document(
        {
            "/x": {
                "get": {
                    "parameters": [
                        {"name": f"q{at}", "in": "query", "schema": {"type": "string", "pattern": pattern}}
                        for at, pattern in enumerate(["(a+)+$" * 50, "(" * 3_000, "(?:a{1,1000}){1,1000}", "[" * 400])
                    ]
                }
            }
        }
    ),
}  # fmt: skip


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("attack", EXPENSIVE)
def test_no_document_takes_long(attack):
    """Each of its operations is a tool with a valid schema, or left out with a reason."""
    data = EXPENSIVE[attack]()
    started = time.thread_time()

    done = converted(data)

    assert time.thread_time() - started < 15
    assert len(done.tools) + len(done.left_out) == len(data["paths"])
    assert len({tool.name.lower() for tool in done.tools}) == len(done.tools)
    assert max((len(tool.name) for tool in done.tools), default=0) <= 64
    assert all(each.why for each in done.left_out)
    for tool in done.tools[:3]:
        jsonschema.Draft202012Validator.check_schema(tool.parameters)


def test_a_document_that_takes_too_long_is_given_up(monkeypatch):
    """Between two operations: a thread cannot be stopped."""
    monkeypatch.setattr(converting, "MAX_SECONDS", -1.0)

    with pytest.raises(DocumentError, match="choose some with include"):
        converted(document({"/x": {"get": {}}}))


CIRCLES = [
    {"type": "array", "items": ref("A")},
    {"allOf": [ref("A")]},
    {"anyOf": [ref("A"), {"allOf": [ref("A")]}], "properties": {"x": ref("A")}, "required": ["x"]},
    {"not": ref("A")},
    {"$ref": f"{SCHEMAS}A"},
    {"type": "array", "items": {"type": "array", "items": ref("A")}},
]
MEDIA = ["multipart/form-data", "application/x-www-form-urlencoded", "application/json", "text/plain", "image/png"]


@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize("schema", CIRCLES)
@pytest.mark.parametrize("top", [ref("A"), {"type": "object", "properties": {"a": ref("A")}}, {"items": ref("A")}])
def test_a_circle_ends_in_every_kind_of_body(media, schema, top):
    """In a list of lists of itself, too."""
    done = converted(document({"/x": body(top, media), "/y": {"get": {}}}, components={"schemas": {"A": schema}}))

    assert "get_y" in [tool.name for tool in done.tools]
    assert len(done.tools) + len(done.left_out) == 2


NAMES = [
    "__proto__",
    "constructor",
    "a\r\nX-Evil: 1",
    "\x00",
    "‮evil",
    "{x}",
    "../..",
    "a&b=c#d",
    "x" * 10_000,
    " ",
    "$ref",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["query", "path", "header", "cookie", "body"])
def test_a_hostile_name_of_a_parameter_stays_a_name(name, place):
    """It is one argument that providers take, or the operation is left out; nothing of it becomes another header."""
    operation = {"parameters": [{"name": name, "in": place, "required": True, "schema": {"type": "string"}}]}
    if place == "body":
        operation = {"requestBody": {"content": {"application/json": {"schema": {"properties": {name: {}}}}}}}
    done = converted(document({"/v/{" + name + "}" if place == "path" else "/v": {"post": operation}}))

    for tool in done.tools:
        arguments = dict.fromkeys(tool.parameters["properties"], "a\r\nX-Evil: 1/../..")
        assert all(len(each) <= 64 and each.isascii() and each.isprintable() for each in arguments)
        request = sent(tool, arguments)
        if request is not None:
            assert request.url.startswith("https://api.example/v1/v")
            assert not {".", ".."} & {*request.url.partition("?")[0].split("/")}
            assert not any(mark in request.url for mark in "\r\n\x00 ")
            assert not any(mark in text for pair in request.headers.items() for text in pair for mark in "\r\n\x00")


def sent(tool, arguments) -> FetchRequest | None:
    """Return a call's request; None if an argument is refused."""
    from flexchat.plugin import ToolError

    try:
        return build_request(tool.plan, arguments)
    except ToolError:
        return None


@pytest.mark.parametrize(
    "url",
    [
        "https://user:password@api.example/",
        "https://api.example@evil.example/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "unix:///run/docker.sock",
        "https://api.example\\@evil.example/",
        "https://api.example/\r\nX-Evil: 1",
        "https://{host}/",
        "https://[::1/",
        "https://api.example:99999/",
        "https://" + "x" * 100_000,
    ],
    ids=lambda url: url[:30],
)
def test_a_hostile_server_is_none(url):
    """Its operations are left out; one that only the guard can judge is refused there."""
    done = converted(
        document({"/x": {"get": {}}}) | {"servers": [{"url": url, "variables": {"host": {"default": "a@b"}}}]}
    )

    assert [tool.plan["server"] for tool in done.tools if len(tool.plan["server"]) < 8_192] == []
