"""OpenAI's messages, read."""

import pytest
from flexchat import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from flexchat.domain.history import repair_history
from flexchat_web.api.openai_format import read_messages
from flexchat_web.problems import ApiError
from hypothesis import given
from hypothesis import strategies as st

ASKED = {"role": "user", "content": "now?"}


def call(id, name="f", arguments="{}"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_last_message_is_the_question_and_the_rest_is_history():
    """developer is system; parts of text are joined."""
    read = read_messages(
        [
            {"role": "system", "content": "be brief"},
            {"role": "developer", "content": [{"type": "text", "text": "and kind"}]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c"},
            ASKED,
        ]
    )
    assert read.question.content == "now?"
    assert [type(m) for m in read.history] == [SystemMessage, SystemMessage, UserMessage, AssistantMessage]
    assert [m.content for m in read.history] == ["be brief", "and kind", "ab", "c"]


def test_instructions_behind_the_question_are_kept():
    """Some clients put them last."""
    read = read_messages([ASKED, {"role": "system", "content": "in French"}])
    assert (read.question.content, [m.content for m in read.history]) == ("now?", ["in French"])


def test_calls_and_their_results_belong_together_though_ids_come_again():
    """Programs that count their ids from 0 in each answer."""
    turn = [
        {"role": "assistant", "content": None, "tool_calls": [call("call_0")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "1"},
    ]
    history = read_messages([*turn, *turn, ASKED]).history
    assert repair_history(history) == (history, ())
    assert history[0].tool_calls[0].id != history[2].tool_calls[0].id
    assert history[1].name == "f"


def test_a_call_without_a_result_is_repaired_by_the_turn():
    """And a result without a call is refused, as OpenAI does."""
    history = read_messages([{"role": "assistant", "content": "", "tool_calls": [call("a")]}, ASKED]).history
    repaired, notes = repair_history(history)
    assert len(notes) == 1
    assert isinstance(repaired[1], ToolMessage)
    with pytest.raises(ApiError, match=r"messages\[0\]: its tool_call_id 'nobody'"):
        read_messages([{"role": "tool", "tool_call_id": "nobody", "content": "x"}, ASKED])


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "system", "content": "x"}], "the last message must be the user's"),
        ([ASKED, {"role": "assistant", "content": "x"}], "the last message must be the user's"),
        ([{"role": "user", "content": " "}], "is empty"),
        (
            [{"role": "user", "content": [{"type": "video_url"}]}],
            "messages[0].content[0]: this server reads text, image_url, input_audio and file parts, not 'video_url'",
        ),
        ([{"role": "assistant", "tool_calls": [{"function": 3}]}, ASKED], "messages[0].tool_calls[0]: a tool call is"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(messages, said):
    """400, one sentence."""
    with pytest.raises(ApiError) as caught:
        read_messages(messages)
    assert caught.value.status == 400
    assert said in caught.value.detail


_PARTS = st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url"])}, optional={"text": st.text()}))
_CALLS = st.builds(call, st.sampled_from("ab"), arguments=st.none() | st.text(max_size=4))
_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool"])},
    optional={
        "content": st.none() | st.text(max_size=5) | _PARTS,
        "tool_call_id": st.none() | st.sampled_from("ab"),
        "name": st.none() | st.just("f"),
        "tool_calls": st.none() | st.lists(_CALLS),
    },
)


@given(st.lists(_MESSAGES, min_size=1, max_size=6))
def test_any_messages_are_read_or_refused(messages):
    """Never anything else, and what is read can be repaired."""
    try:
        read = read_messages(messages)
    except ApiError:
        return
    assert read.question.content.strip()
    for part in (read.history, (read.question, *read.continuation)):
        repaired, _ = repair_history(part)
        assert repair_history(repaired) == (repaired, ())
    assert not read.continuation or isinstance(read.continuation[-1], ToolMessage)
