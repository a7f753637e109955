"""A document in a config: its tools, their calls, and what was accepted."""

import asyncio
import json

import pytest
from flexchat import FlexChat, StuckTurnError, ToolClashError
from flexchat.plugin import ToolSourceContext, ToolSourceError
from flexchat_cli import check_config
from flexchat_http.openapi.source import open_source
from flexchat_http.settings import OpenApiConfig
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says
from openapi_documents import document, written

from ..conftest import reply

pytestmark = pytest.mark.anyio

SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "user": {"type": "http", "scheme": "basic"},
    "token": {"type": "http", "scheme": "bearer"},
    "app": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {"read": ""}}}},
    "tls": {"type": "mutualTLS"},
}
PETS = {
    "/pets/{id}": {
        "get": {
            "operationId": "getPet",
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        }
    },
    "/pets": {
        "post": {
            "operationId": "addPet",
            "summary": "Add a pet.",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"properties": {"name": {"type": "string"}}}}},
            },
        },
        "get": {"operationId": "listPets"},
    },
}


@pytest.fixture
async def chat_of(tmp_path):
    """Open a chat with a document's operations, from files."""
    chats = []

    def open_chat(data, **source):
        written(tmp_path, data)
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["openapi/*"]}}],
            "tools": {"openapi": [{"document": "openapi.json", **source}]},
            "network": {"allow": ["127.0.0.1"]},
        }
        path = tmp_path / "chat.json"
        path.write_text(json.dumps(config))
        chats.append(FlexChat.from_config(path))
        return chats[-1]

    yield open_chat
    for chat in chats:
        await chat.aclose()


async def result(chat, name, /, **arguments):
    """Return a call's result."""
    return await chat.call_tool(name, arguments)


def local(service, paths=PETS, **rest):
    return document(paths, **rest) | {"servers": [{"url": f"{service.url}/v1"}]}


async def test_five_lines_of_config_make_tools_that_are_called(chat_of, serve):
    """Path, body and answer; the lock holds the plan."""
    service = await serve(reply(b'{"id": "7"}'))
    chat = chat_of(local(service))

    found = await result(chat, "getPet", id="a/../b c")
    assert found.result == {"id": "7"}
    assert service.got[0].target == "/v1/pets/a%2F..%2Fb%20c"

    await result(chat, "addPet")
    assert (service.got[1].method, service.got[1].body) == ("POST", b"{}")
    await result(chat, "addPet", name="é")
    assert json.loads(service.got[2].body) == {"name": "é"}
    assert {tool.name: tool.effect for tool in chat.tools.sources.state("openapi").tools} == {
        "getPet": "read", "addPet": "write", "listPets": "read"}  # fmt: skip


@pytest.mark.parametrize(
    ("security", "auth", "header"),
    [
        ([{"key": []}], {"key": "k1-secret"}, ("x-key", "k1-secret")),
        ([{"user": []}], {"user": "ann:pass:word"}, ("authorization", "Basic YW5uOnBhc3M6d29yZA==")),
        ([{"token": []}], {"token": "t1-secret"}, ("authorization", "Bearer t1-secret")),
        ([{"tls": []}, {"token": []}], {"token": "t1-secret"}, ("authorization", "Bearer t1-secret")),
        ([{"key": []}, {}], {}, ("x-key", None)),
        ([{"key": [], "token": []}], {"key": "k1-secret", "token": "t1-secret"}, ("x-key", "k1-secret")),
    ],
)  # fmt: skip
async def test_credentials_are_sent_as_the_document_says(chat_of, serve, security, auth, header):
    service = await serve()
    data = local(service, components={"securitySchemes": SCHEMES}, security=security)
    await result(chat_of(data, auth=auth), "listPets")

    assert service.got[0].headers.get(header[0]) == header[1]


async def test_a_missing_credential_is_said_and_nothing_is_sent(chat_of, serve, tmp_path):
    service = await serve()
    data = local(service, components={"securitySchemes": SCHEMES}, security=[{"key": []}, {"tls": []}])
    chat = chat_of(data)
    found = await result(chat, "listPets")

    assert found.error == "this operation needs a key, and the operator of this tool has not set it"
    assert "auth of the tool source 'openapi' must have one of: key" in found.hint
    assert service.got == []


