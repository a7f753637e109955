"""The provider over scripted LangChain models: what no wire format is needed for."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest
from flexchat import ConfigError, FlexChat, tool
from flexchat.errors import MediaLimitError
from flexchat.host import message_from_dict, message_to_dict
from flexchat.plugin import ToolCall
from flexchat_langchain.answers import assistant_message, finish_reason
from flexchat_langchain.config import LangChainConfig
from flexchat_langchain.messages import as_sent
from flexchat_langchain.options import prepared
from flexchat_langchain.provider import LangChainProvider
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    OpaquePart,
    ProviderError,
    ProviderRequestError,
    ProviderTimeoutError,
    Reasoning,
    ReasoningPart,
    ResponseFormat,
    SystemMessage,
    TextPart,
    UserMessage,
    kind_of,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_ollama import ChatOllama

HI = (UserMessage(content="Hi"),)
HERE = "scripted here"
FUNCTION = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}}}


class Scripted(BaseChatModel):
    """Says what it is told: AIMessages, lists of chunks, or exceptions."""

    script: list[Any]
    asked: list[Any]
    temperature: float | None = None

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools, **kwargs)

    def _next(self, messages, kwargs):
        self.asked.append((messages, kwargs, self.temperature))
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self._next(messages, {"stop": stop, **kwargs}))])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for chunk in self._next(messages, {"stop": stop, **kwargs}):
            yield ChatGenerationChunk(message=chunk)


def provider(*script, **settings):
    model = Scripted(script=list(script), asked=[])
    config = LangChainConfig(class_path="langchain_core.language_models:GenericFakeChatModel", **settings)
    return LangChainProvider(config, make=lambda name: model), model


async def streamed(made, options=None):
    return [event async for event in made.stream_chat(HI, "m", options or ChatOptions())]


def call(n, args, id="c"):
    return tool_call_chunk(name="f" if id else None, args=args, id=id, index=n)


async def test_a_blocking_model_does_not_block():
    """A model with nothing but _generate runs in a thread: the loop goes on meanwhile."""
    asked, free = threading.Event(), threading.Event()

    class Blocking(Scripted):
        def _generate(self, *args, **kwargs):
            asked.set()
            assert free.wait(5)
            return super()._generate(*args, **kwargs)

    config = LangChainConfig(class_path="langchain_core.language_models:GenericFakeChatModel")
    made = LangChainProvider(config, make=lambda name: Blocking(script=[AIMessage("Hi.")], asked=[]))
    task = asyncio.create_task(made.generate_chat(HI, "m", ChatOptions()))
    await asyncio.to_thread(asked.wait, 5)
    free.set()
    assert (await task).content == "Hi."


async def test_a_call_that_could_not_be_read_is_kept_and_not_run():
    """LangChain puts it into invalid_tool_calls; it has a name, an id, its text, and the reason."""
    broken = {"name": "f", "args": "{broken", "id": "c1", "error": None, "type": "invalid_tool_call"}
    made, _ = provider(AIMessage(content="", invalid_tool_calls=[broken]))
    (found,) = (await made.generate_chat(HI, "m", ChatOptions())).tool_calls
    assert (found.name, found.wire_id, found.raw_arguments, found.arguments) == ("f", "c1", "{broken", None)
    assert found.error.startswith("not valid JSON")


async def test_an_invalid_call_that_parses_is_still_not_run():
    """The integration refused it, for a reason of its own: what it means is not ours to guess."""
    refused = {"name": "f", "args": "{}", "id": "c1", "error": "no such function", "type": "invalid_tool_call"}
    made, _ = provider(AIMessage(content="", invalid_tool_calls=[refused]))
    (found,) = (await made.generate_chat(HI, "m", ChatOptions())).tool_calls
    assert found.arguments is None
    assert found.error


@pytest.mark.parametrize("args", ['{"n": 1}', [1], None, 7])
async def test_a_call_whose_arguments_are_not_an_object_is_an_error(args):
    """LangChain's class checks what it is made with, not what is assigned later; other odd types cost nothing."""
    said = AIMessage(content="", tool_calls=[{"name": "f", "args": {}, "id": "c1"}])
    said.tool_calls = [{"name": "f", "args": {}, "id": 7}, {"name": "f", "args": {}, "id": "c2"}]
    said.usage_metadata = {"input_tokens": "many", "output_tokens": 5, "output_token_details": []}
    made, _ = provider(said)
    result = await made.generate_chat(HI, "m", ChatOptions())
    assert {call.wire_id: call.arguments for call in result.tool_calls} == {"7": {}, "c2": {}}
    assert (result.usage.input_tokens, result.usage.output_tokens) == (None, 5)

    said.tool_calls[0]["args"] = args
    with pytest.raises(ProviderError, match=r"tool_calls\[0\].args: expected an object"):
        await provider(said)[0].generate_chat(HI, "m", ChatOptions())


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS"])
async def test_the_last_call_of_a_cut_answer_is_not_run(word):
    """LangChain makes a shorter object of a text that was cut: here it is an error, streamed or not."""
    calls = [{"name": "f", "args": {"n": n}, "id": f"c{n}"} for n in (1, 2)]
    whole = AIMessage(content="", tool_calls=calls, response_metadata={"finish_reason": word})
    chunks = [
        AIMessageChunk(content="", tool_call_chunks=[call(0, '{"n": 1}', "c1"), call(1, '{"n": 2', "c2")]),
        AIMessageChunk(content="", response_metadata={"finish_reason": word}),
    ]
    made, _ = provider(whole, chunks)
    for result in (await made.generate_chat(HI, "m", ChatOptions()), (await streamed(made))[-1].result):
        first, last = result.tool_calls
        assert (first.arguments, last.arguments, result.finish_reason) == ({"n": 1}, None, "length")
        assert "output limit" in last.error


