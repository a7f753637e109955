"""/mcp of flexchat serve: several processes on one store, tenants, tasks, states, and clients that misbehave."""

import asyncio
import json

import pytest
from flexchat import tool
from flexchat.plugin import EffectUnknownError, ToolError
from mcp_fixtures import ELICITATION, META, MODERN, TASKS, accept, message_of

TOKENS = {"acme-token-0123456789": "acme", "other-token-0123456789": "other"}
ACME, OTHER = TOKENS
BOTH = {**TASKS, **ELICITATION}
KEY = "flexchat.dev/idempotency-key"
EFFECT = "flexchat.dev/effect"


async def ended(web, task, *, while_in=("working", "input_required"), **how):
    """Poll a task until it has ended."""
    while True:
        state = await web.ask("tasks/get", {"taskId": task}, capabilities=BOTH, **how)
        if state["status"] not in while_in:
            return state
        await asyncio.sleep(0.01)


async def test_a_call_begins_in_one_process_and_ends_in_another(new_web, ran):
    first, second = new_web(), new_web()
    required = await first.call("pay", {"amount": 5})

    assert (required["resultType"], ran) == ("input_required", [])
    (name,) = required["inputRequests"]
    assert required["inputRequests"][name]["params"]["message"] == 'Run pay with {"amount": 5}?'
    answers = {"inputResponses": {name: accept()}, "requestState": required["requestState"]}
    result = await second.call("pay", {"amount": 5}, **answers)
    again = await first.call("pay", {"amount": 5}, **answers)

    assert result["content"][0]["text"] == again["content"][0]["text"] == "paid 5"
    assert ran == [("default", 5)]


async def test_a_state_with_another_reply_is_refused_once_it_was_used(new_web, ran):
    web = new_web()
    required = await web.call("pay", {"amount": 5})
    (name,) = required["inputRequests"]
    state = required["requestState"]
    await web.call("pay", {"amount": 5}, inputResponses={name: {"action": "decline"}}, requestState=state)

    answers = {"name": "pay", "arguments": {"amount": 5}, "requestState": state}
    refused = await web.raw("tools/call", {**answers, "inputResponses": {name: accept()}})

    assert "has a reply already" in refused["error"]["message"]
    assert ran == []


@pytest.mark.parametrize("change", ["forged", "of other arguments", "of another tool", "of another tenant", "expired"])
async def test_a_state_counts_for_its_call_and_its_tenant_only(new_web, ran, change, monkeypatch):
    web = new_web(TOKENS)
    required = await web.call("pay", {"amount": 5}, token=ACME)
    (name,) = required["inputRequests"]
    state, tool, arguments, token = required["requestState"], "pay", {"amount": 5}, ACME
    if change == "forged":
        state = state[:-8] + ("A" * 8 if not state.endswith("A" * 8) else "B" * 8)
    elif change == "of other arguments":
        arguments = {"amount": 5_000}
    elif change == "of another tool":
        tool = "note"
    elif change == "of another tenant":
        token = OTHER
    else:
        monkeypatch.setattr("mcp.server.request_state.time.time", lambda: 4e9)

    params = {"name": tool, "arguments": arguments, "requestState": state, "inputResponses": {name: accept()}}
    refused = await web.raw("tools/call", params, token=token)

    assert refused["error"]["code"] == -32602
    assert "requestState" in refused["error"]["message"]
    assert ran == []


async def test_a_question_of_a_stolen_id_is_not_answered_by_another_tenant(new_web, ran):
    web = new_web(TOKENS)
    required = await web.call("pay", {"amount": 5}, token=ACME)
    (name,) = required["inputRequests"]

    stolen = {"jsonrpc": "2.0", "id": name, "result": accept()}
    response = await web.post(stolen, authorization=f"Bearer {OTHER}")

    assert response.status_code == 202
    assert ran == []
    answers = {"inputResponses": {name: {"action": "decline"}}, "requestState": required["requestState"]}
    result = await web.call("pay", {"amount": 5}, token=ACME, **answers)
    assert "did not approve" in result["content"][0]["text"]