async def test_oauth_tokens_are_fetched_from_where_the_document_says_and_kept(chat_of, serve):
    async def answer(service, request, writer):
        await reply(b'{"access_token": "abc", "expires_in": 60}' if request.target == "/token" else b"[]")(
            service, request, writer
        )

    service = await serve(answer)
    schemes = {"app": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": f"{service.url}/token"}}}}
    data = local(service, components={"securitySchemes": schemes}, security=[{"app": ["read"]}])
    chat = chat_of(data, auth={"app": "me:secret-1"})
    await result(chat, "listPets")
    await result(chat, "getPet", id="1")

    assert [got.target for got in service.got] == ["/token", "/v1/pets", "/v1/pets/1"]
    assert b"scope=read" in service.got[0].body
    assert service.got[2].headers["authorization"] == "Bearer abc"


async def test_no_secret_is_written_to_the_lock(chat_of, serve, tmp_path):
    service = await serve()
    data = local(service, components={"securitySchemes": SCHEMES}, security=[{"key": []}])
    await result(chat_of(data, auth={"key": "very-secret-1"}, headers={"X-Y": "also-secret"}), "listPets")
    text = next(tmp_path.glob("*.lock")).read_text()

    assert "getPet" in text
    assert "secret" not in text


async def test_a_changed_document_waits_until_it_is_accepted(chat_of, serve):
    service = await serve()
    await result(chat_of(local(service)), "listPets")
    paths = {**PETS, "/pets/{id}": {"delete": {"operationId": "getPet"}}}
    chat = chat_of(local(service, paths))
    state = await chat.tools.sources.look("openapi")

    assert [(change.name, change.kind, change.offered) for change in state.changes] == [("getPet", "changed", False)]


async def test_a_private_server_is_not_reached_without_the_operators_word(tmp_path, serve):
    service = await serve()
    source = await open_source(
        OpenApiConfig(document=str(written(tmp_path, local(service)))), ToolSourceContext(name="x")
    )
    assert len(await source.tools()) == 3
    path = tmp_path / "chat.json"
    config = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [{"llm": "r", "model": "any"}],
        "tools": {"openapi": [{"document": "openapi.json"}]},
    }
    path.write_text(json.dumps(config))
    async with FlexChat.from_config(path) as chat:
        found = await result(chat, "listPets")

    assert "127.0.0.1" in found.error
    assert service.got == []


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ({"swagger": "1.2"}, {}, "2.0 or later is needed"),
        (document(PETS), {"headers": {"Host": "x"}}, "the header Host belongs to the connection"),
        (document(PETS), {"headers": {"X-Token": " "}}, "the header X-Token has no credential"),
        ("{", {}, "it is not JSON"),
        (document({}), {}, "no operation is wanted"),
        (document(PETS), {"include": ["listPet"]}, "'listPet' fits none .did you mean 'listPets'"),
        (document(PETS), {"server": "ftp://x"}, "is not an http"),
    ],
)
async def test_what_cannot_be_used_is_said(tmp_path, data, options, said):
    config = OpenApiConfig(document=str(written(tmp_path, data)), **options)
    with pytest.raises(ToolSourceError, match=said):
        await (await open_source(config, ToolSourceContext(name="x"))).tools()


async def test_the_fingerprint_follows_the_document_and_what_is_made_of_it(tmp_path):
    path = str(written(tmp_path, document(PETS)))
    context = ToolSourceContext(name="x")

    async def fingerprint(**options):
        return (await open_source(OpenApiConfig(document=path, **options), context)).fingerprint

    assert await fingerprint() == await fingerprint(auth={"key": "other"}, max_bytes=7)
    assert await fingerprint() != await fingerprint(include=("GET",))
    before = await fingerprint()
    written(tmp_path, document(PETS, tags=[]))
    assert await fingerprint() != before


async def test_a_key_of_the_config_that_the_document_does_not_know_is_said(chat_of, caplog):
    """A misspelt one changes nothing, and nobody would notice."""
    data = document({**PETS, "pets": {"get": {}}}, components={"securitySchemes": SCHEMES})
    chat = chat_of(data, effect={"POST /pts": "read"}, auth={"tokn": "secret-1"}, include=["listPet", "getPet"])

    await chat.tools.sources.look("openapi")

    (said,) = [record.message for record in caplog.records if "tool source 'openapi'" in record.message]
    assert "'listPet' fits no operation (did you mean 'listPets'?)" in said
    assert "'POST /pts' fits no operation" in said
    assert "auth.tokn: the document has no such security scheme (did you mean 'token'?)" in said
    assert "pets cannot be a tool: the path does not begin with /" in said
    assert "secret-1" not in said


@pytest.mark.parametrize(("before", "after"), [("write", "read"), ("read", "write"), ("idempotent", "write")])
async def test_an_operators_effects_are_in_force_without_being_accepted(chat_of, serve, before, after):
    service = await serve()
    first = chat_of(local(service), effect={"POST /pets": before})
    await first.tools.sources.look("openapi")
    assert {tool.name: tool.effect for tool in first.tools.sources.state("openapi").tools}["addPet"] == before
    chat = chat_of(local(service), effect={"POST /pets": after})
    await chat.respond("Hello.")

    state = chat.tools.sources.state("openapi")
    assert {tool.name: tool.effect for tool in state.tools}["addPet"] == after
    assert chat.tools.get_registry().get("addPet").effect == after


