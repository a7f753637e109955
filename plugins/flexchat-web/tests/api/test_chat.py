"""Chatting over HTTP: one answer, or the events of one."""

import pytest
from flexchat_sdk import (
    ContextLengthError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderRateLimitError,
    ProviderTimeoutError,
)
from flexchat_testing import calls, says
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

WEATHER = ("get_weather", {"city": "Rome"})


async def test_an_answer_has_the_fields_of_the_node_original_and_the_whole_turn(told):
    """response, status, topic, service, model (reference behaviour, chapter 2), and the turn beside them."""
    told.says(calls(WEATHER), "It is warm.")
    client = await told.client()
    answer = (await client.post("/chat/api", json={"prompt": "Rome?", "retryCount": 2, "selectedModels": []})).json()
    assert {key: answer[key] for key in ("response", "status", "service", "model")} == {
        "response": "It is warm.",
        "status": "success",
        "service": "robot",
        "model": "r1",
    }
    (call,) = answer["turn"]["tool_calls"]
    assert (call["tool"], call["params"], call["iteration"]) == ("get_weather", {"city": "Rome"}, 1)
    assert call["result"]["result"] == {"celsius": 21}


@pytest.mark.parametrize("body", [{}, {"prompt": 1}, {"prompt": None}, {"prompt": "  "}])
async def test_without_a_prompt_the_answer_is_the_originals_sentence(told, body):
    """400 with "Invalid request: prompt is required and must be a string" (reference behaviour, chapter 2)."""
    answer = await (await told.client()).post("/chat/api", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"] == "Invalid request: prompt is required and must be a string"


async def test_earlier_messages_reach_the_model_in_either_form(told):
    """{role, content} and {type, text} (C20)."""
    model = told.says("ok")
    earlier = [{"role": "user", "content": "a"}, {"type": "bot", "text": "b"}]
    await (await told.client()).post("/chat/api", json={"prompt": "c", "previousMessages": earlier})
    assert [(m.role, m.content) for m in model.requests[0].messages] == [
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_may_be_pinned(told, stream):
    """It is as well if the client sends it back as an earlier message."""
    model = told.says("ok", "ok")
    client = await told.client()
    await client.post("/chat/api", json={"prompt": "My order is 4711.", "pin": True, "stream": stream})
    earlier = [{"role": "user", "content": "My order is 4711.", "pinned": True}]
    await client.post("/chat/api", json={"prompt": "Where is it?", "previousMessages": earlier})
    assert [[message.pinned for message in request.messages] for request in model.requests] == [[True], [True, False]]


@pytest.mark.parametrize("stream", [False, True])
async def test_variables_stand_in_prompts(told, stream):
    """Those of the request before those of the configuration."""
    told.tables["variables"] = {"tone": "calm", "shop": "Acme"}
    told.tables["responses"][0]["prompt"] = "{{tone}} {{shop}} {{who.name}}"
    model = told.says("ok")
    body = {"prompt": "a", "variables": {"tone": "glad", "who": {"name": "Ada"}}, "stream": stream}
    answer = await (await told.client()).post("/chat/api", json=body)
    assert (answer.status_code, model.requests[0].messages[0].content) == (200, "glad Acme Ada")


@pytest.mark.parametrize("path", ["/chat/api", "/api/explain"])
async def test_a_variable_that_no_prompt_can_show_is_refused(told, path):
    """422 with its name; what is no table does not fit the document (400)."""
    client = await told.client()
    for variables, status, said in (
        ({"topic": "x"}, 422, "'topic'"),
        ({"a b": "x"}, 422, "'a b'"),
        ([1], 400, "variables"),
    ):
        answer = await client.post(path, json={"prompt": "a", "variables": variables})
        assert (answer.status_code, said in answer.json()["detail"]) == (status, True)
    assert (await client.post(path, json={"prompt": "a", "variables": {"b": 1}})).status_code == 200
    assert (await client.post(path, json={"prompt": "a", "variables": None})).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_may_say_how_the_model_answers(told, stream):
    """In place of the rule, with the limits of a config; 400 names what does not fit."""
    model = told.says("ok")
    options = {"temperature": 0, "max_tokens": 5.0, "stop": "END", "reasoning": "low", "seed": None}
    client = await told.client()
    answer = await client.post("/chat/api", json={"prompt": "a", "stream": stream, "options": options})
    assert answer.status_code == 200
    got = model.requests[0].options
    assert (got.temperature, got.max_tokens, got.stop, got.seed) == (0, 5, ("END",), None)
    assert (type(got.max_tokens), got.reasoning.effort) == (int, "low")
    for wrong in ({"temperature": 3}, {"extra_body": {}}, {"max_iterations": 50}, {"tool_choice": "any"}, []):
        refused = await client.post("/chat/api", json={"prompt": "a", "options": wrong})
        assert (refused.status_code, "options" in refused.json()["detail"]) == (400, True), wrong
    assert (await client.post("/chat/api", json={"prompt": "a", "options": None})).status_code == 200


async def test_the_document_tells_of_variables(told):
    """Wherever a request may bring them."""
    document = (await (await told.client()).get("/openapi.json")).json()
    for path in ("/chat/api", "/api/explain", "/v1/chat/completions"):
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert "{{name}}" in schema["properties"]["variables"]["description"]


async def test_the_events_of_a_turn_are_named_and_end_with_the_turn(told, sse):
    """tool_call … tool_finished, texts, answer_end after each answer of the model, and last the turn."""
    told.says(calls(WEATHER, text="Let me look."), "It is warm.")
    client = await told.client()
    answer = await client.post("/chat/api", json={"prompt": "Rome?"}, headers={"accept": "text/event-stream"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = sse(answer.text)
    names = [name for name, _ in events]
    assert names[-1] == "turn"
    assert names.count("answer_end") == 2
    assert names.index("tool_call") < names.index("tool_started") < names.index("tool_finished")
    found = dict(events)
    assert found["tool_started"]["arguments"] == {"city": "Rome"}
    assert found["tool_finished"]["call_id"] == found["tool_started"]["call_id"]
    assert found["tool_finished"]["result"]["success"] is True
    assert "".join(data["arguments"] for name, data in events if name == "tool_arguments") == '{"city": "Rome"}'
    last = names.index("answer_end")
    assert "".join(data["text"] for name, data in events[last:] if name == "text") == found["turn"]["content"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=80))
async def test_the_texts_of_a_stream_come_to_the_turns_content(told, sse, text):
    """Whatever a model says, line breaks and other signs included, is not changed on its way."""
    told.says(says(text))
    events = sse((await (await told.client()).post("/chat/api", json={"prompt": "x", "stream": True})).text)
    streamed = "".join(data["text"] for name, data in events if name == "text")
    assert streamed == events[-1][1]["content"]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ProviderAuthError("the key sk-verysecretkey123 was refused"), 502, "provider-auth"),
        (ProviderRateLimitError("slowly", retry_after_s=6.2), 429, "rate-limit"),
        (ProviderRateLimitError("used up", kind="quota"), 429, "quota"),
        (ProviderOverloadedError("busy"), 503, "provider-overloaded"),
        (ProviderTimeoutError("late"), 504, "provider-timeout"),
        (ProviderConnectionError("away"), 502, "provider-connection"),
        (ContextLengthError("too long"), 413, "context-length"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_trouble_of_a_service_has_its_own_status_and_never_tells_a_key(told, sse, error, status, kind, stream):
    """Streamed, the status is that of the last event: that a model is waited for has been told before."""
    told.says(error)
    answer = await (await told.client()).post("/chat/api", json={"prompt": "x", "stream": stream})
    assert answer.status_code == (200 if stream else status)
    problem = sse(answer.text)[-1][1] if stream else answer.json()
    assert (problem["status"], problem["type"]) == (status, f"urn:flexchat:problem:{kind}")
    assert "verysecret" not in answer.text
    seconds = problem.get("retry_after") if stream else answer.headers.get("retry-after")
    assert seconds == ((7 if stream else "7") if kind == "rate-limit" else None)


async def test_a_stream_that_fails_before_anything_is_waited_for_has_its_status(told):
    """No conversations are kept: known before a model is asked."""
    del told.tables["conversations"]
    answer = await (await told.client()).post("/chat/api", json={"prompt": "x", "stream": True, "conversation": "c"})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:flexchat:problem:request")


async def test_trouble_in_the_middle_of_a_stream_is_its_last_event(told, sse):
    """error PROBLEM, and no turn."""
    told.says(calls(WEATHER), ProviderOverloadedError("busy"))
    events = sse((await (await told.client()).post("/chat/api", json={"prompt": "x", "stream": True})).text)
    assert events[-1][0] == "error"
    assert (events[-1][1]["status"], events[-1][1]["detail"]) == (503, "busy")
    assert "turn" not in dict(events)


async def test_unknown_stores_and_too_long_messages_are_the_callers_mistake(told):
    """404 and 422: both can be read."""
    told.tables["limits"] = {"message_chars": 10}
    client = await told.client()
    nowhere = {"prompt": "x", "selectedCollections": [{"service": "nowhere"}]}
    for body, status, kind in (({"prompt": "x" * 11}, 422, "request"), (nowhere, 404, "unknown-name")):
        answer = await client.post("/chat/api", json=body)
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:flexchat:problem:{kind}")


async def test_explaining_says_which_rule_and_why_without_asking_the_model(told):
    """Every rule with the conditions that fail."""
    model = told.says("never")
    told.tables["responses"].insert(0, {"llm": "robot", "model": "r2", "match": {"intent": "trains"}})
    answer = (await (await told.client()).post("/api/explain", json={"prompt": "hello"})).json()
    assert answer["rule"] == 1
    assert [verdict["fits"] for verdict in answer["verdicts"]] == [False, True]
    assert answer["verdicts"][0]["failed"]
    assert answer["rules"][0] == {"llm": "robot", "model": "r2", "match": {"intent": "trains"}}
    assert len(answer["phases"]) == 5
    assert model.requests == []


def test_every_error_of_flexchat_has_a_status():
    """A class that is added later is 500 only if nobody thought of it: this test does."""
    from flexchat import errors
    from flexchat_web.api.errors import STATUSES

    kinds = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.FlexChatError)]
    free = {
        errors.FlexChatError,
        errors.InputError,
        errors.PluginError,
        errors.PluginLoadError,
        errors.PluginConflictError,
    }
    unknown = [c for c in kinds if c not in free and not any(issubclass(c, known) for known in STATUSES)]
    assert unknown == []


def test_the_problem_of_a_configuration_lists_its_flaws():
    """path, text, line of each."""
    from flexchat import ConfigError, Problem
    from flexchat_web.api.errors import problem_of

    error = ConfigError([Problem(path="llms.x", text="password=hunter2hunter2", line=3)])
    problem = problem_of(error, lambda text: "masked")
    assert problem.to_dict()["problems"] == [{"path": "llms.x", "text": "masked", "line": 3}]


async def test_earlier_messages_in_openais_shape_reach_the_model_whole(told):
    """Calls beside a text, and their results."""
    call = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    earlier = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": "1"},
    ]
    model = told.says("b")
    client = await told.client()

    assert (await client.post("/chat/api", json={"prompt": "c", "previousMessages": earlier})).status_code == 200
    assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool", "user"]
    assert model.requests[0].messages[1].tool_calls[0].name == "look"


@pytest.mark.parametrize("path", ["/chat/api", "/api/explain"])
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"role": "moderator", "content": "x"}, "previousMessages[1]: no message has the role 'moderator'"),
        ({"role": "tool", "content": "x"}, "previousMessages[1]: a tool's result needs the tool_call_id"),
        ({"role": "user", "content": None}, "previousMessages[1]: it has no content"),
    ],
)
async def test_an_earlier_message_that_cannot_be_read_is_named(told, path, entry, words):
    """422, and nothing is asked."""
    client = await told.client()
    answer = await client.post(path, json={"prompt": "c", "previousMessages": [{"content": "fine"}, entry]})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(words)