async def test_half_an_argument_is_no_argument():
    """A stream that ends inside a call: LangChain reads {"n": 12 as {"n": 12}; here it is told, and not run."""
    made, _ = provider([AIMessageChunk(content="", tool_call_chunks=[call(0, '{"n": 12')])])
    result = (await streamed(made))[-1].result
    assert result.tool_calls[0].arguments is None
    assert result.warnings == ("the answer ended without a finish reason; it may be incomplete",)


async def test_calls_without_ids_have_one():
    """Ids are made where a model gives none, and the result is sent back under it (LC-3)."""
    said = AIMessage(content="", tool_calls=[{"name": "f", "args": {}, "id": None}] * 2)
    made, _ = provider(said)
    message = (await made.generate_chat(HI, "m", ChatOptions())).message
    assert len({c.id for c in message.tool_calls}) == 2
    (sent,) = as_sent([message], HERE)
    assert [c["id"] for c in sent.tool_calls] == [c.id for c in message.tool_calls]


texts = st.text(max_size=10)
blocks = st.lists(
    texts
    | st.builds(lambda t: {"type": "text", "text": t, "citations": [{"at": 1}]}, texts)
    | st.builds(lambda t: {"type": "thinking", "thinking": t, "signature": "s"}, texts)
    | st.builds(lambda t: {"type": "reasoning", "summary": [{"text": t}], "id": "rs_1"}, texts)
    | st.just({"type": "redacted_thinking", "data": "x"})
    | st.just({"type": "server_tool_use", "id": "s1", "input": {}, "name": "search"}),
    max_size=4,
)


@given(blocks | st.text(min_size=1), st.dictionaries(st.sampled_from(["reasoning_content", "odd"]), texts))
def test_an_answer_goes_back_as_it_came(content, beside):
    """To the model that gave it: blocks with their signatures, and what its integration keeps beside them."""
    calls = [{"type": "tool_call", "name": "f", "args": {"a": 1}, "id": "c1"}]
    told = {"model_provider": "x", "finish_reason": "stop"}
    answer = AIMessage(content=content, tool_calls=calls, additional_kwargs=beside, response_metadata=told)
    kept = message_from_dict(message_to_dict(assistant_message(answer, HERE)))
    (sent,) = as_sent([kept], HERE)
    assert isinstance(content, str) or (sent.content or []) == content
    assert sent.text == answer.text
    assert sent.additional_kwargs == beside
    assert sent.tool_calls == calls
    assert sent.response_metadata == {"model_provider": "x"}


@given(blocks)
def test_what_a_model_wants_back_goes_to_nobody_else(content):
    """Another origin is told the texts alone."""
    answer = AIMessage(content=content, additional_kwargs={"signature": "s"})
    for sent in as_sent([assistant_message(answer, HERE)], "elsewhere"):
        assert isinstance(sent.content, str)
        assert sent.additional_kwargs == {}


