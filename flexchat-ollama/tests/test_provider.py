"""The provider as a whole: what it sends, what it returns, and what it makes of every fault of a server."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult, ToolCall
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.embeddings import BATCHES
from flexchat_ollama.provider import OllamaProvider
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    ContextLengthError,
    MediaPart,
    ModelInfo,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderTimeoutError,
    Reasoning,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

BATCH = BATCHES.most_texts
KEY = "0123456789abcdef0123456789abcdef.canary"
MESSAGES = (SystemMessage(content="s"), UserMessage(content="hi"))
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
WITH_TOOLS = ChatOptions(tools=(TOOL,))
ANSWER = {
    "model": "m",
    "message": {"role": "assistant", "content": "Hello"},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 10,
    "eval_count": 2,
}
STREAM = (
    b'{"model":"m","message":{"role":"assistant","content":"Hel"},"done":false}\n'
    b'{"model":"m","message":{"role":"assistant","content":"lo"},"done":false}\n'
    b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",'
    b'"prompt_eval_count":10,"eval_count":2}\n'
)
FIRST_LINE = STREAM[: STREAM.index(b"\n") + 1]
SHOWN = {"capabilities": ["completion", "tools"], "details": {"context_length": 8192}}
Reply = httpx.Response | Exception


class Server:
    """A server that answers by path, and remembers what it was asked."""

    def __init__(self, **replies: Any) -> None:
        self.replies = {"chat": ANSWER, "show": SHOWN, **replies}
        self.asked: list[tuple[str, Any]] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.removeprefix("/api/")
        body = json.loads(request.content) if request.content else None
        self.asked.append((name, body))
        reply = self.replies.get(name, httpx.Response(404, text="404 page not found"))
        reply = reply(body) if callable(reply) else reply
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, httpx.Response):
            return reply
        return httpx.Response(200, content=reply) if isinstance(reply, bytes) else httpx.Response(200, json=reply)

    def provider(self, **config: Any) -> OllamaProvider:
        settings = {"base_url": "http://h.example", **config}
        return OllamaProvider(OllamaConfig(**settings), transport=httpx.MockTransport(self))

    def paths(self) -> list[str]:
        return [name for name, _ in self.asked]


async def streamed(made: OllamaProvider, options: ChatOptions | None = None) -> list[ChatEvent]:
    return [event async for event in made.stream_chat(MESSAGES, "m", options or ChatOptions())]


async def asked(made: OllamaProvider, options: ChatOptions | None = None) -> ChatResult:
    return await made.generate_chat(MESSAGES, "m", options or ChatOptions())


async def test_an_exchange_is_held() -> None:
    """Address and key go where Ollama wants them; num_ctx is what the model reads; the answer is a result (TC-79)."""
    headers: list[httpx.Headers] = []
    server = Server()

    async def handler(request: httpx.Request) -> httpx.Response:
        headers.append(request.headers)
        return await server(request)

    made = OllamaProvider(
        OllamaConfig(base_url="h.example", api_key=KEY, extra_headers={"X-Mine": "1"}),
        transport=httpx.MockTransport(handler),
    )
    result = await asked(made)

    assert (result.content, result.model, result.finish_reason, result.warnings) == ("Hello", "m", "stop", ())
    assert server.asked == [
        ("show", {"model": "m"}),
        (
            "chat",
            {
                "model": "m",
                "stream": False,
                "options": {"num_ctx": 8192},
                "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
            },
        ),
    ]
    assert {h["authorization"] for h in headers} == {f"Bearer {KEY}"}
    assert {h["x-mine"] for h in headers} == {"1"}


async def test_tools_and_a_format_are_two_requests() -> None:
    """That is what ToolsOrFormatProvider says."""
    assert Server().provider().combines_tools_and_format("any") is False


async def test_a_model_is_asked_for_once() -> None:
    """Also where many turns begin at once; another model is asked for on its own."""
    server = Server()
    made = server.provider()
    await asyncio.gather(*[asked(made, WITH_TOOLS) for _ in range(5)])
    await made.generate_chat(MESSAGES, "other", ChatOptions())
    await asked(made)

    assert server.paths().count("show") == 2
    assert {body["options"]["num_ctx"] for name, body in server.asked if name == "chat"} == {8192}


@pytest.mark.parametrize(
    ("config", "options", "asks"),
    [
        ({}, ChatOptions(), True),
        ({"num_ctx": 1000}, ChatOptions(), False),
        ({"extra_body": {"options": {"num_ctx": 1000}}}, ChatOptions(), False),
        ({}, ChatOptions(extra={"options": {"num_ctx": 1000}}), False),
        ({"num_ctx": 1000}, WITH_TOOLS, True),
        ({"num_ctx": 1000}, ChatOptions(tools=(TOOL,), tool_choice="none"), False),
        ({"num_ctx": 1000}, ChatOptions(reasoning=Reasoning(effort="none")), False),
        ({"check_models": False}, WITH_TOOLS, False),
    ],
)
async def test_a_model_is_asked_for_only_where_that_matters(
    config: dict[str, Any], options: ChatOptions, asks: bool
) -> None:
    """For num_ctx where nobody has set it, and for tools, thinking and pictures."""
    server = Server(show={"capabilities": ["completion", "tools", "thinking"]})
    await asked(server.provider(**config), options)

    assert ("show" in server.paths()) is asks


@pytest.mark.parametrize(
    "reply",
    [
        httpx.Response(404, json={"error": "model 'm' not found"}),
        httpx.Response(500, json={"error": "x"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"model_info": None, "capabilities": "tools"}),
        httpx.Response(307, headers={"location": "/"}),
        httpx.ReadTimeout("too late"),
    ],
    ids=str,
)
async def test_a_server_that_does_not_tell_is_no_reason_to_fail(reply: Reply) -> None:
    """Old servers and gateways: what is not known is not "no", and the limit is taken for the length."""
    server = Server(show=reply, chat=STREAM)
    options = ChatOptions(tools=(TOOL,), reasoning=Reasoning(effort="medium"))
    if isinstance(reply, httpx.ReadTimeout):
        with pytest.raises(ProviderTimeoutError):  # no connection can have been made
            await streamed(server.provider(), options)
        return
    events = await streamed(server.provider(), options)

    assert isinstance(events[-1], AnswerEnd)
    assert server.asked[-1][1]["options"]["num_ctx"] == 16384


async def test_a_model_that_is_not_there_yet_is_asked_for_again() -> None:
    """It may be fetched in the meantime; any other answer is remembered."""
    for status, times in ((404, 2), (500, 1)):
        server = Server(show=httpx.Response(status, json={"error": "x"}))
        made = server.provider()
        await asked(made)
        await asked(made)
        assert server.paths().count("show") == times


async def test_tools_for_a_model_without_are_an_error_that_names_others() -> None:
    """Nothing is sent to the model; the server's list says which ones can."""
    tags = {"models": [{"name": "a:1b", "capabilities": ["tools"]}, {"name": "b"}, {"name": "c"}]}
    can = {"b": ["completion"], "c": ["completion", "tools"], "m": ["completion"], "a:1b": ["tools"]}
    server = Server(tags=tags, show=lambda body: {"capabilities": can[body["model"]]})

    for ask in (asked, streamed):
        with pytest.raises(ProviderRequestError, match=r"m cannot call tools.*: a:1b, c$") as caught:
            await ask(server.provider(), WITH_TOOLS)  # type: ignore[operator]
        assert (caught.value.kind, caught.value.model) == ("unsupported_tools", "m")
    assert "chat" not in server.paths()


