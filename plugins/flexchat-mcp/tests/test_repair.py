"""One odd tool, key or part of an answer costs itself and nothing else."""

import json

import pytest
from flexchat_mcp.streams import LISTED, repair_call, repair_list
from mcp_types import methods

VERSIONS = ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN_KEYS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
GOOD = {"name": "good", "description": "Good.", "inputSchema": {"type": "object"}}
ODD_TOOLS = [
    ({"title": 5}, {}),
    ({"title": None}, {}),
    ({"annotations": [1]}, {}),
    ({"annotations": {"readOnlyHint": "maybe", "idempotentHint": True}}, {"annotations": {"idempotentHint": True}}),
    ({"icons": [{"x": 1}]}, {}),
    ({"icons": [1] * 5_000}, {}),
    ({"description": ["a"]}, {"description": None}),
    ({"outputSchema": "x"}, {}),
    ({"outputSchema": {"$id": "x"}}, {"outputSchema": {"$id": "x"}}),
    ({"_meta": "x"}, {}),
    ({"execution": {"taskSupport": "maybe"}}, {}),
    ({"inputSchema": {}}, {"inputSchema": {}}),
    ({"inputSchema": {"$ref": "#/components/x"}}, {"inputSchema": {"$ref": "#/components/x"}}),
    (
        {"inputSchema": {"type": "object", "properties": {"a": 5}, "required": "a"}},
        {"inputSchema": {"type": "object", "properties": {"a": 5}, "required": "a"}},
    ),
]


def page(version, *tools, **rest):
    more = MODERN_KEYS if version >= "2026" else {}
    repaired = repair_list({"tools": [*tools], **more, **rest}, version)
    methods.validate_server_result("tools/list", version, repaired)
    return repaired["_meta"][LISTED]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("odd", "kept"), ODD_TOOLS, ids=repr)
def test_an_odd_key_costs_that_key(odd, kept, version):
    """The schemas stay as the server wrote them: the check of every source decides about them."""
    found = page(version, {**GOOD, "name": "odd", **odd}, GOOD)

    assert found["tools"][1] == GOOD
    assert found["tools"][0] == {k: v for k, v in {**GOOD, "name": "odd", **kept}.items() if v is not None}
    assert found["left_out"] == {}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (None, "tool 1"),
        (5, "tool 1"),
        ([], "tool 1"),
        ({}, "tool 1"),
        ({"name": 5, "inputSchema": {}}, "tool 1"),
        ({"name": "", "inputSchema": {}}, "tool 1"),
        ({"name": "bad"}, "bad"),
        ({"name": "bad", "inputSchema": None}, "bad"),
        ({"name": "bad", "inputSchema": "object"}, "bad"),
        ({"name": "bad", "inputSchema": [1]}, "bad"),
    ],
    ids=repr,
)
def test_a_bad_tool_is_left_out_with_its_name_and_the_reason(bad, name, version):
    found = page(version, bad, GOOD)

    assert found["tools"] == [GOOD]
    assert list(found["left_out"]) == [name]


@pytest.mark.parametrize("end", [None, ""])
def test_an_empty_cursor_ends_the_list(end):
    assert "nextCursor" not in repair_list({"tools": [GOOD], "nextCursor": end}, "2025-11-25")


def test_a_server_cannot_replace_the_tools_it_lists():
    assert page("2025-11-25", GOOD, _meta={LISTED: {"tools": [], "left_out": {}}})["tools"] == [GOOD]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("odd", "text"),
    [
        ({"type": "chart", "points": [1, 2]}, '{"type": "chart", "points": [1, 2]}'),
        ({"type": "text", "text": "b", "annotations": 5}, "b"),
        ({"type": "text", "text": None}, '{"type": "text", "text": null}'),
        ({"type": "image", "data": 5}, '{"type": "image", "data": 5}'),
        ("plain", "plain"),
        (7, "7"),
    ],
    ids=repr,
)
def test_an_odd_part_of_an_answer_becomes_a_text(odd, text, version):
    good = {"type": "text", "text": "a"}
    repaired = repair_call({"content": [good, odd, None]}, version)

    methods.validate_server_result("tools/call", version, {**repaired, **(MODERN_KEYS if version >= "2026" else {})})
    assert repaired["content"] == [good, {"type": "text", "text": text}]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "odd",
    [
        {"content": "done"},
        {"content": None, "structuredContent": {"a": 1}},
        {"structuredContent": [1, 2]},
        {"content": [], "structuredContent": None},
        {"content": [], "isError": "false"},
        {"content": [], "_meta": 5},
        {"content": {"type": "text", "text": "a"}},
        {"content": [], "structuredContent": "text"},
    ],
    ids=json.dumps,
)
def test_an_odd_answer_is_one_the_sdk_accepts(odd, version):
    repaired = repair_call(odd, version)

    methods.validate_server_result("tools/call", version, {**repaired, **(MODERN_KEYS if version >= "2026" else {})})


@pytest.mark.parametrize(("is_error", "read"), [("false", False), (0, False), ("true", True), (1, True), ("yes", True)])
def test_whether_an_answer_is_an_error_is_never_taken_for_success_in_doubt(is_error, read):
    assert repair_call({"content": [], "isError": is_error}, "2025-11-25")["isError"] is read
