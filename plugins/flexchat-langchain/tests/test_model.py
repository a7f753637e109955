"""A whole FlexChat as a chat model of LangChain's."""

import asyncio
import json
import threading

import attrs
import pytest
from flexchat import (
    ChatClosedError,
    ChatRequestError,
    ConfigError,
    FlexChat,
    NoMatchingRuleError,
    ProviderError,
    ResponseFormatError,
    SyncFlexChat,
    tool,
)
from flexchat.assembly import Parts, installed_plugins
from flexchat.llms.llm import Llms
from flexchat.plugin import ChatResult, ToolCall
from flexchat_langchain.model import FlexChatModel
from flexchat_sdk import (
    AssistantMessage,
    MediaPart,
    ProviderData,
    ProviderRateLimitError,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    Usage,
    UserMessage,
)
from flexchat_testing import ScriptedProvider
from flexchat_testing.scripted import calls, says
from langchain_core import messages as lc
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.load import dumps
from langchain_core.tools import tool as lc_tool
from pydantic import BaseModel, ValidationError

CONFIG = {
    "llms": {"it": {"provider": "scripted", "default_model": "m"}},
    "responses": [{"llm": "it", "tools": {"enabled": True}}],
}
PLUGINS = installed_plugins()
USAGE = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=4, reasoning_tokens=2)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@lc_tool
def get_weather(city: str) -> str:
    """Get the weather."""
    raise AssertionError("the caller runs it, not FlexChat")


@pytest.fixture
def model_of():
    """Put together a model whose service says these replies, and that service."""
    made = []

    def put_together(*replies, config=CONFIG, tools=(add,), **rest):
        service = ScriptedProvider(replies)
        made.append(SyncFlexChat.from_config(config, providers={"it": service}, plugins=PLUGINS, tools=tools))
        return FlexChatModel(chat=made[-1], **rest), service

    yield put_together
    for chat in made:
        chat.close()


def summed(chunks):
    total = None
    for chunk in chunks:
        total = chunk if total is None else total + chunk
    return total


def shape(messages):
    """Roles, with the names of calls."""
    return [f"{m.role} {' '.join(c.name for c in getattr(m, 'tool_calls', ()))}".strip() for m in messages]


def test_an_answer_is_that_of_the_turn(model_of):
    """Text, tokens, and how it came about."""
    model, _ = model_of(says("Hello.", usage=USAGE, model="m-2024"))
    answer = model.invoke("hi")
    assert (answer.content, answer.tool_calls) == ("Hello.", [])
    assert answer.usage_metadata == {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_token_details": {"cache_read": 4},
        "output_token_details": {"reasoning": 2},
    }
    metadata = answer.response_metadata
    assert (metadata["finish_reason"], metadata["model_name"]) == ("stop", "m")
    assert metadata["flexchat"]["service"] == "it"
    assert (metadata["flexchat"]["rule"], metadata["flexchat"]["warnings"]) == (0, [])
    assert len(metadata["flexchat"]["id"]) == 32
    assert answer.additional_kwargs == {}


def test_own_tools_run_inside(model_of):
    """A caller sees no call of them, but what they did."""
    model, _ = model_of(calls(("add", {"a": 1, "b": 2}), text="Let me see."), "It is 3.")
    answer = model.invoke("1 + 2?")
    assert (answer.content, answer.tool_calls) == ("It is 3.", [])
    (record,) = answer.response_metadata["flexchat"]["tool_calls"]
    assert (record["tool"], record["result"]["result"]) == ("add", 3)


def test_what_was_done_inside_comes_back_in_the_next_turn(model_of):
    """Nothing of a turn is lost, as in FlexChat's own history."""
    model, service = model_of(calls(("add", {"a": 1, "b": 2})), "It is 3.", "Yes.", "Yes.")
    question = lc.HumanMessage("1 + 2?")
    answer = model.invoke([question])
    model.invoke([question, answer, lc.HumanMessage("Sure?")])
    told = ["user", "assistant add", "tool", "assistant", "user"]
    assert shape(service.requests[-1].messages) == told
    # LangChain's stores keep messages as JSON.
    kept = lc.messages_from_dict(json.loads(json.dumps(lc.messages_to_dict([question, answer]))))
    model.invoke([*kept, lc.HumanMessage("Sure?")])
    assert shape(service.requests[-1].messages) == told


