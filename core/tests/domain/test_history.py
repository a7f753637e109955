"""A history is read in every form callers have, and repaired so that no provider refuses it."""

import contextlib
import json

import attrs
import pytest
from flexchat.domain import (
    AssistantMessage,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from flexchat.domain.history import read_history, repair_history, write_history
from flexchat.errors import ChatRequestError
from hypothesis import given
from hypothesis import strategies as st

KEYS = ["role", "content", "type", "text", "parts", "tool_calls", "tool_call_id", "function", "name", "media"]
CALLS = [ToolCall(name=f"t{n}", arguments={}, id=f"call_{n}") for n in range(4)]
messages = st.one_of(
    st.builds(UserMessage, content=st.text(max_size=5)),
    st.builds(lambda calls: AssistantMessage(parts=tuple(calls)), st.lists(st.sampled_from(CALLS), max_size=3)),
    st.builds(lambda c: ToolMessage(tool_call_id=c.id, name=c.name, content="ok"), st.sampled_from(CALLS)),
)


def well_formed(history) -> bool:
    """Every call is followed, before anything else, by exactly one answer; no answer stands elsewhere."""
    waiting: list[str] = []
    for message in history:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [c.id for c in message.tool_calls]
    return not waiting


@given(st.lists(messages, max_size=8))
def test_a_repaired_history_is_well_formed(history):
    """Whatever was cut, lost or mixed up; and repairing twice changes nothing more."""
    repaired, notes = repair_history(tuple(history))

    assert well_formed(repaired)
    assert repair_history(repaired) == (repaired, ())
    if well_formed(history) and not notes:
        assert repaired == tuple(history)
    rest = [m for m in history if not isinstance(m, ToolMessage)]
    assert [m for m in repaired if not isinstance(m, ToolMessage)] == rest


def test_ids_that_are_used_again_pair_with_the_nearest_answer():
    """Histories of other programs count "call_0" anew in every answer (C3)."""

    def asked(*ids):
        return AssistantMessage(parts=tuple(ToolCall(name="t", arguments={}, id=i) for i in ids))

    def answered(text, id="call_0"):
        return ToolMessage(tool_call_id=id, name="t", content=text)

    user = UserMessage(content="u")
    whole = (asked("call_0"), answered("1"), user, asked("call_0"), answered("2"), user)
    assert repair_history(whole) == (whole, ())

    broken = (asked("call_0"), user, asked("call_0", "x"), answered("x", "x"), answered("2"), answered("again"))
    repaired, notes = repair_history(broken)
    contents = [m.content for m in repaired if isinstance(m, ToolMessage)]
    assert contents == ["again", "2", "x"]
    assert notes == ()

    repaired, notes = repair_history((asked("call_0"), answered("1"), answered("1 again")))
    assert repaired[1:] == (answered("1"),)
    assert ["belongs to no call" in note for note in notes] == [True]


def test_entries_of_every_form_are_read():
    """Role and content, type and text, messages as they are, and the user's where no role is named (C20, TC-72)."""
    kept = UserMessage(content="kept")
    entries = [kept, {"role": "system", "content": "s"}, {"type": "bot", "text": "b"}, {"content": "t"}]

    assert read_history(entries) == (
        kept,
        SystemMessage(content="s"),
        AssistantMessage(parts=(TextPart(text="b"),)),
        UserMessage(content="t"),
    )


LOOK = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
CALLED = {"role": "assistant", "content": "I look.", "tool_calls": [LOOK]}
ANSWERED = {"role": "tool", "tool_call_id": "call_0", "content": "1"}


def test_a_history_in_openais_shape_is_read_whole():
    """Text beside calls, calls with results, ids that come again, parts of text, pictures, refusals."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    asked, called, answered, again, twice, said = read_history(
        [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, picture]},
            CALLED,
            ANSWERED,
            {**CALLED, "content": None},
            {**ANSWERED, "content": [{"type": "text", "text": "2"}]},
            {"role": "assistant", "content": None, "refusal": "No.", "tool_calls": None},
        ]
    )
    assert (asked.content, asked.media[0].data) == ("ab", bytes([0, 1, 2]))
    assert (called.content, called.tool_calls[0].arguments) == ("I look.", {"x": 1})
    assert (answered.tool_call_id, answered.name) == (called.tool_calls[0].id, "look")
    assert (twice.tool_call_id, twice.content) == (again.tool_calls[0].id, "2")
    assert again.tool_calls[0].id != called.tool_calls[0].id
    assert said.refusal == "No."


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"role": "user"}, "it has no content"),
        ({"role": "assistant", "content": None}, "it has no content (or text), and no tool_calls"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "and no tool_calls"),
        ({"content": 5}, ".content: the content must be a text or a list of parts, not int"),
        ({"role": "assistent", "content": "x"}, "no message has the role 'assistent' (did you mean 'assistant'?)"),
        ({"role": 5, "content": "x"}, "no message has the role 5"),
        ({"type": "function_call", "name": "f"}, "no message has the type 'function_call'"),
        ({"role": "tool", "content": "x"}, "a tool's result needs the tool_call_id"),
        ({"role": "tool", "content": "x", "tool_call_id": "nobody"}, "tool_call_id 'nobody' belongs to no call"),
        ({**CALLED, "role": "user"}, "only the assistant calls tools"),
        ({**CALLED, "tool_calls": {"a": 1}}, ".tool_calls: a list of calls was expected"),
        ({**CALLED, "tool_calls": [{"function": {}}]}, ".tool_calls[0]: a tool call is a function with a name"),
        ({**CALLED, "tool_calls": [{**LOOK, "id": 7}]}, ".tool_calls[0].id: a text was expected"),
        ({"role": "assistant", "content": None, "function_call": {"name": "f"}}, "give it as tool_calls"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "content[0]: a history takes text only, not 'input_a"),
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, "content[0]: a part of type text has its text"),
        ({"role": "user", "content": ["x"]}, "content[0]: a history takes text only, not 'x'"),
        ({"content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}, "not a picture in Base64"),
        ({"role": "assistant", "parts": [{"type": "smell"}]}, "cannot read a message with type 'smell'"),
        ({"role": "assistant", "parts": [{"type": "text", "text": 5}]}, "TextPart.text: str was expected, got 5"),
        ({"role": "assistant", "parts": 5}, "a list was expected"),
        ("text", "got str"),
        (None, "got NoneType"),
        (7, "got int"),
    ],
)
def test_what_is_no_entry_is_refused_by_its_number(entry, words):
    """The caller learns which entry it is and what is wrong with it; nothing is taken for something else."""
    with pytest.raises(ChatRequestError) as caught:
        read_history([{"content": "fine"}, entry])

    assert str(caught.value).startswith("history[1]")
    assert words in str(caught.value)


def test_a_result_comes_once_and_behind_its_call():
    for wrong in ([ANSWERED, CALLED], [CALLED, ANSWERED, ANSWERED]):
        with pytest.raises(ChatRequestError, match=r"history\[\d\]: its tool_call_id 'call_0' belongs to no call"):
            read_history(wrong)


@pytest.mark.parametrize("entries", ["text", {"role": "user", "content": "x"}, 7])
def test_a_history_that_is_no_list_is_refused(entries):
    with pytest.raises(ChatRequestError, match="history: a list of messages was expected"):
        read_history(entries)


parts = st.one_of(
    st.builds(TextPart, text=st.text(min_size=1, max_size=5)),
    st.builds(RefusalPart, text=st.text(min_size=1, max_size=5)),
)


@st.composite
def well_formed_histories(draw):
    made = []
    for _ in range(draw(st.integers(0, 4))):
        made.append(UserMessage(content=draw(st.text(max_size=5))))
        asked = [ToolCall.from_object("t", {"n": n}) for n in range(draw(st.integers(0, 2)))]
        said = tuple(draw(st.lists(parts, max_size=2)))
        made.append(AssistantMessage(parts=(*said, *asked)))
        made += [ToolMessage(tool_call_id=c.id, name="t", content=draw(st.text(max_size=5))) for c in asked]
    return made


@given(st.lists(messages, max_size=8), st.lists(st.integers(0, 8), max_size=4))
def test_what_is_remembered_of_a_history_changes_no_repair(history, ends):
    """Of one that has grown, and of others that begin alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flexchat.domain.history.MIN_REMEMBERED", 0)
        for end in ends:
            repair_history((*history[:end],))
        found = repair_history((*history,))
    assert found == repair_history((*map(attrs.evolve, history),))


@pytest.mark.parametrize("form", ["openai", "flexchat"])
def test_a_pinned_message_stays_pinned(form):
    history = (UserMessage("My order is 4711.", pinned=True), UserMessage("Hello."))
    assert read_history(json.loads(json.dumps(write_history(history, form)))) == history


@given(well_formed_histories())
def test_what_is_written_is_read_again(history):
    """Our own form loses nothing; OpenAI's keeps who said what, which calls there were and what came of them."""

    def told(message):
        calls = [(c.name, c.arguments) for c in getattr(message, "tool_calls", ())]
        return message.role, message.content or "", getattr(message, "refusal", None), calls

    as_json = json.loads(json.dumps(write_history(history, "flexchat")))
    assert read_history(as_json) == tuple(history)
    as_openai = read_history(json.loads(json.dumps(write_history(history))))
    assert list(map(told, as_openai)) == list(map(told, history))
    assert repair_history(as_openai) == (as_openai, ())
    texts = [m for m in history if m.role in ("user", "assistant") and m.content]
    assert [m.content for m in read_history(write_history(history, "texts"))] == [m.content for m in texts]


JSON_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=6,
)


@given(st.lists(JSON_DATA, max_size=3))
def test_any_data_is_read_or_refused(entries):
    """With a sentence, and never another exception."""
    with contextlib.suppress(ChatRequestError):
        read_history(entries)
