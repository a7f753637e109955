"""What a LangChain model answers is read by the same rule as the services' own JSON."""

import pytest
from flexchat_langchain.answers import ChunkDraft, assistant_message, finish_reason, raw_finish, usage_of
from flexchat_langchain.config import LangChainConfig
from flexchat_langchain.provider import LangChainProvider
from flexchat_sdk import AnswerEnd, ChatOptions, ProviderProtocolError, TextDelta, TextPart, UserMessage
from flexchat_sdk.http.answer_shape import WrongShape
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

WRONG = (None, True, 7, 1.5, "x", [1], {"a": 1})
CALL = {"id": "a", "name": "f", "args": {"x": 1}, "type": "tool_call"}


class Answers(BaseChatModel):
    """A model that gives what it was handed, in whatever shape: LangChain does not check what is assigned later."""

    answer: object

    @property
    def _llm_type(self):
        return "answers"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration.model_construct(message=self.answer, text="")])

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for chunk in self.answer:
            yield ChatGenerationChunk.model_construct(message=chunk, text="")


def changed(**fields):
    return AIMessage(content="Hi", tool_calls=[CALL]).model_copy(update=fields)


def provider(answer):
    config = LangChainConfig(class_path="langchain_core.language_models:FakeListChatModel")
    return LangChainProvider(config, make=lambda model: Answers(answer=answer))


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    "place",
    [
        "content", "content[0]", "content[0].type", "content[0].text", "content[0].refusal", "tool_calls",
        "tool_calls[0]", "tool_calls[0].name", "tool_calls[0].args", "additional_kwargs.refusal",
    ],
)  # fmt: skip
def test_a_wrong_type_where_text_or_calls_may_stand_is_an_error(place, wrong):
    """It names the place; what is right there, or nothing, is read."""
    right = {
        "content": (str,),
        "content[0]": (str,),
        "additional_kwargs.refusal": (str, type(None)),
        "tool_calls[0].args": (dict,),
    }
    if isinstance(wrong, right.get(place, str if place.endswith(("type", "text", "refusal", "name")) else ())):
        pytest.skip("right")
    answer = {
        "content": lambda: changed(content=wrong),
        "content[0]": lambda: changed(content=[wrong]),
        "content[0].type": lambda: changed(content=[{"type": wrong, "text": "Hi"}]),
        "content[0].text": lambda: changed(content=[{"type": "text", "text": wrong}]),
        "content[0].refusal": lambda: changed(content=[{"type": "refusal", "refusal": wrong}]),
        "tool_calls": lambda: changed(tool_calls=wrong),
        "tool_calls[0]": lambda: changed(tool_calls=[wrong]),
        "tool_calls[0].name": lambda: changed(tool_calls=[{**CALL, "name": wrong}]),
        "tool_calls[0].args": lambda: changed(tool_calls=[{**CALL, "args": wrong}]),
        "additional_kwargs.refusal": lambda: changed(additional_kwargs={"refusal": wrong}),
    }[place]()
    if place == "content" and wrong == [1]:
        place = "content[0]"
    if place in ("content[0]", "tool_calls[0]") and wrong == {"a": 1}:
        if place == "content[0]":
            pytest.skip("a block of a kind that nobody knows")
        place = "tool_calls[0].name"
    if place == "tool_calls" and wrong == [1]:
        place = "tool_calls[0]"

    with pytest.raises(WrongShape) as caught:
        assistant_message(answer)

    assert str(caught.value).startswith(f"{place}: expected ")


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("field", ["usage_metadata", "additional_kwargs", "id", "name"])
async def test_a_wrong_type_elsewhere_costs_nothing(field, wrong):
    """Usage, what stands beside, ids: text and call stay."""
    result = await provider(changed(**{field: wrong})).generate_chat([UserMessage(content="Hi")], "m", ChatOptions())

    assert result.content == "Hi"
    assert [(call.name, call.arguments) for call in result.tool_calls] == [("f", {"x": 1})]