def test_a_call_of_a_bound_tool_is_for_the_caller(model_of):
    """It comes as tool_calls, id and all, and does not run (LC-3, LC-12)."""
    model, service = model_of(calls(("get_weather", {"city": "Rome"}), text="Let me look.", usage=USAGE))
    answer = model.bind_tools([get_weather]).invoke("Rome?")
    (call,) = answer.tool_calls
    assert (call["name"], call["args"], call["type"]) == ("get_weather", {"city": "Rome"}, "tool_call")
    assert call["id"].startswith("call_")
    assert answer.content == "Let me look."
    assert answer.response_metadata["finish_reason"] == "tool_calls"
    assert answer.response_metadata["model_name"] == "m"
    assert answer.usage_metadata["total_tokens"] == 15
    assert [t["function"]["name"] for t in service.requests[0].options.tools] == ["add", "get_weather"]


def test_results_of_the_caller_go_to_the_model(model_of):
    """Behind the question, in order, paired with their calls (LC-5, LC-6, LC-13)."""
    model, service = model_of(calls(("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Oslo"})), "Warm.")
    bound = model.bind_tools([get_weather])
    question = lc.HumanMessage("Rome and Oslo?")
    asked = bound.invoke([question])
    results = [
        lc.ToolMessage(content=f"{call['args']['city']}: 20", tool_call_id=call["id"], status=status)
        for call, status in zip(asked.tool_calls, ("success", "error"), strict=True)
    ]
    assert bound.invoke([question, asked, *results]).content == "Warm."
    sent = service.requests[-1].messages
    assert shape(sent) == ["user", "assistant get_weather get_weather", "tool", "tool"]
    assert [(m.content, m.is_error, m.name) for m in sent[2:4]] == [
        ("Rome: 20", False, "get_weather"),
        ("Oslo: 20", True, "get_weather"),
    ]
    assert [call.id for call in sent[1].tool_calls] == [m.tool_call_id for m in sent[2:4]]


def test_own_and_bound_tools_work_in_one_turn(model_of):
    """Own ones run before the caller gets its call, and what they did is not lost."""
    model, service = model_of(
        calls(("add", {"a": 1, "b": 2})), calls(("get_weather", {"city": "Rome"}), usage=USAGE), "3 and warm."
    )
    bound = model.bind_tools([get_weather])
    question = lc.HumanMessage("1 + 2, and Rome?")
    asked = bound.invoke([question])
    assert [c["name"] for c in asked.tool_calls] == ["get_weather"]
    (record,) = asked.response_metadata["flexchat"]["tool_calls"]
    assert record["result"]["result"] == 3
    result = lc.ToolMessage(content="warm", tool_call_id=asked.tool_calls[0]["id"])
    assert bound.invoke([question, asked, result]).content == "3 and warm."
    assert shape(service.requests[-1].messages) == [
        "user",
        "assistant add",
        "tool",
        "assistant get_weather",
        "tool",
    ]


def test_an_own_call_beside_a_bound_one_is_left_out(model_of):
    """The model asks for it again; no call is without its answer."""
    model, service = model_of(calls(("add", {"a": 1, "b": 2}), ("get_weather", {"city": "Rome"})), "Warm.")
    bound = model.bind_tools([get_weather])
    asked = bound.invoke("both")
    assert [c["name"] for c in asked.tool_calls] == ["get_weather"]
    assert asked.response_metadata["flexchat"]["warnings"] == ["a call of add beside the caller's tools was left out"]
    bound.invoke([lc.HumanMessage("both"), asked, lc.ToolMessage("warm", tool_call_id=asked.tool_calls[0]["id"])])
    assert shape(service.requests[-1].messages) == ["user", "assistant get_weather", "tool"]


