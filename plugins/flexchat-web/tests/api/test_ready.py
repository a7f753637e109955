"""The probes: whether the process runs, and whether its stores answer."""

import sqlite3

import pytest
from flexchat_sqlite.conversations import SqliteConversations

TOKEN = "a-token-0123456789"


@pytest.mark.parametrize(
    ("settings", "headers"), [({}, {}), ({"tokens": {TOKEN: "default"}}, {"authorization": f"Bearer {TOKEN}"})]
)
async def test_health_shows_version_and_kinds_of_services_to_those_who_may_use_the_server(told, settings, headers):
    client = await told.client(**settings)
    assert (await client.get("/health", headers=headers)).json() == {
        "status": "ok",
        "version": "0.1.0",
        "config_loaded": True,
        "ai_providers": ["told"],
        "rag_providers": [],
    }


@pytest.mark.parametrize("path", ["/health", "/ready"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_probes_are_answered_by_address_and_show_strangers_nothing(told, path, method):
    """A load balancer has no token and knows the server by its address; so does a page with DNS rebinding."""
    for allowed, headers in (
        ({"tokens": {TOKEN: "default"}}, {}),
        ({"tokens": {TOKEN: "default"}}, {"host": "10.1.2.3:8000"}),
        ({"tokens": {TOKEN: "default"}}, {"authorization": "Bearer wrong"}),
        ({}, {"host": "10.1.2.3:8000"}),
        ({}, {"host": "evil.example", "authorization": f"Bearer {TOKEN}"}),
    ):
        answer = await (await told.client(**allowed)).request(method, path, headers=headers)
        assert answer.status_code == 200
        if method == "GET":
            assert answer.json() == {"status": "ok" if path == "/health" else "ready"}
    client = await told.client()
    assert (await client.post(path, headers={"host": "10.1.2.3:8000"})).status_code == 421
    assert (await client.get("/api/config", headers={"host": "10.1.2.3:8000"})).status_code == 421
    assert (await client.get(path, headers={"origin": "https://evil.example"})).status_code == 403


async def test_ready_asks_the_stores(told, tmp_path, monkeypatch):
    """A process whose database is gone runs, and is not ready."""
    monkeypatch.setattr("flexchat_web.api.server.FRESH_S", 0)
    client = await told.client()
    good = await client.get("/ready")
    (tmp_path / "conversations.db").unlink()
    bad = await client.get("/ready")
    stranger = await client.get("/ready", headers={"host": "10.1.2.3"})

    assert (good.status_code, good.json()["stores"]["conversations"]) == (200, "ok")
    assert (bad.status_code, bad.json()["status"]) == (503, "not ready")
    assert "was deleted or moved while in use" in bad.json()["stores"]["conversations"]
    assert (stranger.status_code, stranger.json()) == (503, {"status": "not ready"})
    assert (await client.get("/health")).status_code == 200


async def test_ready_fails_on_a_schema_that_is_unusable(told, tmp_path, monkeypatch):
    monkeypatch.setattr("flexchat_web.api.server.FRESH_S", 0)
    client = await told.client()
    assert (await client.get("/ready")).status_code == 200
    newer = sqlite3.connect(tmp_path / "conversations.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()

    bad = await client.get("/ready")

    assert bad.status_code == 503
    assert "newer FlexChat" in bad.json()["stores"]["schema of conversations"]


async def test_without_migrating_a_server_is_not_ready_until_the_schema_is_there(told, tmp_path, monkeypatch):
    monkeypatch.setattr("flexchat_web.api.server.FRESH_S", 0)
    client = await told.client(migrate=False)
    bad = await client.get("/ready")
    await SqliteConversations(tmp_path / "conversations.db").database.migrate()
    good = await client.get("/ready")

    assert bad.status_code == 503
    assert "run flexchat migrate" in bad.json()["stores"]["schema of conversations"]
    assert good.status_code == 200
