"""The OpenAPI document is one, and it tells the truth."""

import re

import jsonschema
import pytest
from flexchat.config.document import walk


@pytest.fixture
async def document(client):
    return (await client.get("/openapi.json")).json()


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


@pytest.mark.slow
async def test_it_fits_the_official_schema_of_openapi_31(document):
    definitions = pytest.importorskip("schemathesis.specs.openapi.definitions")
    jsonschema.Draft202012Validator(definitions.OPENAPI_31).validate(document)


@pytest.mark.slow
async def test_each_schema_in_it_is_json_schema(document):
    for path, method, operation in operations(document):
        contents = [operation.get("requestBody", {}), *operation["responses"].values()]
        schemas = [media["schema"] for each in contents for media in each.get("content", {}).values()]
        schemas += [parameter["schema"] for parameter in operation.get("parameters", ())]
        for schema in schemas:
            try:
                jsonschema.Draft202012Validator.check_schema(schema)
            except jsonschema.SchemaError as error:
                pytest.fail(f"{method} {path}: {error.message}")


async def test_names_are_not_given_twice_and_references_lead_somewhere(document):
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    for place, value in walk(document):
        if place[-1] == "$ref" and isinstance(value, str) and value.startswith("#/components/"):
            assert value in known


async def test_every_operation_of_the_app_is_in_it_and_no_other(new_app, document):
    app = new_app()
    told = {(method.upper(), path) for path, method, _ in operations(document)}
    assert told == {(each.method, each.path.replace(":path}", "}")) for each in app.operations}


async def test_a_token_is_told_where_one_is_needed(new_client):
    client = await new_client(tokens={"a-token-of-alice-1": "alice"})
    document = (await client.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert document["paths"]["/api/config"]["get"]["security"] == [{"token": []}]
    assert "401" in document["paths"]["/api/config"]["get"]["responses"]
    assert "security" not in document["paths"]["/openapi.json"]["get"]


async def test_each_example_fits_its_schema(document):
    told = 0
    for path, method, operation in operations(document):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            for example in media["schema"].get("examples", ()):
                told += 1
                assert not [*jsonschema.Draft202012Validator(media["schema"]).iter_errors(example)], (method, path)
    assert told > 5


async def test_links_lead_to_operations(document):
    names = {operation["operationId"] for _, _, operation in operations(document)}
    answers = [answer for _, _, operation in operations(document) for answer in operation["responses"].values()]
    links = [link for answer in answers for link in answer.get("links", {}).values()]
    assert links
    assert {link["operationId"] for link in links} <= names


async def test_the_page_of_the_document_needs_nothing_from_elsewhere(client):
    """All its files are the server's."""
    page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    files = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(files) == 5
    for file in files:
        assert (await client.get(f"/{file}")).status_code == 200, file
    assert "//" not in page.text.replace("<!doctype", "")


async def test_turns_and_their_events_are_typed(client):
    """Phases, citations, usage, and each event by its name."""
    found = (await client.get("/openapi.json")).json()
    content = found["paths"]["/chat/api"]["post"]["responses"]["200"]["content"]
    turn = content["application/json"]["schema"]["properties"]["turn"]["properties"]
    assert {"phase", "outcome", "elapsed_ms"} <= turn["phases"]["items"]["properties"].keys()
    assert {"title", "source", "via"} <= turn["citations"]["items"]["properties"].keys()
    assert {"input_tokens", "output_tokens"} <= turn["usage"]["properties"].keys()
    events = {each["properties"]["event"]["const"] for each in content["text/event-stream"]["schema"]["anyOf"]}
    assert {"turn_started", "text", "tool_finished", "question", "turn", "error"} <= events