def test_the_callers_tool_goes_before_one_of_the_same_name(model_of):
    """So that an agent may be given FlexChat's tools and the FlexChat they are of."""

    @lc_tool("add")
    def other(a: int, b: int) -> int:
        """Add otherwise."""
        return 0

    model, service = model_of(calls(("add", {"a": 1, "b": 2})))
    assert [c["name"] for c in model.bind_tools([other]).invoke("1 + 2").tool_calls] == ["add"]
    assert [t["function"]["description"] for t in service.requests[0].options.tools] == ["Add otherwise."]


def test_a_bound_call_that_cannot_be_read_never_reaches_the_caller(model_of):
    """FlexChat answers it, and the model writes it again."""
    model, service = model_of(calls(("get_weather", '{"city": "Ro')), calls(("get_weather", {"city": "Rome"})))
    answer = model.bind_tools([get_weather]).invoke("Rome?")
    assert [c["args"] for c in answer.tool_calls] == [{"city": "Rome"}]
    assert answer.invalid_tool_calls == []
    assert "Invalid tool arguments" in service.requests[1].messages[-1].content


def test_of_a_filtered_answer_nothing_runs(model_of):
    model, _ = model_of(calls(("get_weather", {"city": "Rome"}), finish_reason="content_filter"))
    answer = model.bind_tools([get_weather]).invoke("Rome?")
    assert (answer.tool_calls, answer.response_metadata["finish_reason"]) == ([], "content_filter")


@pytest.mark.parametrize(
    ("choice", "offered", "sent"),
    [
        (None, ["add", "get_weather", "book"], "auto"),
        ("auto", ["add", "get_weather", "book"], "auto"),
        ("any", ["get_weather", "book"], "required"),
        ("required", ["get_weather", "book"], "required"),
        (True, ["get_weather", "book"], "required"),
        ({"type": "any"}, ["get_weather", "book"], "required"),
        ("book", ["book"], "required"),
        ({"type": "function", "function": {"name": "book"}}, ["book"], "required"),
        ({"type": "tool", "name": "book"}, ["book"], "required"),
        ("none", ["add"], "auto"),
    ],
)
def test_tool_choice(model_of, choice, offered, sent):
    """A choice that forces a call means the caller's tools; "none" leaves FlexChat its own."""

    @lc_tool
    def book(nights: int) -> str:
        """Book."""
        return ""

    model, service = model_of("ok")
    model.bind_tools([get_weather, book], tool_choice=choice).invoke("hi")
    options = service.requests[0].options
    assert ([t["function"]["name"] for t in options.tools], options.tool_choice) == (offered, sent)


def test_a_choice_of_no_tool_is_refused(model_of):
    model, _ = model_of()
    with pytest.raises(ChatRequestError, match=r"'get_wether' \(did you mean 'get_weather'\?\)"):
        model.bind_tools([get_weather], tool_choice="get_wether").invoke("hi")
    with pytest.raises(ChatRequestError, match="'web_search_preview' is not a function"):
        model.bind_tools([{"type": "web_search_preview"}]).invoke("hi")


def test_options_go_before_those_of_the_rule(model_of):
    model, service = model_of("a", "b", temperature=0.5, stop=["END"])
    model.invoke("hi")
    model.invoke("hi", temperature=0.0, max_tokens=7, model="other", stop=["X"], top_p=0.3, seed=3)
    first, second = service.requests
    assert (first.model, first.options.temperature, first.options.stop) == ("m", 0.5, ("END",))
    assert (second.model, second.options.temperature, second.options.stop) == ("other", 0.0, ("X",))
    assert (second.options.max_tokens, second.options.top_p, second.options.seed) == (7, 0.3, 3)


def test_options_nobody_reads_are_told(model_of):
    model, _ = model_of("a")
    assert model.invoke("hi", logit_bias={}).response_metadata["flexchat"]["warnings"] == [
        "logit_bias is ignored: the rule that answers decides it"
    ]


def test_parallel_tool_calls_reach_the_service(model_of):
    model, service = model_of("a")
    model.bind_tools([get_weather], parallel_tool_calls=False).invoke("hi")
    assert service.requests[0].options.parallel_tool_calls is False