async def test_a_refusal_of_tools_names_others_too() -> None:
    """Where only the server knew; a server that lists nothing does not hide the reason."""
    refusal = httpx.Response(400, json={"error": "registry.ollama.ai/library/m does not support tools"})
    for tags, text in (({"models": [{"name": "a", "capabilities": ["tools"]}]}, ": a$"), ({}, "choose a model")):
        server = Server(chat=lambda body: refusal, show={}, tags=tags)
        for ask in (asked, streamed):
            with pytest.raises(ProviderRequestError, match=text) as caught:
                await ask(server.provider(), WITH_TOOLS)  # type: ignore[operator]
            assert (caught.value.kind, caught.value.status) == ("unsupported_tools", 400)


@pytest.mark.parametrize(
    ("messages", "options", "text"),
    [
        (MESSAGES, ChatOptions(reasoning=Reasoning(effort="high")), "cannot think"),
        ((UserMessage(content="", media=(MediaPart(kind="image", mime_type="image/png", data=b"x"),)),), ChatOptions(),
         "cannot see"),
        ((UserMessage(content="", media=(MediaPart(kind="audio", mime_type="audio/wav", data=b"x"),)),), ChatOptions(),
         "cannot hear"),
    ],
)  # fmt: skip
async def test_what_a_model_cannot_do_is_an_error_with_a_sentence(
    messages: Any, options: ChatOptions, text: str
) -> None:
    """Servers ignore pictures that a model cannot see."""
    server = Server()

    with pytest.raises(ProviderRequestError, match=f"m {text}") as caught:
        await server.provider().generate_chat(messages, "m", options)
    assert caught.value.kind == "unsupported_feature"
    assert "chat" not in server.paths()