def test_blocks_keep_their_places():
    """Thoughts, texts, blocks nobody reads and calls stand in the order the model wrote them."""
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
        {"type": "text", "text": "and"},
        {"type": "web_search_tool_result", "content": []},
        {"type": "tool_use", "id": "gone", "name": "f", "input": {}},
    ]
    calls = [{"name": "f", "args": {}, "id": id} for id in ("c1", "c2")]
    message = assistant_message(AIMessage(content=content, tool_calls=calls), HERE)
    kinds = [type(part) for part in message.parts]
    assert kinds == [ReasoningPart, ToolCall, TextPart, OpaquePart, OpaquePart, ToolCall]
    assert [c.wire_id for c in message.tool_calls] == ["c2", "c1"]
    (sent,) = as_sent([message], HERE)
    assert sent.content == content[:4]  # the call that is gone would have no result


async def test_thoughts_beside_a_text_are_streamed_as_thoughts():
    """Ollama's and DeepSeek's integrations keep them in additional_kwargs."""
    think = [AIMessageChunk(content="", additional_kwargs={"reasoning_content": piece}) for piece in ("Let ", "me")]
    done = AIMessageChunk(content="Hi", response_metadata={"done_reason": "stop"})
    made, _ = provider([*think, done])
    *events, end = await streamed(made)
    assert [(type(e).__name__, e.index, e.text) for e in events] == [
        ("ReasoningDelta", 0, "Let "),
        ("ReasoningDelta", 0, "me"),
        ("TextDelta", 1, "Hi"),
    ]
    assert [part.text for part in end.result.message.parts] == ["Let me", "Hi"]


def test_finish_reasons_are_ours():
    """Each integration has its own key and its own word."""
    told = [
        {"finish_reason": "STOP"},
        {"stop_reason": "end_turn"},
        {"done_reason": "length"},
        {"stop_reason": "refusal"},
    ]
    words = [finish_reason(AIMessage(content="", response_metadata=t), has_calls=False) for t in told]
    assert words == ["stop", "stop", "length", "refusal"]
    assert finish_reason(AIMessage(content=""), has_calls=False) is None


async def test_options_are_set_where_the_class_has_them():
    """Fields of the class, arguments of the request; and a warning for what it cannot be asked."""
    made, model = provider(AIMessage("Hi."))
    options = ChatOptions(temperature=0, seed=1, stop=("X",), tools=(FUNCTION,), tool_choice="required", extra={"k": 1})
    result = await made.generate_chat(HI, "m", options)
    _, kwargs, temperature = model.asked[0]
    assert temperature == 0
    assert kwargs == {"stop": ["X"], "tools": [FUNCTION], "tool_choice": "any", "k": 1}
    assert result.warnings == ("Scripted has no seed: it is left out",)


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        (ChatOptions(reasoning=Reasoning(effort="low", budget_tokens=9, summary=True)), 3),
        (ChatOptions(response_format=ResponseFormat(schema={"type": "object"})), 1),
        (ChatOptions(tools=(FUNCTION,), parallel_tool_calls=False), 1),
        (ChatOptions(tools=(FUNCTION,), tool_choice="none"), 0),
    ],
)
def test_what_a_class_cannot_be_asked_is_warned_of(options, warns):
    assert len(prepared(Scripted(script=[], asked=[]), options).warnings) == warns


def test_options_of_the_classes_that_are_known():
    """ChatOllama and ChatAnthropic under their own names."""
    ollama = ChatOllama(model="m")
    ready = prepared(ollama, ChatOptions(max_tokens=5, seed=3, reasoning=Reasoning(effort="low")))
    assert (ready.runnable.num_predict, ready.runnable.seed, ready.runnable.reasoning) == (5, 3, True)
    assert (ollama.num_predict, ready.warnings) == (None, ())
    claude = ChatAnthropic(model="claude-test", api_key="key")
    form = ResponseFormat(name="n", schema={"type": "object", "properties": {}}, strict=True)
    ready = prepared(claude, ChatOptions(max_tokens=5, top_p=0.5, response_format=form, extra={"k": 1}))
    assert (ready.runnable.max_tokens, ready.runnable.top_p, ready.warnings) == (5, 0.5, ())
    assert ready.arguments["extra_body"] == {"k": 1}
    assert ready.arguments["response_format"]["json_schema"]["name"] == "n"
    assert prepared(claude, ChatOptions(response_format=ResponseFormat(type="json_object"))).warnings