PHASES = {
    "llms": {"it": {"provider": "scripted", "default_model": "m"}},
    "topic": {"llm": "it"},
    "responses": [
        {"llm": "it", "prompt": "About {{topic}}, said of: {{user_message}}"},
    ],
}


def test_the_phases_run_with_bound_tools_too(model_of):
    """Topic and prompt are those of the turn; what a user writes is no variable."""
    model, service = model_of(
        "travel", calls(("get_weather", {"city": "Rome"})), "travel", "ok", config=PHASES, tools=()
    )
    asked = model.bind_tools([get_weather]).invoke("Rome {{topic}}?")
    assert asked.response_metadata["flexchat"]["topic"] == "travel"
    assert service.requests[1].messages[0] == SystemMessage(content="About travel, said of: Rome {{topic}}?")
    # The next turn knows what the conversation was about.
    model.invoke(
        [lc.HumanMessage("Rome?"), lc.AIMessage("ok", response_metadata=asked.response_metadata), lc.HumanMessage("x")]
    )
    assert "travel" in service.requests[2].messages[-1].content


async def test_no_rule_that_fits_is_an_error(model_of):
    model, service = model_of()
    chat = model.chat.chat
    rule = attrs.evolve(chat.config.responses[0], match={"topic": "never"})
    config = attrs.evolve(chat.config, responses=(rule,))
    other = FlexChat(Parts(config=config, llms=Llms.from_providers({"it": service}), tools=chat.tools))
    for asked in (FlexChatModel(chat=other), FlexChatModel(chat=other).bind_tools([get_weather])):
        with pytest.raises(NoMatchingRuleError):
            await asked.ainvoke("hi")


def test_system_messages_stand_where_they_stood(model_of):
    model, service = model_of("ok", config={**CONFIG, "responses": [{"llm": "it", "prompt": "P"}]}, tools=())
    model.invoke([lc.SystemMessage("Be brief."), lc.HumanMessage("hi")])
    assert service.requests[0].messages == (
        SystemMessage(content="P"),
        SystemMessage(content="Be brief."),
        UserMessage(content="hi"),
    )


def test_pictures_of_the_question_reach_the_model(model_of):
    model, service = model_of("A cat.")
    blocks = [{"type": "text", "text": "What is it?"}, {"type": "image", "base64": "aGk=", "mime_type": "image/png"}]
    model.invoke([lc.HumanMessage(blocks)])
    first = service.requests[0].messages[0]
    assert first.media == (MediaPart(kind="image", mime_type="image/png", data=b"hi"),)


@pytest.mark.parametrize("messages", [[], [lc.SystemMessage("x")], [lc.AIMessage("x")]])
def test_a_question_is_a_users(model_of, messages):
    model, _ = model_of()
    with pytest.raises(ChatRequestError, match="contain no user message"):
        model.invoke(messages)
    with pytest.raises(ChatRequestError, match="the message is empty"):
        model.invoke([*messages, lc.HumanMessage("  ")])


def test_trouble_of_a_service_is_raised_as_it_is(model_of):
    model, _ = model_of(*[ProviderRateLimitError("slow down", kind="quota", provider="it")] * 3)
    for ask in (model.invoke, model.bind_tools([get_weather]).invoke, lambda text: [*model.stream(text)]):
        with pytest.raises(ProviderError, match="slow down"):
            ask("hi")


# Streams


def replies():
    return calls(("add", {"a": 1, "b": 2}), text="Let me see.", usage=USAGE), says("It is 3.", usage=USAGE)


async def test_a_stream_comes_to_what_is_returned_whole(model_of):
    """But for the texts beside own calls, which are streamed as they come."""
    model, _ = model_of(*replies(), *replies(), *replies())
    whole, streamed = model.invoke("1 + 2?"), summed(model.stream("1 + 2?"))
    astreamed = summed([chunk async for chunk in model.astream("1 + 2?")])
    for total in (streamed, astreamed):
        assert total.content == "Let me see.\n\nIt is 3."
        assert (total.tool_calls, total.usage_metadata) == ([], whole.usage_metadata)
        assert total.response_metadata.keys() == whole.response_metadata.keys()
        assert total.chunk_position == "last"
    assert whole.usage_metadata["total_tokens"] == 30