async def test_a_window_that_was_nearly_full_is_a_warning() -> None:
    """prompt_eval_count is the only sign the server gives."""
    full = {**ANSWER, "prompt_eval_count": 95}

    assert "read 95 tokens" in (await asked(Server(chat=full).provider(num_ctx=100))).warnings[0]


async def test_warnings_of_the_request_are_in_the_result() -> None:
    """What could not be honoured, streamed and whole."""
    options = ChatOptions(tools=(TOOL,), tool_choice="required")
    result = await asked(Server().provider(), options)
    last = (await streamed(Server(chat=STREAM).provider(), options))[-1]

    assert isinstance(last, AnswerEnd)
    assert result.warnings == last.result.warnings
    assert "tool_choice" in result.warnings[0]


async def test_a_call_the_server_could_not_read_is_an_answer() -> None:
    """As a refusal it is one too: the loop asks again."""
    refusal = httpx.Response(500, json={"error": f"error parsing tool call: raw='{KEY}'"})
    server = Server(chat=lambda body: refusal)

    result = await asked(server.provider(api_key=KEY))
    last = (await streamed(server.provider(api_key=KEY)))[-1]

    assert isinstance(last, AnswerEnd)
    assert result == last.result
    assert result.finish_reason == "malformed_tool_call"
    assert KEY not in repr(result)


async def test_text_calls_are_read_where_the_config_says_so() -> None:
    """And only calls of tools that were offered."""
    text = {**ANSWER, "message": {"role": "assistant", "content": '{"name": "f", "arguments": {"a": 1}}'}}
    server = Server(chat=text)

    assert (await asked(server.provider(), WITH_TOOLS)).tool_calls == ()
    assert (await asked(server.provider(read_text_calls=True))).tool_calls == ()
    (call,) = (await asked(server.provider(read_text_calls=True), WITH_TOOLS)).tool_calls
    assert (call.name, call.arguments) == ("f", {"a": 1})


async def test_thoughts_in_the_text_are_read_where_the_config_says_so() -> None:
    """Whole and streamed; they go back as thoughts. Otherwise they are text, with a warning."""
    server = Server(chat={**ANSWER, "message": {"role": "assistant", "content": "Hm.\n</think>\n\nTwelve."}})

    unread = await asked(server.provider(think_tags=True))
    assert (unread.content, len(unread.warnings)) == ("Hm.\n</think>\n\nTwelve.", 1)
    read = await asked(server.provider(think_tags="closing"))
    assert [part.text for part in read.message.parts] == ["Hm.\n", "Twelve."]  # type: ignore[union-attr]
    last = (await streamed(server.provider(think_tags="closing")))[-1]
    assert isinstance(last, AnswerEnd)
    assert last.result == read


