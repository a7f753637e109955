"""Connections over HTTP: which kinds there are, and whether one works."""

import http.server
import json
import sys
import threading

import pytest


@pytest.fixture
def service():
    """A server that lists two models and remembers what it was sent."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        disable_nagle_algorithm = True

        def do_GET(self):
            seen.append({name.lower(): value for name, value in self.headers.items()})
            body = json.dumps({"object": "list", "data": [{"id": "m1"}, {"id": "m2"}]}).encode()
            self.send_response(200 if "wrong" not in self.headers.get("Authorization", "") else 401)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    server.seen = seen
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def inline(service, **settings):
    return {"type": "llm", "provider": "openai", "config": {"base_url": service.url, **settings}}


async def test_the_installed_kinds_are_listed(client):
    told = (await client.get("/api/connections/providers")).json()
    assert "openai" in [each["name"] for each in told["llm"]]
    assert all(each["package"] for each in [*told["llm"], *told["rag"]])


async def test_a_kinds_schema_marks_its_secrets(client):
    told = (await client.get("/api/connections/providers/openai/schema?type=llm")).json()
    assert told["properties"]["api_key"]["writeOnly"] is True
    assert "writeOnly" not in told["properties"]["base_url"]
    assert "provider" in told["required"]
    for name, kind in (("openai", "rag"), ("nothing", "llm")):
        assert (await client.get(f"/api/connections/providers/{name}/schema?type={kind}")).status_code == 404


async def test_a_service_that_answers_is_a_success(client, service):
    told = (await client.post("/api/connections/test", json=inline(service, api_key="a-good-key-123"))).json()
    assert (told["success"], told["models"]) == (True, 2)


async def test_one_that_does_not_is_400_with_the_reason_and_without_the_key(client, service):
    """As the original: 400, success false."""
    answer = await client.post("/api/connections/test", json=inline(service, api_key="wrong-key-123456"))
    assert (answer.status_code, answer.json()["success"]) == (400, False)
    assert answer.json()["error"] == answer.json()["message"]
    assert "wrong-key-123456" not in answer.text
    closed = {"type": "llm", "provider": "openai", "config": {"base_url": "http://127.0.0.1:9/v1", "api_key": "k" * 12}}
    assert (await client.post("/api/connections/test", json=closed)).status_code == 400


async def test_a_service_that_is_silent_is_given_up(client, service, monkeypatch):
    monkeypatch.setattr("flexchat_web.config.connections.TEST_SECONDS", 0.05)
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        service.url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        answer = await client.post("/api/connections/test", json=inline(service, api_key="a-good-key-123"))
    assert answer.status_code == 400
    assert "no answer within" in answer.json()["message"]


async def test_the_environment_is_never_sent_to_a_posted_address(client, service, monkeypatch):
    """The original sent any variable to any address."""
    monkeypatch.setenv("STOLEN_KEY", "stolen-value-1234")
    for settings in ({"api_key": "${STOLEN_KEY}"}, {"extra_headers": {"X-A": "${STOLEN_KEY:-x}"}}):
        answer = await client.post("/api/connections/test", json=inline(service, **settings))
        assert answer.status_code == 422
        assert "stolen-value" not in answer.text
    assert service.seen == []


async def test_an_allowed_variable_is(new_client, service, monkeypatch):
    monkeypatch.setenv("OPEN_KEY", "open-value-1234")
    client = await new_client(allow_env=frozenset({"OPEN_KEY"}))
    answer = await client.post("/api/connections/test", json=inline(service, api_key="${OPEN_KEY}"))
    assert answer.status_code == 200
    assert service.seen[0]["authorization"] == "Bearer open-value-1234"


async def test_a_mask_is_no_key(client, service):
    answer = await client.post("/api/connections/test", json=inline(service, api_key="********"))
    assert answer.status_code == 422
    assert "write it again" in answer.json()["message"] if "message" in answer.json() else answer.json()["detail"]
    assert service.seen == []


async def test_a_configured_service_is_tested_by_its_name_also_without_the_right_to_edit(new_client):
    client = await new_client(edit=False)
    assert (await client.post("/api/connections/test", json={"name": "robot"})).json()["success"] is True
    assert (await client.post("/api/connections/test", json={"name": "nobody"})).status_code == 404
    posted = {"type": "llm", "provider": "scripted", "config": {}}
    assert (await client.post("/api/connections/test", json=posted)).status_code == 403


async def test_settings_that_do_not_fit_are_told(client):
    for provider, config in (("openai", {"nonsense": 1}), ("openai", {"base_url": 7}), ("nothing", {})):
        posted = {"type": "llm", "provider": provider, "config": config}
        assert (await client.post("/api/connections/test", json=posted)).status_code in (422, 404)


async def test_a_class_that_a_request_names_is_not_imported(client):
    posted = {"type": "llm", "provider": "langchain", "config": {"class_path": "antigravity:Fly"}}
    answer = await client.post("/api/connections/test", json=posted)
    assert (answer.status_code, "by hand" in answer.text) == (422, True)
    assert "antigravity" not in sys.modules


async def test_a_document_store_is_tested_but_opens_no_file_that_a_request_names(client, tmp_path):
    posted = {"type": "rag", "provider": "memory", "config": {}}
    assert (await client.post("/api/connections/test", json=posted)).json()["success"] is True
    for config in ({"paths": ["/etc/passwd"]}, {"path": str(tmp_path / "x.db")}):
        posted = {"type": "rag", "provider": "memory" if "paths" in config else "sqlite", "config": config}
        assert (await client.post("/api/connections/test", json=posted)).status_code == 422
    assert not (tmp_path / "x.db").exists()


async def test_models_are_listed_under_both_names(client, service):
    config = {"base_url": service.url, "api_key": "a-good-key-123"}
    first = (await client.post("/api/connections/providers/openai/models", json={"config": config})).json()
    second = await client.post("/api/connections/llm/discovery/models", json={"provider": "openai", "config": config})
    assert first == second.json()
    assert (first["provider"], first["count"], [m["id"] for m in first["models"]]) == ("openai", 2, ["m1", "m2"])


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("postgresql://u@127.0.0.1:9/db", "PGPASSWORD of the environment would be sent there"),
        ("host=127.0.0.1 port=9 user=u", "PGPASSWORD of the environment would be sent there"),
        ("postgresql://u@127.0.0.1:9/db?passfile=/home/me/.pgpass", "file paths cannot be added"),
    ],
)
async def test_a_posted_database_is_not_sent_the_environments_password(client, monkeypatch, dsn, said):
    """PostgreSQL's client library takes PGPASSWORD by itself, whatever address it is given."""
    monkeypatch.setenv("PGPASSWORD", "env-secret-value")
    answer = await client.post(
        "/api/connections/test", json={"type": "rag", "provider": "pgvector", "config": {"dsn": dsn}}
    )
    assert answer.status_code == 422
    assert said in answer.text
    kept = {"conversations": {"provider": "postgresql", "dsn": dsn}}
    assert (await client.post("/api/config/reload", json=kept)).status_code == 400


async def test_what_the_file_says_of_its_database_may_stay(new_client, config_file, monkeypatch):
    """Only a new address is refused."""
    monkeypatch.setenv("PGPASSWORD", "env-secret-value")
    config_file.write_text(config_file.read_text() + '\n[stores.d]\nprovider = "pgvector"\ndsn = "host=db"\n')
    client = await new_client()
    text = (await client.get("/api/config")).json()["text"]
    assert (await client.post("/api/config/validate", json={"text": text})).json()["valid"] is True
    moved = await client.post("/api/config/validate", json={"text": text.replace("********", "host=evil")})
    assert "PGPASSWORD" in moved.json()["errors"][0]["text"]
