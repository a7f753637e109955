"""What a turn says of itself."""

import attrs
import pytest
from flexchat.domain import ChatResponse, Profile, ToolCallRecord, ToolResult, Turn

GOOD = ToolCallRecord(tool="add", params={}, result=ToolResult(success=True, tool_name="add", result=5), iteration=1)
BAD = ToolCallRecord(tool="pay", params={}, result=ToolResult.failed("pay", "no money"), iteration=2)


def turn(*records, status="done"):
    response = ChatResponse(content="Five.", llm="bot", model="m", tool_calls=records or None)
    return Turn(
        id="0" * 32,
        profile=Profile(topic="t", user_message="?"),
        rule=0,
        response=response,
        phases=(),
        elapsed_ms=1.0,
        status=status,
    )


@pytest.mark.parametrize(
    ("made", "succeeded", "failed"),
    [
        (turn(), True, ()),
        (turn(GOOD, GOOD), True, ()),
        (turn(GOOD, BAD), False, (BAD,)),
        (turn(GOOD, status="failed"), False, ()),
        (turn(status="cancelled"), False, ()),
    ],
)
def test_a_turn_says_whether_it_succeeded(made, succeeded, failed):
    """It has its answer, and every tool did its work."""
    assert (made.succeeded, made.failed_calls) == (succeeded, failed)
    assert attrs.evolve(made, status="failed").succeeded is False