async def test_the_cloud_needs_a_key_and_chooses_num_ctx() -> None:
    """Without one nothing is sent there; a server of your own needs none."""
    server = Server()
    cloud = "https://ollama.com"
    for ask in (asked(server.provider(base_url=cloud)), server.provider(base_url=cloud).list_models()):
        with pytest.raises(ProviderAuthError, match="no key for"):
            await ask
    with pytest.raises(ProviderAuthError, match="no key for"):
        await server.provider(base_url=cloud).embed(["x"], "m")
    assert server.asked == []

    await asked(server.provider(base_url=cloud, api_key=KEY))
    await server.provider(check_models=False).generate_chat(MESSAGES, "gpt-oss:120b-cloud", ChatOptions())
    assert server.paths() == ["chat", "chat"]
    assert not any("options" in body for _, body in server.asked)


async def test_models_are_listed_with_what_they_can() -> None:
    """From the list itself, or model by model where it does not tell; one that fails is listed all the same."""
    told = {"name": "a", "capabilities": ["completion", "tools"], "details": {"context_length": 100}}
    shown: dict[str, Any] = {
        "b": {"capabilities": ["embedding"], "model_info": {"x.context_length": 512}},
        "c": httpx.Response(500, json={}),
    }
    server = Server(tags={"models": [told, {"name": "b"}, {"name": "c"}]}, show=lambda body: shown[body["model"]])

    assert await server.provider().list_models() == [
        ModelInfo(id="a", capabilities=frozenset({"chat", "tools"}), context_length=100),
        ModelInfo(id="b", capabilities=frozenset({"embedding"}), context_length=512),
        ModelInfo(id="c"),
    ]
    assert server.paths().count("show") == 2


async def test_many_models_are_asked_for_a_few_at_a_time() -> None:
    """A server with hundreds of models is not flooded."""
    running = most = 0

    async def handler(request: httpx.Request) -> httpx.Response:
        nonlocal running, most
        if request.url.path == "/api/tags":
            return httpx.Response(200, json={"models": [{"name": f"m{n}"} for n in range(100)]})
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return httpx.Response(200, json=SHOWN)

    made = OllamaProvider(OllamaConfig(), transport=httpx.MockTransport(handler))

    assert len(await made.list_models()) == 100
    assert 1 < most <= 8


async def test_a_list_that_is_none_is_an_error() -> None:
    """Refusals have their class here too."""
    with pytest.raises(ProviderProtocolError, match="list of models"):
        await Server(tags={"data": []}).provider().list_models()
    with pytest.raises(ProviderAuthError):
        await Server(tags=httpx.Response(401, json={"error": "unauthorized"})).provider().list_models()


def embedded(body: Any) -> Any:
    return {"model": "e", "embeddings": [[float(text), 1] for text in body["input"]], "prompt_eval_count": 3}


async def test_texts_become_vectors_in_their_order() -> None:
    """In batches; tokens of all of them together."""
    server = Server(embed=embedded)
    texts = [str(n) for n in range(BATCH + 5)]
    found = await server.provider().embed(texts, "e", purpose="query")

    assert [vector[0] for vector in found.vectors] == list(range(BATCH + 5))
    assert [len(body["input"]) for _, body in server.asked] == [BATCH, 5]
    assert (found.model, found.usage.input_tokens if found.usage else None, found.warnings) == ("e", 6, ())
    assert await server.provider().embed([], "e") == type(found)(vectors=())