async def test_a_repeated_key_is_one_effect_in_every_process(new_web, ran):
    first, second = new_web(), new_web()
    meta = {KEY: "order 17"}

    results = [await web.call("note", {"text": "x"}, meta=meta) for web in (first, second, first)]

    assert [each["content"][0]["text"] for each in results] == ["noted x"] * 3
    assert ran == ["x"]
    other = await first.call("note", {"text": "y"}, meta=meta)
    assert other["isError"]
    assert "key" in other["content"][0]["text"]
    assert ran == ["x"]


@pytest.mark.parametrize("has_key", [False, True])
async def test_a_client_learns_that_an_effect_is_unknown(new_web, tools, has_key):
    @tool
    async def send(text: str) -> str:
        """Send a text."""
        if text == "a":
            raise ToolError("no paper")
        raise EffectUnknownError("the line is dead")

    tools.append(send)
    web = new_web(mcp_server={"tasks": {"send": "optional"}})

    def send_at(web, text):
        return web.call("send", {"text": text}, meta={KEY: text} if has_key else {})

    failed, unknown, again = await send_at(web, "a"), await send_at(web, "b"), await send_at(new_web(), "b")
    task = (await web.call("send", {"text": "b"}, capabilities=BOTH))["taskId"]

    assert [each["_meta"].get(EFFECT) for each in (failed, unknown, again)] == [None, "unknown", "unknown"]
    assert "the line is dead" in unknown["content"][0]["text"]
    assert (await ended(web, task))["error"]["data"] == {EFFECT: "unknown"}


async def test_keys_of_tenants_are_their_own(new_web, ran):
    web = new_web(TOKENS)

    for token in (ACME, OTHER, ACME):
        await web.call("note", {"text": "x"}, meta={KEY: "k"}, token=token)

    assert ran == ["x", "x"]


@pytest.mark.parametrize("key", ["", " ", "x" * 256, 7, None, "a\nb"])
async def test_a_key_that_is_none_is_refused(new_web, key, ran):
    web = new_web()

    answer = await web.raw("tools/call", {"name": "note", "arguments": {"text": "x"}}, meta={KEY: key})

    if key is None:
        assert ran == ["x"]
    else:
        assert (answer["error"]["code"], ran) == (-32602, [])


async def test_a_task_is_polled_in_another_process_and_has_its_result_after_a_restart(new_web):
    first, second = new_web(), new_web()
    created = await first.call("wait", {"seconds": 0.2}, capabilities=BOTH)

    assert (created["resultType"], created["status"]) == ("task", "working")
    task = created["taskId"]
    assert (await second.ask("tasks/get", {"taskId": task}, capabilities=BOTH))["status"] == "working"
    state = await ended(second, task)
    assert state["result"]["content"][0]["text"] == "waited"
    await first.app.aclose()
    third = new_web()
    assert (await third.ask("tasks/get", {"taskId": task}, capabilities=BOTH))["result"] == state["result"]


async def test_a_task_goes_on_in_another_process_when_its_own_ends(new_web):
    first = new_web()
    task = (await first.call("wait", {"seconds": 0.5}, capabilities=BOTH))["taskId"]
    await first.app.aclose()
    second = new_web()

    state = await ended(second, task)

    expected = ("completed", "complete", "waited")
    assert (state["status"], state["result"]["resultType"], state["result"]["content"][0]["text"]) == expected


async def test_a_task_is_cancelled_by_another_process(new_web):
    first, second = new_web(), new_web()
    task = (await first.call("wait", {"seconds": 60}, capabilities=BOTH))["taskId"]

    assert await second.ask("tasks/cancel", {"taskId": task}, capabilities=BOTH) == _complete()
    assert (await ended(first, task))["status"] == "cancelled"
    assert await second.ask("tasks/cancel", {"taskId": task}, capabilities=BOTH) == _complete()


