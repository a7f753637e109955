"""flexchat serve, killed in the middle of its work and started again: nothing it has acknowledged is lost."""

import http.client
import json

import httpx
import pytest
from web_server import WebServer

pytestmark = pytest.mark.slow

CONFIG = """
[llms.slow]
provider = "openai"
base_url = "{url}"
api_key = "not-a-real-key"

[conversations]
path = "conversations.db"

[[responses]]
llm = "slow"
model = "m-1"

[validation]
concurrency = 1
store = "results.db"
"""
CASE = '\n[[validation.cases]]\nname = "{name}"\nmessage = "Say hello"\nno_call = true\n'
CASES = 30


@pytest.fixture
def start(tmp_path, chat_server):
    """Start a server over the same folder, as often as a test likes."""
    chat_server.replies = [{"content": "Hello."}]
    config = CONFIG.format(url=chat_server.url) + "".join(CASE.format(name=f"case {n}") for n in range(CASES))
    started = []

    def begin():
        started.append(WebServer(tmp_path, config))
        return started[-1]

    yield begin
    for server in started:
        server.close()


def events(answer):
    """Give the events of a stream as they come: name and data."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event:"):
            name = line.removeprefix("event:").strip()
        elif line.startswith("data:"):
            yield name, line.removeprefix("data:").strip()


def test_a_server_killed_in_a_turn_keeps_every_turn_it_has_acknowledged(start, chat_server):
    """The conversation is as it was after its last whole turn, and goes on."""
    server = start()
    with httpx.Client(base_url=server.url, timeout=20) as client:
        first = client.post("chat/api", json={"prompt": "One", "conversation": "c"})
        assert first.is_success, first.text
    chat_server.asked.acquire()
    chat_server.open.clear()
    asking = http.client.HTTPConnection(httpx.URL(server.url).host, httpx.URL(server.url).port)
    body = json.dumps({"prompt": "Two", "conversation": "c", "stream": True})
    asking.request("POST", "/chat/api", body, {"content-type": "application/json"})
    assert chat_server.asked.acquire(timeout=20)
    server.kill()
    asking.close()
    chat_server.open.set()

    server = start()
    with httpx.Client(base_url=server.url, timeout=20) as client:
        kept = client.get("api/conversations/c").json()
        assert client.post("chat/api", json={"prompt": "Three", "conversation": "c"}).is_success
        after = client.get("api/conversations/c").json()
    assert [turn["messages"][0]["content"] for turn in kept["turns"]] == ["One"]
    assert [turn["messages"][0]["content"] for turn in after["turns"]] == ["One", "Three"]


def test_a_run_of_a_server_that_is_killed_is_resumed_by_the_next(start):
    """What it told of is kept, and made once."""
    server = start()
    told = []
    with httpx.Client(base_url=server.url, timeout=20) as client:
        run = client.post("api/validation/runs", json={}).json()["id"]
        with client.stream("GET", f"api/validation/runs/{run}/events") as answer:
            for name, data in events(answer):
                if name == "attempt":
                    told.append(json.loads(data)["id"])
                if len(told) == 3:
                    server.kill()
                    break

    server = start()
    with httpx.Client(base_url=server.url, timeout=20) as client:
        assert client.get(f"api/validation/runs/{run}").json()["state"] == "interrupted"
        assert client.post(f"api/validation/runs/{run}/resume").is_success
        with client.stream("GET", f"api/validation/runs/{run}/events") as answer:
            for _ in events(answer):
                pass
        attempts = client.get("api/validation/attempts", params={"limit": 500}).json()["attempts"]
    assert sorted(a["case"] for a in attempts) == sorted(f"case {n}" for n in range(CASES))
    assert set(told) <= {a["id"] for a in attempts}
