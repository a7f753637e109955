"""Deltas come in whole characters."""

from flexchat.domain import (
    AnswerEnd,
    AssistantMessage,
    ChatResult,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
)
from flexchat_sdk import CharacterJoiner
from hypothesis import given
from hypothesis import strategies as st

END = AnswerEnd(ChatResult(message=AssistantMessage(), finish_reason="stop"))
CUT = st.text(st.sampled_from("a😀é\ud83d\ude00"), max_size=12)


def joined(*events):
    joiner = CharacterJoiner()
    return [event for one in events for event in joiner.joined([one])]


@given(CUT, st.lists(st.integers(1, 4), min_size=1))
def test_a_text_cut_anywhere_is_the_text_in_whole_characters(text, sizes):
    """Also where the halves come as two events; one that stays alone is U+FFFD."""
    units = text.encode("utf-16-le", "surrogatepass")
    pieces, at = [], 0
    while at < len(units):
        size = 2 * sizes[len(pieces) % len(sizes)]
        pieces.append(units[at : at + size].decode("utf-16-le", "surrogatepass"))
        at += size

    events = joined(*[TextDelta(0, piece) for piece in pieces], END)

    assert "".join(event.text for event in events[:-1]) == units.decode("utf-16-le", "replace")
    for event in events[:-1]:
        assert event.text.encode()
    assert events[-1] is END


def test_parts_do_not_take_each_others_halves():
    """Text, thoughts and calls are written side by side."""
    events = joined(
        TextDelta(0, "\ud83d"), ReasoningDelta(1, "\ud83d"), ToolCallDelta(2, "\ud83d"), TextDelta(0, "\ude00"),
        ReasoningDelta(1, "b"), ToolCallEnd(2, ToolCall(name="f", arguments={}, id="c")), END,
    )  # fmt: skip

    assert events[:3] == [TextDelta(0, "😀"), ReasoningDelta(1, "\ufffdb"), ToolCallDelta(2, "\ufffd")]


def test_a_half_at_the_end_is_passed_on_before_the_end():
    """Not lost."""
    assert joined(TextDelta(0, "a\ud83d"), END) == [TextDelta(0, "a"), TextDelta(0, "\ufffd"), END]
