"""A history is read in every form callers have, and repaired so that no provider refuses it."""

import pytest
from flexchat.domain import AssistantMessage, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage
from flexchat.domain.history import read_history, repair_history
from hypothesis import given
from hypothesis import strategies as st

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
    """Role and content, type and text, and messages as they are (C20)."""
    kept = UserMessage(content="kept")
    entries = [kept, {"role": "system", "content": "s"}, {"type": "bot", "text": "b"}, {"role": "tool", "content": "t"}]

    assert read_history(entries) == (
        kept,
        SystemMessage(content="s"),
        AssistantMessage(parts=(TextPart(text="b"),)),
        UserMessage(content="t"),
    )


@pytest.mark.parametrize("entry", [{"role": "user"}, {"content": 5}, "text", None, 7])
def test_what_is_no_entry_is_refused_with_a_sentence(entry):
    """The caller learns what an entry needs."""
    with pytest.raises(TypeError, match="history entry"):
        read_history([entry])