def test_a_streamed_answer_goes_back_without_saying_things_twice(model_of):
    model, service = model_of(*replies(), "Yes.")
    answer = summed(model.stream("1 + 2?"))
    model.invoke([lc.HumanMessage("1 + 2?"), answer, lc.HumanMessage("Sure?")])
    sent = service.requests[-1].messages
    assert shape(sent) == ["user", "assistant add", "tool", "assistant", "user"]
    assert (sent[1].content, sent[3].content) == ("Let me see.", "It is 3.")


def test_an_answer_may_begin_with_what_was_said_before(model_of):
    """It is told from a streamed one, and nothing of it is lost."""
    model, service = model_of(calls(("add", {"a": 1, "b": 2}), text="It is"), "It is\n\nIt is 3.", "Yes.")
    answer = model.invoke("1 + 2?")
    model.invoke([lc.HumanMessage("1 + 2?"), answer, lc.HumanMessage("Sure?")])
    assert [m.content for m in service.requests[-1].messages[1:4:2]] == ["It is", "It is\n\nIt is 3."]


def test_a_bound_call_is_streamed_whole(model_of):
    """Once the model has ended, as it may be no call for the caller before."""
    model, service = model_of(calls(("get_weather", {"city": "Rom\u00e9"}), text="Let me look.", usage=USAGE), "Warm.")
    bound = model.bind_tools([get_weather])
    chunks = [*bound.stream("Rome?")]
    assert [c.tool_call_chunks for c in chunks[:-1]] == [[]] * (len(chunks) - 1)
    total = summed(chunks)
    assert [c["args"] for c in total.tool_calls] == [{"city": "Rom\u00e9"}]
    assert (total.content, total.usage_metadata["total_tokens"]) == ("Let me look.", 15)
    result = lc.ToolMessage("warm", tool_call_id=total.tool_calls[0]["id"])
    assert bound.invoke([lc.HumanMessage("Rome?"), total, result]).content == "Warm."
    assert shape(service.requests[-1].messages) == ["user", "assistant get_weather", "tool"]


def test_tokens_are_told_to_callbacks(model_of):
    heard = []

    class Hearing(BaseCallbackHandler):
        def on_llm_new_token(self, token, **rest):
            heard.append(token)

    model, _ = model_of("one two")
    [*model.stream("hi", config={"callbacks": [Hearing()]})]
    assert "".join(heard) == "one two"


@pytest.mark.parametrize("bound", [False, True])
def test_leaving_a_stream_early_ends_the_turn(model_of, bound):
    """No tool runs, no further request is made."""
    model, service = model_of(*replies())
    stream = (model.bind_tools([get_weather]) if bound else model).stream("1 + 2?")
    assert next(stream).content
    stream.close()
    assert len(service.requests) == 1


# Loops and threads


async def test_it_is_asked_from_any_loop_and_thread(model_of):
    """Here from a running loop without and with await, from threads, and from another loop."""
    model, _ = model_of(*["ok"] * 6)
    assert model.invoke("hi").content == "ok"
    assert (await model.ainvoke("hi")).content == "ok"
    assert [a.content for a in model.batch(["a", "b"])] == ["ok", "ok"]
    assert (await asyncio.to_thread(model.invoke, "hi")).content == "ok"
    assert await asyncio.to_thread(asyncio.run, model.ainvoke("hi"))


async def test_a_flexchat_is_asked_on_the_loop_of_its_callers():
    loops = []

    def reply(messages, options):
        loops.append(asyncio.get_running_loop())
        return "ok"

    service = ScriptedProvider([reply], repeat=True)
    async with FlexChat.from_config(CONFIG, providers={"it": service}, plugins=PLUGINS) as chat:
        await FlexChatModel(chat=chat).ainvoke("hi")
    assert loops == [asyncio.get_running_loop()]


