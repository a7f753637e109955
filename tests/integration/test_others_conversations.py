"""Without the permission view_others, a principal sees, continues and changes what is its own."""

import httpx
import pytest
from flexchat import FlexChat, Principal, UnknownConversationError
from flexchat.host import current_principal
from flexchat_web import create_app
from flexchat_web.serving import Settings

ROLES = {"user": {"tools": ["*"]}, "lead": {"tools": ["*"], "permissions": ["view_others", "approve"]}}
PEOPLE = {"ann": "user", "bob": "user", "eve": "lead"}


def make_config(tmp_path):
    replies = [{"tool_calls": [{"name": "note", "arguments": {}}]}, {"text": "Done"}]
    note = {
        "name": "note",
        "description": "Note.",
        "parameters": {"type": "object", "properties": {}},
        "effect": "write",
        "implementation": {"type": "python", "function": "entrance_tools:pay"},
    }
    return {
        "llms": {"s": {"provider": "scripted", "repeat": True, "replies": replies}},
        "responses": [{"llm": "s", "model": "m", "tools": {}}],
        "tools": {"registry": [note]},
        "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
        "questions": {"expires": "1h"},
        "roles": ROLES,
    }


@pytest.fixture
async def clients(tmp_path):
    """Return a client for each person, of one server and one tenant."""
    lines = [f"default token-of-{name}-0123456789 {role} user={name}" for name, role in PEOPLE.items()]
    (tmp_path / "tokens").write_text("\n".join(lines))
    (tmp_path / "tokens").chmod(0o600)
    app = create_app(make_config(tmp_path), settings=Settings(token_file=tmp_path / "tokens", resume=False))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    made = {
        name: httpx.AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1:8000",
            headers={"authorization": f"Bearer token-of-{name}-0123456789"},
            timeout=60,
        )
        for name in PEOPLE
    }
    yield made
    for client in made.values():
        await client.aclose()
    await app.aclose()


async def begin(client):
    """Begin a kept conversation; return it, its turn and its effect."""
    conversation = "the-one-of-ann"
    response = await client.post("/chat/api", json={"prompt": "Go", "conversation": conversation})
    assert response.status_code == 200, response.text
    rows = (await client.get("/api/turns", params={"conversation": conversation})).json()["turns"]
    effects = (await client.get("/api/effects", params={"conversation": conversation})).json()["effects"]
    return conversation, rows[0]["id"], effects[0]["key"]


@pytest.mark.parametrize(("name", "sees"), [("ann", True), ("bob", False), ("eve", True)])
async def test_what_belongs_to_another_principal_is_unknown(clients, name, sees):
    """Each operation about a conversation, its turns and its effects; a listing agrees with what can be opened."""
    conversation, turn, effect = await begin(clients["ann"])
    client = clients[name]
    listed = {
        "conversations": {each["id"] for each in (await client.get("/api/conversations")).json()["conversations"]},
        "found": {each["id"] for each in (await client.get("/api/conversations?search=go")).json()["conversations"]},
        "turns": {each["conversation"] for each in (await client.get("/api/turns")).json()["turns"]},
        "effects": {each["conversation"] for each in (await client.get("/api/effects")).json()["effects"]},
    }
    opened = [
        (await client.get(path)).status_code
        for path in (
            f"/api/conversations/{conversation}",
            f"/api/conversations/{conversation}/export?format=json",
            f"/api/conversations/{conversation}/export",
            f"/api/turns/{turn}",
            f"/api/effects/{effect}",
        )
    ]
    joined = (await client.get(f"/api/turns/{turn}/events")).status_code
    await client.post(f"/api/turns/{turn}/cancel")
    went_on = await client.post("/chat/api", json={"prompt": "Go", "conversation": conversation})
    renamed = (await client.patch(f"/api/conversations/{conversation}", json={"title": "x"})).status_code
    deleted = (await client.delete(f"/api/conversations/{conversation}")).status_code

    assert listed == dict.fromkeys(listed, {conversation} if sees else set())
    assert opened == [200 if sees else 404] * 5
    assert (joined == 404) == (not sees)
    assert went_on.status_code == (200 if sees else 404), went_on.text
    assert (renamed, deleted) == ((200, 204) if sees else (404, 404))


async def test_pages_are_filled_with_what_may_be_seen(tmp_path):
    """However many of others lie between."""
    async with FlexChat.from_config(make_config(tmp_path)) as chat:
        for number in range(12):
            name = "ann" if number % 3 == 0 else "bob"
            await chat.respond("Go", conversation=f"{name}-{number}", principal=Principal(name, "user"))
        current_principal.set(Principal("ann", "user"))
        first = await chat.conversations.list(limit=2)
        second = await chat.conversations.list(limit=5, before=first[-1].id)
        current_principal.set(None)
        hidden = await chat.conversations.list()

    assert [each.id for each in (*first, *second)] == ["ann-9", "ann-6", "ann-3", "ann-0"]
    assert list(hidden) == []


async def test_turns_without_a_principal_are_seen_by_who_may_see_others(tmp_path):
    """Those of a time before there were roles."""
    config = make_config(tmp_path)
    async with FlexChat.from_config(_without(config)) as chat:
        await chat.respond("Go", conversation="old")
        assert [each.id for each in await chat.conversations.list()] == ["old"]
    async with FlexChat.from_config(config) as chat:
        current_principal.set(Principal("ann", "user"))
        assert list(await chat.conversations.list()) == []
        with pytest.raises(UnknownConversationError):
            await chat.respond("Go", conversation="old")
        with pytest.raises(UnknownConversationError):
            await chat.preview("Go", conversation="old")
        current_principal.set(Principal("eve", "lead"))
        assert "Go" in str((await chat.preview("Again", conversation="old")).messages)
        assert [each.id for each in await chat.conversations.list()] == ["old"]
        current_principal.set(None)


def _without(config):
    return {name: table for name, table in config.items() if name != "roles"}