async def test_an_operators_effects_do_not_accept_a_changed_operation(chat_of, serve):
    """What the operation sends has changed: its effect stays the stricter one until somebody accepts it."""
    service = await serve()
    await chat_of(local(service)).tools.sources.look("openapi")
    changed = json.loads(json.dumps(PETS))
    changed["/pets"]["post"]["requestBody"]["content"]["application/json"]["schema"] = {"properties": {"all": {}}}
    chat = chat_of(local(service, changed), effect={"POST /pets": "read"})
    await chat.respond("Hello.")

    state = chat.tools.sources.state("openapi")
    assert {tool.name: tool.effect for tool in state.tools}["addPet"] == "write"
    assert [change.name for change in state.changes] == ["addPet"]


@pytest.fixture
async def two_of(tmp_path, serve):
    """Two services with an operation of one name, one source for each, and a rule for each source."""
    services = {name: await serve(reply(json.dumps(f"by {name}"))) for name in ("one", "two")}
    for name, service in services.items():
        data = local(service, {"/act": {"post": {"operationId": "act"}}})
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    rules = [
        {"llm": "bot", "model": "m", "match": {"topic": "one"}, "tools": {"allowed_tools": ["one/*"]}},
        {"llm": "bot", "model": "m", "tools": {"allowed_tools": ["two/*"]}},
    ]
    path = tmp_path / "chat.json"
    sources = [{"name": name, "document": f"{name}.json"} for name in services]
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": rules,
        "tools": {"openapi": sources},
        "network": {"allow": ["127.0.0.1"]},
    }
    path.write_text(json.dumps(config))
    return path, services


def chat_with(path, *replies):
    return FlexChat.from_config(path, providers={"bot": ScriptedProvider([*replies], repeat=True)})


async def test_a_call_reaches_the_service_whose_tool_was_offered(two_of):
    """Another rule's turn opens the other source while the model thinks: a tool is its source and its name."""
    path, services = two_of
    asked = []

    async def model(messages, options):
        if any(message.role == "tool" for message in messages):
            return says("Done.")
        if options.tools:  # not for phase 1, which keeps the caller's topic as this is no answer to it
            asked.append(options)
            if len(asked) == 1:
                await chat.respond("Act.", topic="one")
        return calls(("act", {}))

    async with chat_with(path, model) as chat:
        turn = await chat.respond("Act.", topic="two")

    assert [record.result.result for record in turn.response.tool_calls] == ["by two"]
    assert [len(services[name].got) for name in ("one", "two")] == [1, 1]


async def test_what_is_accepted_of_one_source_leaves_the_other_its_tool(two_of):
    """Nor does it make an offered tool another one."""
    path, services = two_of

    async def model(messages, options):
        return says("Done.") if messages[-1].role == "tool" else calls(("act", {}))

    async with chat_with(path, model) as chat:
        await chat.respond("Act.", topic="two")
        await chat.tools.sources.accept("one")

        assert [tool.source for tool in chat.tools.offer_to(chat.config.responses[1]).list()] == ["two"]
        turn = await chat.respond("Act.", topic="two")

    assert [record.result.result for record in turn.response.tool_calls] == ["by two"]
    assert services["one"].got == []


async def test_a_clash_is_an_error_of_the_turn_that_opens_a_source_and_of_each_check_after_it(two_of):
    """Before that the check can only say that the source's tools are not known."""
    path, services = two_of
    rule = {"llm": "bot", "model": "m", "tools": {"allowed_tools": ["one/*", "two/*"]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"responses": [rule]}))
    async with chat_with(path, says("Hi.")) as chat:
        await chat.tools.sources.look("one")
        problems, notes = check_config(path)
        assert problems == []
        assert any("'two' was never opened" in note.text for note in notes)
        with pytest.raises(ToolClashError, match='prefix = "') as caught:
            await chat.respond("Act.")

    assert caught.value.sources == ("one", "two")
    problems, _ = check_config(path)
    assert [problem.text for problem in problems] == [str(caught.value)]
    assert [service.got for service in services.values()] == [[], []]


async def test_a_resumed_turn_waits_if_its_tool_now_comes_from_another_source(two_of, tmp_path):
    """Its process was killed after the call began; the rule's source is another one since."""
    path, services = two_of
    began, never = asyncio.Event(), asyncio.Event()

    async def hangs(service, request, writer):
        began.set()
        await never.wait()

    services["two"].answer = hangs
    store = SqliteConversations(tmp_path / "kept.db")

    async def model(messages, options):
        return says("Done.") if messages[-1].role == "tool" else calls(("act", {}))

    first = chat_with(path, model)
    first.keep_in(store)
    turn = asyncio.create_task(first.respond("Act.", topic="two", conversation="c"))
    await asyncio.wait_for(began.wait(), 5)
    await store.database.write(lambda database: database.execute("DELETE FROM owners"))

    changed = json.loads(path.read_text())
    changed["responses"][1]["tools"]["allowed_tools"] = ["one/*"]
    path.write_text(json.dumps(changed))
    async with chat_with(path, says("Done.")) as second:
        second.keep_in(store)
        (waiting,) = await second.turns(states=["interrupted"])
        with pytest.raises(StuckTurnError):
            await second.resume(waiting.id)

    assert services["one"].got == []
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    await first.aclose()
    await store.aclose()