async def test_a_task_asks_for_its_approval(new_web, ran):
    web = new_web(mcp_server={"tasks": {"pay": "required"}})
    task = (await web.call("pay", {"amount": 5}, capabilities=BOTH))["taskId"]
    state = await ended(web, task, while_in=("working",))
    (name,) = state["inputRequests"]

    update = {"taskId": task, "inputResponses": {name: accept(), "unknown": {"action": "accept"}}}
    assert await web.ask("tasks/update", update, capabilities=BOTH) == _complete()

    assert (await ended(web, task))["result"]["content"][0]["text"] == "paid 5"
    assert ran == [("default", 5)]


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_the_task_of_another_tenant_does_not_exist(new_web, method):
    web = new_web(TOKENS)
    task = (await web.call("wait", {"seconds": 60}, capabilities=BOTH, token=ACME))["taskId"]

    params = {"taskId": task, **({"inputResponses": {}} if method == "tasks/update" else {})}
    answer = await web.raw(method, params, capabilities=BOTH, token=OTHER)
    unknown = await web.raw(method, {**params, "taskId": "f" * 32}, capabilities=BOTH, token=ACME)
    beginning = await web.raw(method, {**params, "taskId": task[:8]}, capabilities=BOTH, token=ACME)

    assert [each["error"]["code"] for each in (answer, unknown, beginning)] == [-32602] * 3
    assert answer["error"]["message"].replace(task, "f" * 32) == unknown["error"]["message"]
    await web.ask("tasks/cancel", {"taskId": task}, capabilities=BOTH, token=ACME)


async def test_a_required_task_needs_a_client_that_supports_tasks(new_web):
    web = new_web(mcp_server={"tasks": {"wait": "required"}})

    answer = await web.raw("tools/call", {"name": "wait", "arguments": {"seconds": 0}})

    assert answer["error"]["code"] == -32021
    assert answer["error"]["data"] == {"requiredCapabilities": TASKS}


async def test_without_the_table_there_is_no_mcp(new_web, config):
    del config["mcp_server"]
    web = new_web()

    assert (await web.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code == 404


async def test_a_token_is_required_where_the_server_requires_one(new_web):
    web = new_web(TOKENS)

    response = await web.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    wrong = await web.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, authorization="Bearer nope")

    assert (response.status_code, wrong.status_code) == (401, 401)


HOSTILE = {
    "not JSON": b"{",
    "not UTF-8": b"\xff\xfe\x00",
    "nothing": b"",
    "a number": b"7",
    "a batch": b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
    "deep": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    "deep lists": b"[" * 100_000,
    "unknown method": json.dumps({"jsonrpc": "2.0", "id": 1, "method": "flexchat/evil"}).encode(),
    "method of a wrong type": json.dumps({"jsonrpc": "2.0", "id": 1, "method": {"a": 1}}).encode(),
    "params of a wrong type": json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 7}).encode(),
    "huge id": json.dumps({"jsonrpc": "2.0", "id": 10**400, "method": "ping"}).encode(),
    "lone surrogate": b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":NaN}}}',
    "reply to nothing": b'{"jsonrpc":"2.0","id":"nope","result":{"action":"accept"}}',
    "reply of a wrong type": b'{"jsonrpc":"2.0","id":"nope","result":[1]}',
}


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "1999-01-01", "", "\x7f"])
@pytest.mark.parametrize("body", [*HOSTILE])
async def test_garbage_is_refused_without_an_incident(new_web, body, version, caplog):
    web = new_web()

    response = await web.post(HOSTILE[body], **({"mcp_protocol_version": version} if version else {}))

    assert response.status_code < 500
    assert not [record for record in caplog.records if "incident" in record.getMessage()]
    if response.status_code not in (202, 200):
        assert "error" in response.json() or "detail" in response.json()
    assert (await web.call("add", {"a": 1}))["content"][0]["text"] == "3"


async def test_a_long_message_is_refused_before_it_is_read(new_web):
    web = new_web(mcp_server={"max_bytes": 10_000})
    sent = 0

    async def body():
        nonlocal sent
        for _ in range(100):
            sent += 1_000
            yield b" " * 1_000

    response = await web.client.post("/mcp", content=body(), headers={"content-type": "application/json"})

    assert response.status_code == 413


