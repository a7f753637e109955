"""Thoughts between tags are parted from the text, however the network cuts them."""

import itertools

import pytest
from flexchat_openai.chat_answer import AnswerDraft
from flexchat_openai.think_tags import ThinkTags
from flexchat_sdk import AnswerEnd, ReasoningPart, TextPart
from hypothesis import given
from hypothesis import strategies as st


def parted(*pieces: str) -> dict[str, str]:
    tags = ThinkTags()
    found = [part for piece in pieces for part in tags.feed(piece)] + tags.end()
    assert all(text for _, text in found)
    return {kind: "".join(text for k, text in found if k == kind) for kind in ("thought", "text")}


@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("<think>hm</think>ok", "hm", "ok"),
        ("\n<think>\nhm\n</think>\n\nok ", "\nhm\n", "ok "),
        ("<think></think>ok", "", "ok"),
        ("<think>hm", "hm", ""),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("<think>hm</think>a <think>b</think>", "hm", "a <think>b</think>"),
        ("no tags", "", "no tags"),
        ("  no tags", "", "  no tags"),
        ("<thing>", "", "<thing>"),
        ("<thi", "", "<thi"),
        ("a <think>hm</think>", "", "a <think>hm</think>"),
        ("", "", ""),
        ("   ", "", "   "),
    ],
)
def test_only_tags_at_the_start_count(text: str, thought: str, rest: str) -> None:
    """Blanks around them belong to nothing; a thought without an end is all of it; later tags are text."""
    assert parted(text) == {"thought": thought, "text": rest}


texts = st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think>", "a", " ", "\n"]), max_size=8).map("".join)


@given(texts, st.lists(st.integers(0, 60), max_size=6))
def test_any_cut_gives_the_same(text: str, places: list[int]) -> None:
    """Law: it does not matter where a text is cut."""
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]

    assert parted(*pieces) == parted(text) == parted(*text)


def test_a_thought_becomes_reasoning_only_where_that_is_asked_for() -> None:
    """As a part before the text; it does not go back to the server. Off, the tags are text."""
    for on, expected in (
        (True, [("hm", ReasoningPart), ("ok", TextPart)]),
        (False, [("<think>hm</think>ok", TextPart)]),
    ):
        draft = AnswerDraft("https://h.example", think_tags=on)
        draft.raw_finish = "stop"
        end = [*draft.take({"content": "<think>hm</th"}), *draft.take({"content": "ink>ok"}), *draft.end()][-1]
        assert isinstance(end, AnswerEnd)
        assert [
            (p.text, type(p)) for p in end.result.message.parts if isinstance(p, TextPart | ReasoningPart)
        ] == expected
        assert all(p.provider_data is None for p in end.result.message.parts)  # type: ignore[union-attr]
