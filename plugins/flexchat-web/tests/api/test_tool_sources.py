"""Tool sources over HTTP: what is told of them, and the buttons of those who may edit."""

import asyncio
import contextlib
import json

import pytest
from flexchat.assembly import installed_plugins
from flexchat.plugin import SourceServer
from flexchat_testing import ScriptedSource, sourced

TOOLS = [
    {"name": "find", "description": "Find things.", "effect": "read"},
    {"name": "order", "description": "Order a thing.", "effect": "write"},
]


async def test_the_sources_of_tools_are_told_and_opened_by_nobody(told, tmp_path):
    """What waits to be accepted is there once a turn has opened a source."""
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps(TOOLS))
    told.tables["tools"] |= {
        "listed": [{"name": "shop", "file": str(listed), "prefix": "shop_"}],
        "lock": str(tmp_path / "a.lock"),
    }
    told.tables["responses"][0]["tools"] = {"enabled": True}
    client = await told.client()

    async def source():
        (found,) = (await client.get("/api/tools/sources")).json()["sources"]
        return found

    assert ((await source())["status"], (await source())["accepted"]) == ("not opened", False)
    await client.post("/chat/api", json={"prompt": "Hello."})
    assert ((await source())["status"], (await source())["tools"]) == ("open", ["shop_find", "shop_order"])
    of = {tool["name"]: tool["source"] for tool in (await client.get("/api/tools/list")).json()["tools"]}
    assert of == {"get_weather": None, "shop_find": "shop", "shop_order": "shop"}

    listed.write_text(json.dumps([{**TOOLS[0], "effect": "write"}, {"name": "drop", "description": "Drop it."}]))
    client = await told.client()
    await client.post("/chat/api", json={"prompt": "Hello."})
    changes = (await source())["changes"]
    assert [(change["tool"], change["kind"], change["offered"]) for change in changes] == [
        ("drop", "new", False),
        ("find", "changed", True),
        ("order", "gone", False),
    ]
    assert changes[1]["differences"] == [{"place": "effect", "before": "read", "now": "write"}]


class Desk(ScriptedSource):
    """A source with a server."""

    def __init__(self):
        super().__init__([sourced("find"), sourced("order", "Order <b>a thing</b>.", effect="write")])
        self.restarts, self.tenants = 0, []
        self.lines = ["asked for Ada's letter", "token=abcdefghijkl"]

    def server_state(self, tenant):
        self.tenants.append(tenant)
        return SourceServer(
            status="running",
            version="v1",
            since="2026-11-26T14:00:00+00:00",
            trouble="it ended: Ada's letter is too long",
            ends=2,
            last_lines=self.lines,
        )

    async def restart(self, tenant):
        self.restarts += 1
        self.tenants.append(tenant)

    def warnings(self, tools, others):
        return {"order": ["it is odd"]}


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
async def client_of_desk(desk, tmp_path, client_of):
    """Clients of one app with the source desk: await client_of_desk(edit=False, token=…)."""
    from flexchat_web.app import create_app
    from flexchat_web.serving import Settings

    host = installed_plugins()
    assert host.register(desk, "desk").status == "active"
    tables = {
        "llms": {"robot": {"provider": "rehearsal"}},
        "responses": [{"llm": "robot", "model": "r1", "tools": {"allowed_tools": ["desk/*"]}}],
        "tools": {"scripted": [{"name": "desk"}], "lock": str(tmp_path / "a.lock")},
    }
    apps = []
    async with contextlib.AsyncExitStack() as stack:

        async def make(token=None, **settings):
            if not apps or settings:
                apps.append(create_app(tables, plugins=host, settings=Settings(**settings)))
            headers = {"authorization": f"Bearer {token}"} if token else None
            return await stack.enter_async_context(client_of(apps[-1], headers=headers))

        yield make
        for app in apps:
            await app.aclose()


async def the_source(client):
    (found,) = (await client.get("/api/tools/sources")).json()["sources"]
    return found


def seen(source):
    return {change["tool"]: change["digest"] for change in source["changes"]}


