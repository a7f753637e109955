"""A conversation as Markdown and as JSON."""

import json

from flexchat.conversations.view import to_json, to_markdown
from flexchat.domain import (
    AssistantMessage,
    Citation,
    ConversationInfo,
    ConversationTurn,
    MediaPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from flexchat.domain.conversation import turn_from_dict

INFO = ConversationInfo(id="c", title="Sums", turns=1, started_at="2026-01-01", used_at="2026-01-02")
TURN = ConversationTurn(
    id="1",
    messages=(
        UserMessage(content="What is this?", media=(MediaPart(kind="image", mime_type="image/png", data=b"\0"),)),
        AssistantMessage(
            parts=(
                ReasoningPart(text="hidden thought"),
                TextPart(text="Let me see."),
                ToolCall(name="calc", arguments={"expression": "1 + 1"}),
                ToolCall(name="broken", arguments=None, raw_arguments="{"),
            )
        ),
        ToolMessage(tool_call_id="x", name="calc", content="``` 2 " + "x" * 1000, is_error=True),
        ToolMessage(
            tool_call_id="y",
            name="draw",
            content="drawn",
            media=(MediaPart(kind="image", mime_type="image/png", data=b"\0", name="d.png"),),
        ),
        AssistantMessage(parts=(TextPart(text="Two."), RefusalPart(text="No more."))),
    ),
    llm="main",
    model="small",
    citations=(Citation(title="Book", source="book.md", collection=None),),
    at="2026-01-02",
)


def test_markdown_shows_what_was_said_and_done_in_its_order_and_no_thoughts():
    text = to_markdown(INFO, [TURN])

    order = [
        "# Sums\n",
        "## user, 2026-01-02",
        "What is this?",
        "[image: image/png]",
        "## main / small",
        "Let me see.",
        'calc(expression="1 + 1")',
        "broken({)",
        "calc failed: ``` 2",
        "[image: d.png]",
        "Two.",
        "No more.",
        "- Book (book.md)",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "hidden thought" not in text
    assert text.count("## main") == 1


def test_what_a_tool_said_cannot_leave_its_block():
    assert "````\ncalc failed: ``` 2" in to_markdown(INFO, [TURN])


def test_json_has_everything():
    data = json.loads(json.dumps(to_json(INFO, [TURN])))

    assert turn_from_dict(data["turns"][0]) == TURN
    assert data["title"] == "Sums"


def test_markdown_tells_a_failed_tool_in_words_and_times_to_the_minute():
    failure = json.dumps({"success": False, "error": "Division by zero.", "hint": "Change the divisor."})
    message = ToolMessage(tool_call_id="x", name="calculator", content=failure, is_error=True)
    turn = ConversationTurn(id="1", messages=(UserMessage(content="1/0"), message), at="2026-11-22T17:27:31.696+00:00")

    text = to_markdown(INFO, [turn])

    assert "calculator failed: Division by zero.\nChange the divisor.\n" in text
    assert "## user, 2026-11-22 17:27\n" in text
    assert "success" not in text
