"""What counts as parts of a message, however they are nested."""

import pytest
from flexchat_mcp.swollen import MOST_PARTS, is_swollen

MANY = [0] * MOST_PARTS


@pytest.mark.parametrize(
    ("message", "is_it"),
    [
        ({}, False),
        ({"content": MANY[1:]}, False),
        ({"content": MANY}, True),
        ({"content": [{"annotations": {"audience": MANY[: MOST_PARTS // 50]}}] * 60}, True),
        ({"capabilities": {"experimental": dict.fromkeys(map(str, range(MOST_PARTS)))}}, True),
        ({"result": {"content": [[[MANY]]]}}, True),
        ({"content": [], "structuredContent": {"rows": [MANY] * 3}, "_meta": {"x": MANY}}, False),
        ({"tools": [{"inputSchema": {"enum": MANY}}]}, False),
    ],
)
def test_parts_are_counted(message, is_it):
    assert is_swollen(message) is is_it