@pytest.mark.slow
async def test_one_tenant_that_floods_is_refused_and_the_others_are_served(new_web):
    web = new_web(TOKENS, mcp_server={"max_calls": 3})
    flood = [asyncio.create_task(web.raw("tools/call", _wait(1), token=ACME, id=number)) for number in range(20)]
    await asyncio.sleep(0.2)

    assert (await web.call("add", {"a": 1}, token=OTHER))["content"][0]["text"] == "3"
    answers = await asyncio.gather(*flood)
    refused = [each for each in answers if "error" in each]
    assert len(refused) == 17
    assert "max_calls" in refused[0]["error"]["message"]


async def test_the_older_era_has_no_streams_beside_its_requests(new_web):
    web = new_web()

    for method in ("GET", "DELETE"):
        assert (await web.client.request(method, "/mcp")).status_code == 405


async def test_a_session_of_the_older_era_is_signed_for_its_tenant(new_web):
    web = new_web(TOKENS)
    params = {"protocolVersion": "2025-11-25", "capabilities": ELICITATION, "clientInfo": {"name": "x", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    session = (await web.post(hello, authorization=f"Bearer {ACME}")).headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

    own = await web.post(ping, authorization=f"Bearer {ACME}", mcp_session_id=session)
    stolen = await web.post(ping, authorization=f"Bearer {OTHER}", mcp_session_id=session)
    forged = await web.post(ping, authorization=f"Bearer {ACME}", mcp_session_id=session[:-4] + "0000")
    restarted = await new_web(TOKENS).post(ping, authorization=f"Bearer {ACME}", mcp_session_id=session)

    assert [each.status_code for each in (own, stolen, forged, restarted)] == [200, 404, 404, 200]
    assert message_of(own) == {"jsonrpc": "2.0", "id": 2, "result": {}}


def _wait(seconds):
    return {"name": "wait", "arguments": {"seconds": seconds}}


def _complete():
    info = {f"{META}/serverInfo": {"name": "flexchat", "version": "0.1.0"}}
    return {"resultType": "complete", "_meta": info}


def _ask(version, id=1, **meta):
    facts = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": {}} if version == MODERN else {}
    params = {"name": "ask", "arguments": {"message": "Hello"}, "_meta": {**facts, **meta}}
    body = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    return body, {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": "ask"}


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "unkept"])
@pytest.mark.parametrize("version", [MODERN, "2025-11-25"])
async def test_a_question_beyond_a_limit_is_refused_with_the_time_to_wait(new_web, config, version, is_kept):
    if not is_kept:
        del config["conversations"]
    config["llms"]["bot"] = {"provider": "rehearsal"}
    web = new_web(rate_limits=[{"rate": "1/min"}])
    first, second = [await web.post(body, **headers) for body, headers in (_ask(version), _ask(version, id=2))]

    assert not message_of(first)["result"]["isError"]
    error = message_of(second)["error"]
    assert "limited to 1/min" in error["message"]
    assert 1_000 <= error["data"]["retryAfterMs"] <= 60_000
    if second.headers["content-type"] == "application/json":
        assert (second.status_code, int(second.headers["retry-after"]) * 1_000) == (429, error["data"]["retryAfterMs"])
    else:
        assert version != MODERN


@pytest.mark.slow
async def test_a_refused_question_may_be_repeated_with_its_key(new_web, config):
    config["llms"]["bot"] = {"provider": "rehearsal"}
    web = new_web(rate_limits=[{"rate": "1/s"}])

    async def ask(key):
        body, headers = _ask(MODERN, **{KEY: key})
        return await web.post(body, **headers)

    assert (await ask("first")).status_code == 200
    refused = await ask("second")
    assert refused.status_code == 429
    await asyncio.sleep(int(refused.headers["retry-after"]))

    assert not message_of(await ask("second"))["result"]["isError"]