async def test_a_source_is_looked_at_then_accepted(client_of_desk, desk):
    """Looking accepts nothing; what was shown is accepted by its digest, twice if somebody presses twice."""
    client = await client_of_desk()
    assert (await the_source(client))["server"] is None

    looked = await client.post("/api/tools/sources/desk/look")

    source = looked.json()["source"]
    assert (looked.status_code, source["status"], source["accepted"], source["tools"]) == (200, "open", False, [])
    assert source["changes"][1] == {
        "tool": "order",
        "kind": "new",
        "offered": False,
        "description": "Order <b>a thing</b>.",
        "effect": "write",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        "digest": sourced("order", "Order <b>a thing</b>.", effect="write").digest,
        "differences": [],
        "warnings": ["it is odd"],
    }
    first = {"tools": {"find": seen(source)["find"]}}
    one = (await client.post("/api/tools/sources/desk/accept", json=first)).json()
    again = (await client.post("/api/tools/sources/desk/accept", json=first)).json()
    assert (one["accepted"], one["source"]["tools"], again["accepted"]) == (["find"], ["find"], [])
    every = (await client.post("/api/tools/sources/desk/accept", json={"tools": seen(source)})).json()
    assert (every["accepted"], every["source"]["tools"], every["source"]["changes"]) == (
        ["order"],
        ["find", "order"],
        [],
    )


async def test_what_is_another_tool_by_now_is_refused_with_what_it_is(client_of_desk, desk):
    """New, changed and gone ones; 409, and the answer shows them."""
    client = await client_of_desk()
    before = (await client.post("/api/tools/sources/desk/look")).json()["source"]
    desk.tools_now = [sourced("find", "Find, and tell."), *desk.tools_now[1:]]

    refused = await client.post("/api/tools/sources/desk/accept", json={"tools": seen(before)})

    problem = refused.json()
    assert (refused.status_code, problem["type"]) == (409, "urn:flexchat:problem:tool-changed")
    assert problem["detail"] == "source 'desk': 'find' is not what you have seen, so nothing was accepted; look again"
    assert problem["source"]["changes"][0]["description"] == "Find, and tell."
    assert (await the_source(client))["accepted"] is False
    done = await client.post("/api/tools/sources/desk/accept", json={"tools": seen(problem["source"])})
    assert done.json()["accepted"] == ["find", "order"]

    desk.tools_now = []
    gone = (await client.post("/api/tools/sources/desk/look")).json()["source"]
    assert seen(gone) == {"find": None, "order": None}
    desk.tools_now = [sourced("order", "It is back.")]
    answer = await client.post("/api/tools/sources/desk/accept", json={"tools": seen(gone)})
    assert (answer.status_code, seen(answer.json()["source"])["find"]) == (409, None)
    answer = await client.post("/api/tools/sources/desk/accept", json={"tools": {"find": None}})
    assert (answer.status_code, answer.json()["accepted"]) == (200, ["find"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"tools": {"find": sourced("order", "Order <b>a thing</b>.", effect="write").digest}}, 409),
        ({"tools": {"nothing": "0" * 64}}, 409),
        ({"tools": {"find": "0" * 63}}, 400),
        ({"tools": {"find": "G" * 64}}, 400),
        ({"tools": {"find": 7}}, 400),
        ({"tools": {}}, 400),
        ({"tools": ["find"]}, 400),
        ({}, 400),
        ({"tools": {"find": None}, "all": True}, 400),
        (None, 415),
    ],
)
async def test_a_request_that_accepts_what_is_not_there_accepts_nothing(client_of_desk, desk, tmp_path, body, status):
    client = await client_of_desk()
    answer = await client.post("/api/tools/sources/desk/accept", **({"json": body} if body is not None else {}))

    assert answer.status_code == status
    assert not (tmp_path / "a.lock").exists()


@pytest.mark.slow
async def test_huge_bodies_are_refused(client_of_desk, tmp_path):
    """By their bytes, and by their values."""
    client = await client_of_desk()
    for size, status in ((20_000, 413), (7_000, 409)):
        tools = {f"tool_{number}": "0" * 64 for number in range(size)}
        answer = await client.post("/api/tools/sources/desk/accept", json={"tools": tools})
        assert answer.status_code == status
        assert len(answer.json()["detail"]) < 300
    assert not (tmp_path / "a.lock").exists()


