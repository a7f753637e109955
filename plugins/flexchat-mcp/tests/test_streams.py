"""What counts as parts of a message, however they are nested."""

import pytest
from flexchat_mcp.streams import MAX_PARTS, has_too_many_parts

MANY = [0] * MAX_PARTS


@pytest.mark.parametrize(
    ("message", "is_it"),
    [
        ({}, False),
        ({"content": MANY[1:]}, False),
        ({"content": MANY}, True),
        ({"content": [{"annotations": {"audience": MANY[: MAX_PARTS // 50]}}] * 60}, True),
        ({"capabilities": {"experimental": dict.fromkeys(map(str, range(MAX_PARTS)))}}, True),
        ({"result": {"content": [[[MANY]]]}}, True),
        ({"content": [], "structuredContent": {"rows": [MANY] * 3}, "_meta": {"x": MANY}}, False),
        ({"tools": [{"inputSchema": {"enum": MANY}}]}, False),
    ],
)
def test_parts_are_counted(message, is_it):
    assert has_too_many_parts(message) is is_it