@pytest.mark.parametrize("wrong", WRONG)
def test_no_word_about_an_answer_needs_a_type(wrong):
    """Finish reasons, tokens and ids of calls may be anything."""
    told = {"finish_reason": wrong if wrong != "x" else None}
    answer = changed(response_metadata=told, usage_metadata={"input_tokens": wrong}, tool_calls=[{**CALL, "id": wrong}])

    assert raw_finish(answer) is None
    assert finish_reason(answer, has_calls=True) == "tool_calls"
    assert usage_of(answer) is None or usage_of(answer).output_tokens is None
    assert [call.name for call in assistant_message(answer).tool_calls] == ["f"]


async def test_an_answer_that_cannot_be_read_is_a_protocol_error_that_may_be_tried_again():
    """Of the provider, with the class and the place."""
    asked = provider(changed(tool_calls=[{**CALL, "name": 7}]))
    with pytest.raises(
        ProviderProtocolError, match=r"FakeListChatModel sent .*tool_calls\[0\].name: expected text, got a number"
    ) as caught:
        await asked.generate_chat([UserMessage(content="Hi")], "m", ChatOptions())

    assert caught.value.retryable
    assert caught.value.model == "m"


async def test_a_character_cut_in_two_is_joined():
    """In the deltas and in the result."""
    told = {"finish_reason": "stop"}
    chunks = [AIMessageChunk(content=piece) for piece in ("a\ud83d", "\ude00b", "\ud83d")]
    chunks.append(AIMessageChunk(content="", response_metadata=told))

    events = [event async for event in provider(chunks).stream_chat([UserMessage(content="Hi")], "m", ChatOptions())]

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a\U0001f600b\ufffd"
    assert isinstance(events[-1], AnswerEnd)
    assert events[-1].result.content == "a\U0001f600b\ufffd"


def streamed(*pieces):
    """The message of chunks whose fields are these."""
    draft = ChunkDraft("")
    for fields in pieces:
        list(draft.add(AIMessageChunk(content="").model_copy(update=fields)))
    return draft.message()


@pytest.mark.parametrize("wrong", [True, 7, 1.5, [1], {"a": 1}])
@pytest.mark.parametrize("place", ["id", "usage_metadata", "response_metadata", "reasoning", "call id", "block id"])
def test_a_wrong_type_beside_a_piece_costs_neither_text_nor_calls(place, wrong):
    """LangChain cannot add such chunks."""
    call = {"name": None, "args": "{}", "id": wrong if place == "call id" else None, "index": 1}
    block = {"type": "text", "text": "Hi ", "index": 0, **({"id": wrong} if place == "block id" else {})}
    odd = (
        {"additional_kwargs": {"reasoning_content": wrong}}
        if place == "reasoning"
        else {}
        if " " in place
        else {place: wrong}
    )
    result = streamed(
        {"content": [block], "additional_kwargs": {"reasoning_content": "Hm"}, "id": "a"},
        {"tool_call_chunks": [{"name": "f", "args": "", "id": "c", "index": 1}], "content": []},
        {"content": [{"type": "text", "text": "you", "index": 0}], "tool_call_chunks": [call], **odd},
    )

    assert "".join(part.text for part in result.parts if isinstance(part, TextPart)) == "Hi you"
    assert [(call.name, call.arguments) for call in result.tool_calls] == [("f", {})]


@pytest.mark.parametrize(
    "piece",
    [
        {"content": 7}, {"content": None}, {"content": [{"type": "text", "text": None}]}, {"tool_call_chunks": None},
        {"tool_call_chunks": [{"name": 7, "args": "", "id": "c", "index": 1}]}, {"additional_kwargs": {"refusal": 7}},
        {"tool_call_chunks": [{"name": "f", "args": [], "id": "c", "index": 1}]},
        {"tool_call_chunks": [{"name": None, "args": "{}", "id": "c", "index": 1}]},
    ],
)  # fmt: skip
def test_a_wrong_type_in_a_piece_is_an_error(piece):
    """Where text or calls may stand; so is a call that never gets a name."""
    with pytest.raises(WrongShape, match="expected "):
        streamed({"content": "We must "}, piece, {"content": "pay."})