async def test_a_server_is_restarted_and_its_tools_compared(client_of_desk, desk):
    client = await client_of_desk()
    await client.post("/chat/api", json={"prompt": "Hello."})
    desk.tools_now = [sourced("find")]

    answers = await asyncio.gather(*(client.post("/api/tools/sources/desk/restart") for _ in range(3)))

    assert [answer.status_code for answer in answers] == [200] * 3
    source = answers[0].json()["source"]
    assert [change["tool"] for change in source["changes"]] == ["order"]
    assert source["server"] == {
        "status": "running",
        "version": "v1",
        "since": "2026-11-26T14:00:00+00:00",
        "trouble": "it ended: Ada's letter is too long",
        "ends": 2,
        "last_lines": ["asked for Ada's letter", "token=***"],
    }
    assert desk.restarts == 1


@pytest.mark.parametrize("verb", ["look", "restart"])
async def test_what_fails_is_told_in_words_with_the_state(client_of_desk, desk, verb):
    client = await client_of_desk()
    desk.fault = RuntimeError("password=hunter2-secret")

    answer = await client.post(f"/api/tools/sources/desk/{verb}")

    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (502, "urn:flexchat:problem:tool-source")
    assert problem["detail"].startswith("tool source 'desk'")
    assert problem["source"]["status"] == "failed"
    assert "hunter2" not in answer.text
    desk.fault = None
    assert (await client.post(f"/api/tools/sources/desk/{verb}")).json()["source"]["status"] == "open"


async def test_a_source_that_raises_where_its_state_is_asked_hides_no_other(client_of_desk, desk):
    client = await client_of_desk()
    await client.post("/api/tools/sources/desk/look")
    desk.lines = 7

    source = await the_source(client)

    assert (source["server"]["status"], source["status"]) == ("broken", "open")
    assert source["server"]["trouble"].startswith("its state cannot be read: TypeError")


@pytest.mark.parametrize("verb", ["look", "restart", "accept"])
@pytest.mark.parametrize("name", ["shop", "..%2f..", "%00", "a" * 900, "__proto__"])
async def test_an_unknown_source_is_told(client_of_desk, verb, name):
    client = await client_of_desk()
    body = {"json": {"tools": {"find": None}}} if verb == "accept" else {}

    answer = await client.post(f"/api/tools/sources/{name}/{verb}", **body)

    assert answer.status_code == 404


@pytest.mark.parametrize("verb", ["look", "restart", "accept"])
async def test_who_may_not_edit_presses_no_button(client_of_desk, desk, verb):
    """And reads neither what the server wrote nor why it ended: that may be what somebody asked it for."""
    reader = await client_of_desk(edit=False)
    await reader.post("/chat/api", json={"prompt": "Hello."})
    body = {"json": {"tools": {"find": None}}} if verb == "accept" else {}

    refused = await reader.post(f"/api/tools/sources/desk/{verb}", **body)

    assert (refused.status_code, refused.json()["type"]) == (403, "urn:flexchat:problem:edit")
    server = (await the_source(reader))["server"]
    assert (server["status"], server["ends"], server["trouble"], server["last_lines"]) == ("running", 2, "", [])
    assert desk.restarts == 0


@pytest.mark.parametrize("verb", ["look", "restart", "accept"])
async def test_pages_of_other_sites_press_no_button(client_of_desk, desk, tmp_path, verb):
    client = await client_of_desk()
    body = {"json": {"tools": {"find": None}}} if verb == "accept" else {}
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"host": "evil.example"}):
        answer = await client.post(f"/api/tools/sources/desk/{verb}", headers=headers, **body)
        assert answer.status_code in (403, 421)
    assert (desk.opened, desk.restarts) == (0, 0)
    assert not (tmp_path / "a.lock").exists()


async def test_each_tenant_asks_for_its_own_server(client_of_desk, desk):
    """A source that runs one for each learns who asks; without a token nobody does."""
    red, blue = "red-token-0123456789", "blue-token-0123456789"
    client = await client_of_desk(red, tokens={red: "red", blue: "blue"}, edit=True)
    await client.post("/api/tools/sources/desk/restart")
    other = await client_of_desk(blue)
    await the_source(other)

    assert desk.tenants == ["red", "red", "blue"]
    stranger = await client_of_desk()
    assert (await stranger.post("/api/tools/sources/desk/restart")).status_code == 401
    assert (await stranger.get("/api/tools/sources")).status_code == 401