async def test_cancelling_a_call_cancels_its_turn(model_of):
    ended = threading.Event()
    begun = threading.Event()

    async def wait(messages, options):
        begun.set()
        try:
            await asyncio.sleep(20)
        finally:
            ended.set()

    model, _ = model_of(wait)
    task = asyncio.create_task(model.ainvoke("hi"))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 5)


# Answers of a form


class City(BaseModel):
    """A city."""

    name: str
    people: int


ROME = '{"name": "Rome", "people": 3}'


@pytest.mark.parametrize("schema", [City, City.model_json_schema()])
def test_an_answer_has_the_form(model_of, schema):
    """The service is told the schema; an answer of another form is asked for again."""
    model, service = model_of('{"name": "Rome"}', ROME)
    answer = model.with_structured_output(schema, strict=True).invoke("Rome?")
    assert answer == (City(name="Rome", people=3) if schema is City else {"name": "Rome", "people": 3})
    asked = service.requests[0].options.response_format
    assert (asked.name, asked.strict, [*asked.schema["properties"]]) == ("City", True, ["name", "people"])
    assert len(service.requests) == 2


def test_a_form_comes_in_one_piece(model_of):
    model, _ = model_of("no JSON", ROME)
    assert [*model.with_structured_output(City).stream("Rome?")] == [City(name="Rome", people=3)]


def test_the_raw_answer_can_be_had_too(model_of):
    model, _ = model_of(ROME)
    answer = model.with_structured_output(City, include_raw=True).invoke("Rome?")
    assert (answer["raw"].content, answer["parsed"].name, answer["parsing_error"]) == (ROME, "Rome", None)


def test_json_mode_tells_of_what_is_not_the_class(model_of):
    model, service = model_of('{"other": 1}', ROME)
    structured = model.with_structured_output(City, method="json_mode", include_raw=True)
    answer = structured.invoke("Rome?")
    assert (answer["parsed"], type(answer["parsing_error"]).__name__) == (None, "OutputParserException")
    assert service.requests[0].options.response_format.type == "json_object"
    assert structured.invoke("Rome?")["parsed"].people == 3


def test_function_calling_is_a_bound_tool(model_of):
    model, service = model_of(calls(("City", {"name": "Rome", "people": 3})))
    assert model.with_structured_output(City, method="function_calling").invoke("Rome?") == City(name="Rome", people=3)
    assert service.requests[0].options.tool_choice == "required"


def test_an_answer_that_never_has_the_form_is_an_error(model_of):
    model, _ = model_of(*["no JSON"] * 4)
    with pytest.raises(ResponseFormatError):
        model.with_structured_output(City).invoke("Rome?")


def test_what_with_structured_output_does_not_know_it_says(model_of):
    model, _ = model_of()
    with pytest.raises(ValueError, match="not 'json'"):
        model.with_structured_output(City, method="json")
    with pytest.raises(ValueError, match="does not know tools"):
        model.with_structured_output(City, tools=[])


# Being put together


def test_a_configuration_alone_is_enough(tmp_path):
    file = tmp_path / "chat.toml"
    file.write_text(
        '[llms.it]\nprovider = "scripted"\nreplies = [{ text = "hello" }]\n[[responses]]\nllm = "it"\nmodel = "m"\n'
    )
    for config in (file, str(file)):
        model = FlexChatModel(config=config)
        assert model.invoke("hi").content == "hello"
        model.close()
        with pytest.raises(ChatClosedError, match="is closed"):
            model.invoke("hi")


def test_closing_leaves_a_chat_that_was_handed_over(model_of):
    model, _ = model_of("ok")
    model.close()
    assert model.invoke("hi").content == "ok"


def test_what_is_wrong_with_a_configuration_is_said_at_once():
    with pytest.raises(ConfigError, match=r"responses\[0\]"):
        FlexChatModel(config={"llms": {"it": {"provider": "scripted"}}, "responses": [{"llm": "other"}]})


@pytest.mark.parametrize("given", [{}, {"config": CONFIG, "chat": "x"}, {"config": None}])
def test_either_a_configuration_or_a_chat_is_given(given):
    with pytest.raises(ValidationError, match="either config= "):
        FlexChatModel(**given)


