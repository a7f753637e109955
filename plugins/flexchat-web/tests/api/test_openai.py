"""OpenAI's own client talks to a configuration."""

import asyncio
import json

import openai
import pytest
from flexchat import Usage
from flexchat_sdk import (
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderOverloadedError,
    ProviderRateLimitError,
)
from flexchat_testing import calls, says

WEATHER = ("get_weather", {"city": "Rome"})
ROME = [{"role": "user", "content": "Weather in Rome?"}]
USED = Usage(input_tokens=10, output_tokens=4, cache_read_tokens=3)


@pytest.fixture
async def asking(told, client_of):
    """Make an official client of the app: await asking(model's replies)."""
    made = []

    async def make(*replies, retries=0, **settings):
        told.model = told.says(*replies)
        http = client_of(told.app(**settings))
        url = "http://127.0.0.1/v1"
        made.append(openai.AsyncOpenAI(api_key="x", base_url=url, http_client=http, max_retries=retries))
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.mark.parametrize("model", ["flexchat", "robot/r1"])
async def test_a_completion_comes_with_the_tools_run_inside(asking, model):
    """content, finish_reason and usage as OpenAI has them; the whole turn beside them."""
    client = await asking(calls(WEATHER, usage=USED), says("It is warm.", usage=USED))
    found = await client.chat.completions.create(model=model, messages=ROME)
    assert (found.object, found.model) == ("chat.completion", model)
    (choice,) = found.choices
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == ("It is warm.", None, "stop")
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (20, 8, 28)
    assert found.usage.prompt_tokens_details.cached_tokens == 6
    assert found.flexchat["tool_calls"][0]["result"]["result"] == {"celsius": 21}


@pytest.mark.parametrize("model", ["flexchat", "robot/r1"])
async def test_a_completion_is_streamed_with_the_tools_run_inside(asking, model):
    """The role first, texts, the reason, the usage if it is wanted; no call is shown; the turn in the last choice."""
    client = await asking(calls(WEATHER, text="One moment.", usage=USED), says("It is warm.", usage=USED))
    stream = await client.chat.completions.create(
        model=model, messages=ROME, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert chunks[0].choices[0].delta.role == "assistant"
    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    assert "".join(delta.content or "" for delta in deltas) == "One moment.\n\nIt is warm."
    assert all(delta.tool_calls is None for delta in deltas)
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-2].flexchat["content"] == "It is warm."
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 28)
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_the_blocking_client_works_over_a_socket(told, running):
    """Streamed and not; its key is the token."""
    told.says(calls(WEATHER), "It is warm.")

    def talk(url):
        with openai.OpenAI(api_key="a-token-0123456789", base_url=f"{url}/v1", max_retries=0) as client:
            names = [model.id for model in client.models.list()]
            found = client.chat.completions.create(model="flexchat", messages=ROME)
            stream = client.chat.completions.create(model="robot/r1", messages=ROME, stream=True)
            texts = [chunk.choices[0].delta.content or "" for chunk in stream]
            with pytest.raises(openai.AuthenticationError):
                client.with_options(api_key="wrong").models.list()
            return names, found.choices[0].message.content, "".join(texts)

    with running(told.app(tokens={"a-token-0123456789": "red"})) as server:
        found = await asyncio.to_thread(talk, server.url)
    assert found == (["flexchat", "robot/r1"], "It is warm.", "It is warm.")


async def test_the_accumulating_helper_of_the_client_reads_the_stream(asking):
    """What its own helper makes of the chunks is the completion."""
    client = await asking("It is warm.")
    async with client.chat.completions.stream(model="flexchat", messages=ROME) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == "It is warm."