async def test_what_an_embedding_request_says() -> None:
    """Truncation as configured, dimensions where they are asked for, and the model's settings."""
    server = Server(embed=embedded)
    config = {"truncate": False, "keep_alive": "1m", "num_ctx": 512, "extra_body": {"options": {"num_gpu": 0}, "x": 1}}
    found = await server.provider(**config).embed(["5"], "e", dimensions=2)

    assert server.asked == [
        (
            "embed",
            {
                "model": "e",
                "input": ["5"],
                "truncate": False,
                "dimensions": 2,
                "keep_alive": "1m",
                "x": 1,
                "options": {"num_ctx": 512, "num_gpu": 0},
            },
        )
    ]
    assert found.warnings == ()
    assert "2 dimensions, not 3" in (await server.provider().embed(["5"], "e", dimensions=3)).warnings[0]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ({"embeddings": []}, ProviderProtocolError),
        ({"embeddings": [[1.0], [2.0, 3.0]]}, ProviderProtocolError),
        ({"embeddings": [[1.0], []]}, ProviderProtocolError),
        ({"embeddings": [[1.0], ["x"]]}, ProviderProtocolError),
        ({"embeddings": [[True], [1.0]]}, ProviderProtocolError),
        ({"embeddings": [[10**400], [1.0]]}, ProviderProtocolError),
        (b'{"embeddings": [[NaN], [1.0]]}', ProviderProtocolError),
        ({"embedding": [1.0]}, ProviderProtocolError),
        (b"not JSON", ProviderProtocolError),
        ({"error": "boom"}, ProviderOverloadedError),
        (httpx.Response(404, json={"error": 'model "e" not found, try pulling it first'}), ModelNotFoundError),
        (httpx.Response(400, json={"error": "the input length exceeds the context length"}), ContextLengthError),
        (httpx.Response(404, text="404 page not found"), ProviderProtocolError),
    ],
)
async def test_vectors_that_cannot_be_used_are_an_error(reply: Any, kind: type[ProviderError]) -> None:
    """One for each text, all of one length and of numbers, or a ProviderError."""
    with pytest.raises(kind) as caught:
        await Server(embed=reply).provider().embed(["a", "b"], "e")
    assert caught.value.model == "e"


async def test_batches_that_do_not_fit_together_are_an_error() -> None:
    """Vectors of two lengths cannot be compared."""
    server = Server(
        embed=lambda body: {"embeddings": [[1.0] * (1 + (len(body["input"]) < BATCH))] * len(body["input"])}
    )

    with pytest.raises(ProviderProtocolError, match="different lengths"):
        await server.provider().embed(["x"] * (BATCH + 1), "e")


@pytest.mark.parametrize(
    ("trouble", "is_asked"),
    [
        (httpx.ConnectError("refused"), True),
        (httpx.ConnectTimeout("too late"), False),
        (httpx.RemoteProtocolError("no HTTP"), False),
    ],
)
async def test_a_server_that_is_away_is_asked_after(trouble: Exception, is_asked: bool) -> None:
    """No connection, no use in trying another path: one request, and the question everybody needs."""
    server = Server(show=trouble, chat=trouble)
    with pytest.raises(ProviderError) as caught:
        await asked(server.provider())

    assert ("is Ollama running at http://h.example?" in str(caught.value)) is is_asked
    assert caught.value.model == "m"


async def test_the_time_is_for_all_requests_together() -> None:
    """What /api/show took is gone for /api/chat."""
    seen: list[float] = []

    async def slow(request: httpx.Request) -> httpx.Response:
        seen.append(0)
        if request.url.path == "/api/show":
            return httpx.Response(200, json=SHOWN)
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    made = OllamaProvider(OllamaConfig(), transport=httpx.MockTransport(slow))
    async with asyncio.timeout(5):
        with pytest.raises(ProviderTimeoutError):
            await asked(made, ChatOptions(timeout_s=0.05))
    assert len(seen) == 2


async def test_nothing_listens() -> None:
    """The first thing everybody sees once: it names the address, and how to start the server."""
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await server.wait_closed()
    made = OllamaProvider(OllamaConfig(base_url=address))

    with pytest.raises(ProviderConnectionError) as caught:
        await asked(made)
    assert str(caught.value) == f"is Ollama running at http://{address}? `ollama serve` or its app starts it"
    assert caught.value.retryable
    await made.aclose()


async def test_earlier_pictures_are_described_to_a_model_that_cannot_see() -> None:
    """A conversation moved from a model that can goes on."""
    part = MediaPart(kind="image", mime_type="image/png", data=b"x")
    server = Server(show={"capabilities": ["completion"]})
    messages = (
        UserMessage(content="Look.", media=(part,)),
        AssistantMessage((ToolCall.from_object("f", {}, id="c"),)),
        ToolMessage(tool_call_id="c", name="f", content="drawn", media=(part,)),
        UserMessage(content="And now?"),
    )
    await server.provider().generate_chat(messages, "m", ChatOptions())
    sent = server.asked[-1][1]["messages"]
    assert all("images" not in message for message in sent)
    assert "not shown, you cannot see it here" in sent[0]["content"]
    assert "not shown, you cannot see it here" in sent[2]["content"]
