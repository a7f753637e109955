"""Testing a model with one question."""

import pytest
from flexchat.assembly import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_sdk import ModelNotFoundError, ProviderConnectionError, ProviderRequestError, ProviderTimeoutError
from flexchat_testing import ScriptedSource, calls, sourced
from web_fixtures import Told, ToldPlugin

WEATHER = ("get_weather", {"city": "Rome"})
ASKED = {"query": "Weather in Rome?", "model": "robot/r1"}


async def outcome(client, status=200, **body):
    answer = await client.post("/api/tools/test", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("body", [{}, {"query": "x"}, {"model": "x"}, {"query": "", "model": "x"}, {"query": 1}])
async def test_without_query_or_model_the_answer_is_the_specified_one(told, body):
    """400 "Missing query or model" (TC-92)."""
    assert (await outcome(await told.client(), 400, **body))["error"] == "Missing query or model"


async def test_a_test_runs_the_generator_with_all_tools_and_500_tokens(told):
    """POST tools/test (TC-92): content, service, model, and each call with its iteration (TC-89)."""
    model = told.says(calls(WEATHER), "It is warm.")
    found = await outcome(await told.client(), **ASKED)
    assert (found["content"], found["service"], found["model"]) == ("It is warm.", "robot", "r1")
    assert found["tool_calls"][0]["tool"] == "get_weather"
    assert (found["iterations"], found["max_iterations_reached"], found["succeeded"]) == (1, False, True)
    options = model.requests[0].options
    assert options.max_tokens == 500
    assert len(options.tools) == 1
    assert model.requests[0].messages[0].content.startswith("You are a helpful assistant with access to tools")


@pytest.mark.parametrize("named", ["robot/llama3.2:3b", "robot:llama3.2:3b", "llama3.2:3b"])
async def test_the_model_is_split_only_behind_a_configured_service(told, named):
    """The tag of llama3.2:3b is no service (C14)."""
    model = told.says(calls(WEATHER), "x")
    found = await outcome(await told.client(), query="x", model=named)
    assert model.requests[0].model == "llama3.2:3b"
    assert found["validation"]["model_id"] == "robot/llama3.2:3b"


async def test_the_service_may_be_named_apart(told):
    """{llm, model, query} of the Node original; the model's name is not split then (C14)."""
    model = told.says("x")
    client = await told.client()
    await outcome(client, query="x", llm="robot", model="robot:r9")
    assert model.requests[0].model == "robot:r9"
    wrong = await outcome(client, 404, query="x", llm="robt", model="r9")
    assert wrong["type"] == "urn:flexchat:problem:unknown-llm"


async def test_a_model_of_no_service_is_refused_with_a_hint(told):
    """Where there are several services."""
    told.tables["llms"]["second"] = {"provider": "told"}
    answer = await outcome(await told.client(), 404, query="x", model="robt/r1")
    assert "did you mean 'robot'" in answer["detail"]


@pytest.mark.parametrize(
    ("replies", "success"),
    [
        ([calls(WEATHER), "warm"], True),
        (["I do not know."], False),  # T1: an answer without a call proves nothing
        ([calls(("get_weather", {"town": 1})), "oh"], False),
        ([calls(WEATHER, ("no_such_tool", {})), "oh"], False),
    ],
)
async def test_a_test_succeeds_only_if_a_tool_was_called_and_no_call_failed(told, replies, success):
    """What is recorded is the page's and the server's one record (T1)."""
    told.says(*replies)
    client = await told.client()
    found = await outcome(client, **ASKED)
    assert found["succeeded"] is success
    assert found["validation"]["success_count"] == int(success)
    (record,) = (await client.get("/api/tools/validation")).json()["validations"]
    assert (record["model_id"], record["test_count"], record["validated"]) == ("robot/r1", 1, False)
    (entry,) = record["test_history"]
    assert entry["success"] is success
    assert entry["details"]["query"] == "Weather in Rome?"


async def test_record_false_leaves_the_record_alone(told):
    """To try something without consequence."""
    client = await told.client()
    found = await outcome(client, **ASKED, record=False)
    assert (found["validation"]["tested"], found["succeeded"]) == (False, None)  # nothing was expected
    assert (await client.get("/api/tools/validation")).json()["validations"] == []


@pytest.mark.parametrize(
    ("error", "tests"),
    [
        (ProviderConnectionError("away"), 0),
        (ModelNotFoundError("none", status=404), 0),
        (ProviderRequestError("robot does not support tools", status=400), 1),
        (ProviderRequestError("robot cannot call tools", kind="unsupported_tools"), 1),
        (ProviderTimeoutError("too slow"), 1),
    ],
)
async def test_an_error_of_the_service_is_no_test_but_a_model_that_refuses_tools_or_is_late_has_failed(
    told, error, tests
):
    """502 or 504 either way."""
    told.says(error)
    client = await told.client()
    await outcome(client, 504 if isinstance(error, ProviderTimeoutError) else 502, **ASKED)
    records = (await client.get("/api/tools/validation")).json()["validations"]
    assert [(record["test_count"], record["success_count"]) for record in records] == [(1, 0)] * tests


async def test_a_streamed_test_ends_with_its_outcome(told, sse):
    """The events of a chat, and `test` last."""
    told.says(calls(WEATHER), "warm")
    answer = await (await told.client()).post("/api/tools/test", json={**ASKED, "stream": True})
    events = sse(answer.text)
    assert [name for name, _ in events if name.startswith("tool_")][-1] == "tool_finished"
    assert events[-1][0] == "test"
    assert events[-1][1]["validation"]["success_count"] == 1


async def test_a_service_of_the_requests_own_is_tested_with_the_configured_tools(told):
    """{provider_config, model, query} (C14); it is recorded under its kind."""
    told.says(calls(WEATHER), "warm")
    found = await outcome(await told.client(), query="x", model="m:1", provider_config={"provider": "told"})
    assert (found["succeeded"], found["service"]) == (True, "told")
    assert found["validation"]["model_id"] == "told/m:1"


async def test_tools_of_the_requests_own_are_offered_in_place_of_the_configured_ones(told):
    """registry (C14); nothing that runs code comes in by it."""
    told.says(calls(("greet", {})), "hi")
    greet = {
        "name": "greet",
        "description": "Greet.",
        "parameters": {"type": "object", "properties": {}},
        "implementation": {"type": "mock", "mock_response": "hello"},
    }
    client, inline = await told.client(), {"query": "x", "model": "m", "provider_config": {"provider": "told"}}
    assert (await outcome(client, **inline, registry=[greet]))["succeeded"] is True
    flat = {key: value for key, value in greet.items() if key != "implementation"}
    for code in (
        {**greet, "implementation": {"type": "python", "function": "os:system"}},
        {**flat, "type": "python", "function": "os:system"},  # as the Node original wrote it
    ):
        assert "by hand" in (await outcome(client, 422, **inline, registry=[code]))["detail"]
    assert (await outcome(client, 422, **inline, registry=[{**greet, "implementation": "python"}]))["problems"]
    assert (await outcome(client, 422, **inline, registry=[{"name": "greet"}]))["problems"]
    assert (await outcome(client, 400, **ASKED, registry=[greet]))["status"] == 400


async def test_a_service_of_the_requests_own_needs_the_right_to_edit_and_expands_no_variable(told, monkeypatch):
    """403 without; ${…} is refused, so that no secret of the environment travels to an address of the client's."""
    monkeypatch.setenv("CANARY", "canary-value-123456")
    inline = {"query": "x", "model": "m", "provider_config": {"provider": "openai", "api_key": "${CANARY}"}}
    await outcome(await told.client(edit=False), 403, **inline)
    answer = await (await told.client()).post("/api/tools/test", json=inline)
    assert answer.status_code == 422
    assert "canary-value" not in answer.text


@pytest.mark.slow
@pytest.mark.parametrize("inline", [{}, {"provider_config": {"provider": "told"}, "model": "m"}])
@pytest.mark.parametrize("effect", ["write", "idempotent"])
async def test_a_tool_that_changes_something_runs_only_if_the_request_says_so(told, inline, effect):
    """Otherwise the model is answered with success, and the outcome names it."""
    (weather,) = told.tables["tools"]["registry"]
    told.tables["tools"]["registry"] = [weather, {**weather, "name": "send", "effect": effect}]
    told.says(calls(WEATHER, ("send", {"city": "Rome"})), "Sent.")
    client = await told.client()
    asked = {**ASKED, **inline}

    found = await outcome(client, **asked)
    assert [one["result"]["result"] for one in found["tool_calls"]] == [{"celsius": 21}, {"success": True}]
    assert found["not_run"] == ["send"]

    found = await outcome(client, **asked, run_tools=True)
    assert [one["result"]["result"] for one in found["tool_calls"]] == [{"celsius": 21}, {"celsius": 21}]
    assert found["not_run"] == []


@pytest.fixture
async def two_sources(tmp_path):
    """The app with two tool sources that each have a writing tool ``act``; and the calls that were made."""
    ran, plugin, plugins = [], ToldPlugin(), installed_plugins()

    class Gate:
        @hookimpl
        def flexchat_before_tool_call(self, tool):
            ran.append((tool.source, tool.name))

    source = ScriptedSource([sourced("act", effect="write")])
    for name, each in (("told", plugin), ("source", source), ("gate", Gate())):
        assert plugins.register(each, name).status == "active"
    told = Told(plugin, plugins, tmp_path)
    told.tables["tools"] = {"scripted": [{"name": "one"}, {"name": "two"}]}
    yield told, ran
    await told.aclose()


async def test_two_tools_of_one_name_are_not_offered(two_sources):
    """Nor is one of them chosen: the answer names the prefix to set, and the model is not asked."""
    told, ran = two_sources
    model = told.says(calls(("act", {})), "done")

    answer = await outcome(await told.client(), 422, **ASKED)

    assert answer["type"] == "urn:flexchat:problem:tool-clash"
    assert "prefix" in answer["detail"]
    assert (model.requests, ran) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(("called", "source"), [("act", "one"), ("b_act", "two")])
@pytest.mark.parametrize("run_tools", [False, True])
async def test_the_called_tool_is_that_of_its_source(two_sources, called, source, run_tools):
    """With a prefix, source and name are its identity; without permission it only answers with success."""
    told, ran = two_sources
    told.tables["tools"]["scripted"][1]["prefix"] = "b_"
    model = told.says(calls((called, {})), "done")

    tested = await outcome(await told.client(), **ASKED, run_tools=run_tools)

    assert len(model.requests[0].options.tools) == 2
    assert ran == [(source, called)]
    assert tested["not_run"] == ([] if run_tools else [called])
    assert (tested["tool_calls"][0]["result"]["result"] == {"success": True}) is not run_tools