async def test_a_class_without_tools_says_so():
    """BaseChatModel.bind_tools is not implemented: one sentence, and the kind by which the router knows it."""
    made = LangChainProvider(LangChainConfig(class_path="langchain_core.language_models:GenericFakeChatModel"))
    made._make = lambda name: GenericFakeChatModel(messages=iter(["Hi"]))
    with pytest.raises(ProviderRequestError, match="takes no tools") as caught:
        await made.generate_chat(HI, "m", ChatOptions(tools=(FUNCTION,)))
    assert caught.value.kind == "unsupported_tools"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_package_x:Chat", "cannot be imported .*pip install no-such-package-x"),
        ("langchain_ollama:ChatOlama", "langchain_ollama has no ChatOlama"),
        ("os:system", "is not a LangChain chat model"),
        ("langchain_core.messages:AIMessage", "is not a LangChain chat model"),
        ("langchain_core.messages", "must be a module and a class in it"),
        ("../evil:X", "must be a module and a class in it"),
        ("os:system('x')", "must be a module and a class in it"),
    ],
)
def test_a_class_that_cannot_be_used_is_told_when_the_config_is_read(path, words):
    table = {"llms": {"x": {"provider": "langchain", "class_path": path}}, "responses": [{"llm": "x", "model": "m"}]}
    with pytest.raises(ConfigError, match=words):
        FlexChat.from_config(table)