def test_an_argument_that_is_none_is_refused(model_of):
    model, _ = model_of()
    with pytest.raises(ValidationError, match="temprature"):
        FlexChatModel(chat=model.chat, temprature=0)


def test_it_is_traced_as_what_it_is_and_without_secrets():
    """LangChain's traces and caches tell configurations apart, and show none."""
    config = {
        "llms": {"it": {"provider": "openai", "api_key": "sk-very-secret-1", "default_model": "m"}},
        "responses": [{"llm": "it"}],
    }
    model = FlexChatModel(config=config)
    other = FlexChatModel(config={**config, "responses": [{"llm": "it", "prompt": "P"}]})
    shown = f"{model!r} {dumps(model)} {model.asdict()} {model._get_llm_string()} {model._get_ls_params()}"
    assert "very-secret" not in shown
    assert model._get_llm_string() != other._get_llm_string()
    assert model._get_llm_string() == FlexChatModel(config=config)._get_llm_string()


# What was said


def test_opaque_data_of_a_service_goes_back_with_the_next_question(model_of):
    """Signatures survive the way through LangChain's messages, as long as nobody changes what was said."""
    data = ProviderData(scope="x", origin="y", data={"signature": "s"})
    thought = ReasoningPart(text="hm", provider_data=data)
    said = AssistantMessage(parts=(thought, TextPart(text="Hello.")))
    model, service = model_of(ChatResult(message=said, finish_reason="stop"), "ok", "ok")
    answer = model.invoke("hi")
    assert answer.content == "Hello."
    model.invoke([lc.HumanMessage("hi"), answer, lc.HumanMessage("more")])
    assert service.requests[-1].messages[1] == said
    changed = answer.model_copy(update={"content": "Goodbye."})
    model.invoke([lc.HumanMessage("hi"), changed, lc.HumanMessage("more")])
    assert service.requests[-1].messages[1].content == "Goodbye."


@pytest.mark.parametrize("broken", [[{"role": "x"}], "x", [1], {"a": 1}, None, [[]]])
def test_what_cannot_be_read_of_the_inside_is_left_out(model_of, broken):
    model, service = model_of("ok")
    answer = lc.AIMessage("It is 3.", additional_kwargs={"flexchat_inside": broken, "flexchat_message": broken})
    model.invoke([lc.HumanMessage("hi"), answer, lc.HumanMessage("more")])
    assert shape(service.requests[-1].messages) == ["user", "assistant", "user"]


def test_calls_and_results_of_other_models_are_understood(model_of):
    """A conversation begun elsewhere goes on here: ids are kept, or made where there are none."""
    model, service = model_of("ok")
    history = [
        lc.HumanMessage("Rome?"),
        lc.AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Rome"}, "id": "c1"}]),
        lc.ToolMessage("warm", tool_call_id="c1"),
        lc.AIMessage("Warm."),
        lc.HumanMessage("Thanks."),
    ]
    model.invoke(history)
    sent = service.requests[0].messages
    assert shape(sent) == ["user", "assistant get_weather", "tool", "assistant", "user"]
    assert sent[2] == ToolMessage(tool_call_id="c1", name="get_weather", content="warm")
    assert isinstance(sent[1].parts[0], ToolCall)


def test_a_result_with_a_wrong_id_is_told(model_of):
    """The call gets an error in its place, and whoever wrote the id learns of it."""
    model, service = model_of(says("Sorry."))
    call = {"name": "get_weather", "args": {"city": "Rome"}, "id": "c1"}
    answer = model.bind_tools([get_weather]).invoke(
        [lc.HumanMessage("Rome?"), lc.AIMessage("", tool_calls=[call]), lc.ToolMessage("warm", tool_call_id="c2")]
    )
    told = answer.response_metadata["flexchat"]["warnings"]
    assert any("had no result" in text for text in told)
    assert any("belongs to no call" in text for text in told)
    assert service.requests[-1].messages[-1].is_error