@pytest.mark.parametrize(
    ("error", "expected", "code"),
    [
        (ProviderRateLimitError("slowly", retry_after_s=3), openai.RateLimitError, "rate_limit_exceeded"),
        (ProviderRateLimitError("used up", kind="quota"), openai.RateLimitError, "insufficient_quota"),
        (ContextLengthError("too long"), openai.BadRequestError, "context_length_exceeded"),
        (ContentFilterError("no"), openai.BadRequestError, "content_filter"),
        (ModelNotFoundError("gone"), openai.NotFoundError, "model_not_found"),
        (ProviderOverloadedError("busy"), openai.InternalServerError, "provider-overloaded"),
        (ProviderAuthError("bad key sk-0123456789abc"), openai.InternalServerError, "provider-auth"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_trouble_arrives_as_the_clients_own_errors(asking, error, expected, code, stream):
    """Typed by status, with OpenAI's codes; never with a key."""
    client = await asking(error)
    with pytest.raises(expected) as caught:
        await client.chat.completions.create(model="flexchat", messages=ROME, stream=stream)
    assert caught.value.code == code
    assert "sk-0123" not in str(caught.value)


async def test_the_client_does_not_repeat_what_will_not_help(asking, told):
    """A refused key is 502, which its client would try again, were it not told otherwise."""
    client = await asking(ProviderAuthError("refused"), retries=2)
    with pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(model="flexchat", messages=ROME)
    assert len(told.model.requests) == 1


async def test_trouble_in_the_middle_of_a_stream_is_raised_by_the_client(asking):
    """An error instead of a finish reason."""
    client = await asking(calls(WEATHER, text="One moment."), ProviderOverloadedError("busy"))
    stream = await client.chat.completions.create(model="flexchat", messages=ROME, stream=True)
    with pytest.raises(openai.APIError, match="busy"):
        async for _ in stream:
            pass


async def test_models_are_listed_and_shown(asking):
    """The six phases, and every model the configuration names; slashes in ids are read either way."""
    client = await asking("x")
    assert [model.id async for model in client.models.list()] == ["flexchat", "robot/r1"]
    assert (await client.models.retrieve("robot/r1")).owned_by == "flexchat"
    with pytest.raises(openai.NotFoundError) as caught:
        await client.models.retrieve("robot/r2")
    assert caught.value.code == "model_not_found"


async def test_options_reach_a_named_model(asking, told):
    """What OpenAI's body says of sampling, limits, thinking, tools."""
    client = await asking("x")
    await client.chat.completions.create(
        model="robot/r1",
        messages=ROME,
        max_completion_tokens=7,
        temperature=0,
        top_p=0.5,
        stop="END",
        seed=3,
        reasoning_effort="low",
        tool_choice="none",
        user="u",
        metadata={"a": "b"},
        store=True,
    )
    (request,) = told.model.requests
    options = request.options
    assert (options.max_tokens, options.temperature, options.top_p, options.stop) == (7, 0, 0.5, ("END",))
    assert (options.seed, options.reasoning.effort, options.tools) == (3, "low", ())


async def test_what_is_not_done_as_asked_is_told(asking):
    """With "flexchat" the rule decides; penalties are not used at all."""
    client = await asking("x")
    found = await client.chat.completions.create(
        model="flexchat", messages=ROME, temperature=0.5, frequency_penalty=1, tool_choice="auto"
    )
    said = " ".join(found.flexchat["warnings"])
    assert "temperature" in said
    assert "frequency_penalty" in said
    assert "tool_choice" not in said


async def test_variables_are_a_field_of_the_body(asking, told):
    """Prompts show them; a model that is named has no prompt of the rules, and a warning says so."""
    told.tables["responses"][0]["prompt"] = "Serve {{who}}."
    client = await asking("x", "y")
    more = {"variables": {"who": "Ada"}}
    found = await client.chat.completions.create(model="flexchat", messages=ROME, extra_body=more)
    assert (told.model.requests[0].messages[0].content, found.flexchat["warnings"]) == ("Serve Ada.", [])
    named = await client.chat.completions.create(model="robot/r1", messages=ROME, extra_body=more)
    assert "variables are ignored" in named.flexchat["warnings"][0]
    with pytest.raises(openai.BadRequestError, match="'topic' is FlexChat's own variable"):
        await client.chat.completions.create(model="flexchat", messages=ROME, extra_body={"variables": {"topic": "x"}})


@pytest.mark.parametrize("model", ["flexchat", "robot/r1"])
async def test_a_response_format_is_held(asking, model):
    """json_schema: an answer that does not fit is asked for again."""
    client = await asking("no json", '{"celsius": 21}')
    schema = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
    found = await client.chat.completions.create(
        model=model,
        messages=ROME,
        response_format={"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}},
    )
    assert json.loads(found.choices[0].message.content) == {"celsius": 21}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"n": 2}, "one answer"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "are functions here, not 'custom'"),
        ({"functions": [{"name": "f"}]}, "give them as tools"),
        ({"logprobs": True}, "probabilities"),
        ({"temperature": 9}, "temperature"),
        ({"seed": 10**30}, "seed"),
        ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, "not 'video_url'"),
    ],
)
async def test_what_cannot_be_had_is_refused_in_a_sentence(asking, more, said):
    """400 in OpenAI's shape."""
    client = await asking("x")
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(**{"model": "flexchat", "messages": ROME, **more})
    assert said in caught.value.body["message"]
    assert caught.value.param.startswith(next(iter(more)))
    assert set(caught.value.body) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("kind", [["text"], {"a": 1}, None, 3])
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
async def test_a_part_whose_type_is_no_text_is_refused(new_client, path, kind):
    """400, not 500."""
    client = await new_client()
    field = "messages" if path == "chat/completions" else "input"
    body = {"model": "flexchat", field: [{"role": "user", "content": [{"type": kind, "text": "x"}]}]}
    assert (await client.post(f"/v1/{path}", json=body)).status_code == 400