@pytest.mark.slow
def test_a_misspelt_name_is_told_with_the_right_one():
    """LangChain drops a setting it does not know, or hands it to the service; and nobody is sent to install a typo."""
    for path, settings, words in (
        ("langchain_core.language_models:GenericFakeChatModl", {}, "did you mean 'GenericFakeChatModel'"),
        ("langchain_ollma:ChatOllama", {}, "did you mean 'langchain_ollama'"),
        ("langchain_ollama.chat:ChatOllama", {}, "No module named 'langchain_ollama.chat'"),
        ("langchain_ollama:ChatOllama", {"baseurl": "http://h"}, "did you mean 'base_url'"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            LangChainProvider(LangChainConfig(class_path=path, settings=settings))
        assert "pip" not in str(caught.value)
    with pytest.raises(ValueError, match="is not a LangChain chat model"):
        LangChainProvider(LangChainConfig(class_path="langchain_core.language_models:BaseChatModel"))


async def test_a_setting_that_is_dropped_is_told_with_every_answer():
    """Classes of LangChain say nothing of what they do not know, such as max_tokens for ChatOllama's num_predict."""
    made, _ = provider(AIMessage("Hi."), settings={"model": "m", "max_tokens": 5})
    result = await made.generate_chat(HI, "m", ChatOptions())
    assert result.warnings == ("settings: GenericFakeChatModel has no 'max_tokens': it is left out",)


async def test_settings_that_do_not_fit_are_told_without_the_key():
    """pydantic shows the value it refuses, which may be a key: it is masked."""
    settings = {"api_key": "sk-secret-0123456789", "max_tokens": "many sk-secret-0123456789"}
    chat = FlexChat.from_model("langchain/m", class_path="langchain_anthropic:ChatAnthropic", settings=settings)
    async with chat:
        with pytest.raises(ProviderRequestError) as caught:
            await chat.respond("Hi")
    assert "sk-secret" not in f"{caught.value}{caught.value!r}{vars(caught.value)}"
    assert str(caught.value).startswith("ChatAnthropic does not take these settings: max_tokens: Input should be")


def test_secrets_are_in_no_repr():
    config = LangChainConfig(class_path="langchain_ollama:ChatOllama", settings={"api_key": "sk-secret-0123456789"})
    assert "sk-secret" not in repr(config) + repr(LangChainProvider(config))


async def test_models_are_those_that_are_known():
    """LangChain cannot ask: the one of the settings, and those asked so far; its address is the endpoint."""
    made, _ = provider(AIMessage("Hi."), settings={"model": "one", "base_url": "http://u:p@h.example:99/v1"})
    assert made.endpoint == "http://h.example:99"
    await made.generate_chat(HI, "two", ChatOptions())
    assert [model.id for model in await made.list_models()] == ["one", "two"]
    await made.aclose()
    assert [model.id for model in await made.list_models()] == ["one"]


async def test_silence_is_a_timeout():
    """timeout_s counts where the caller sets none."""

    class Silent(Scripted):
        async def _agenerate(self, *args, **kwargs):
            await asyncio.Event().wait()

    config = LangChainConfig(class_path="langchain_core.language_models:GenericFakeChatModel", timeout_s=0.02)
    made = LangChainProvider(config, make=lambda name: Silent(script=[], asked=[]))
    with pytest.raises(ProviderTimeoutError, match="no whole answer in time"):
        await made.generate_chat(HI, "m", ChatOptions())


@tool
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@pytest.mark.parametrize("kind", ["ollama", "anthropic"])
async def test_a_whole_turn_over_a_langchain_model(kind, replaying, reply):
    """FlexChat's own loop over ChatOllama and ChatAnthropic: the class, its settings, a tool, an answer."""
    server = replaying(reply("Let me see.", [("double", {"n": 21})]), reply("It is 42."))
    cls = {"ollama": "ChatOllama", "anthropic": "ChatAnthropic"}[kind]
    settings = {"base_url": server.url, **({"api_key": "key-0815"} if kind == "anthropic" else {})}
    path = f"langchain_{kind}:{cls}"
    async with FlexChat.from_model("langchain/m-1", tools=[double], class_path=path, settings=settings) as chat:
        turn = await chat.respond("Twice 21?")
    assert turn.content == "It is 42."
    assert [record.result.result for record in turn.response.tool_calls] == [42]
    assert turn.response.usage.input_tokens == 22
    assert server.bodies[0]["model"] == "m-1"


@pytest.mark.slow
def test_nothing_of_langchain_is_loaded_before_it_is_used():
    """Neither flexchat nor any plugin imports LangChain: installing this package changes nothing for others."""
    code = (
        "import sys, flexchat\n"
        "from flexchat.assembly import installed_plugins\n"
        "assert not [m for m in sys.modules if m.startswith('flexchat_')]\n"
        "host = installed_plugins()\n"
        "assert 'langchain' in host.providers.by_name\n"
        "print([m for m in sys.modules if m.startswith(('langchain', 'langgraph', 'anthropic', 'ollama', 'pydantic'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_instructions_in_the_middle_join_those_at_the_start():
    """ChatAnthropic refuses them anywhere else."""
    said = [SystemMessage(content="A."), *HI, SystemMessage(content="B."), SystemMessage(content="")]
    assert [(m.type, m.content) for m in as_sent(said, HERE)] == [("system", "A.\n\nB."), ("human", "Hi")]


def test_a_refusal_is_one():
    """ChatOpenAI keeps the model's words for "no" beside an empty text."""
    message = assistant_message(AIMessage(content="", additional_kwargs={"refusal": "I will not."}))
    assert (message.content, message.refusal) == (None, "I will not.")


def test_an_assistant_that_said_nothing_is_left_out():
    """Services refuse an empty message."""
    assert as_sent([AssistantMessage(), AssistantMessage(parts=(ReasoningPart(text="Hm."),))], HERE) == []


CLASSES = {"profiled": "langchain_anthropic:ChatAnthropic", "other": "langchain_ollama:ChatOllama"}


def limited(which, **settings):
    config = LangChainConfig(class_path=CLASSES[which], settings=settings)
    return LangChainProvider(config).media_limits("claude-sonnet-4-5" if which == "profiled" else "llama3.2")


@pytest.mark.parametrize(
    ("which", "settings", "kinds"),
    [
        ("profiled", {}, {"image", "document"}),
        ("profiled", {"profile": {"image_inputs": False, "pdf_inputs": False}}, {"audio", "video"}),
        ("other", {}, {"image", "document", "audio", "video"}),
        ("other", {"profile": {"image_inputs": False, "audio_inputs": True}}, {"document", "audio", "video"}),
        ("other", {"profile": "none"}, {"image", "document", "audio", "video"}),
    ],
)
def test_limits_of_media_are_those_of_langchains_profile(which, settings, kinds):
    """No request, and no model, is needed; what it does not state is accepted."""
    limits = limited(which, **settings)

    assert {kind_of(each) for each in limits.types} == kinds
    assert bool(limits.source) == (len(kinds) < 4)


async def test_a_profile_keeps_media_from_being_sent():
    """Of the model itself, once there is one; before the request, with the file and the source."""
    llm, model = provider(AIMessage("Seen."), settings={"profile": {"image_inputs": False}})
    rule = {"llm": "m", "model": "x"}
    config = {"llms": {"m": {"provider": "scripted"}}, "responses": [rule]}
    png = b"\x89PNG\r\n\x1a\n" + bytes(40)
    async with FlexChat.from_config(config, providers={"m": llm}) as chat:
        with pytest.raises(MediaLimitError, match=r"image/png.* cannot be sent to m/x: .*LangChain's profile"):
            await chat.respond("Look.", attachments=png)
        assert model.asked == []
        await chat.respond("Hi")
        assert len(model.asked) == 1
        model.profile, model.script = {"image_inputs": True}, [AIMessage("Seen.")]
        await chat.respond("Look.", attachments=png)
        assert len(model.asked) == 2
