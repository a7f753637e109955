"""A tool's answer as a value."""

import attrs
import pytest
from flexchat.host import value_problem
from flexchat.plugin import MediaPart, WithMedia
from flexchat_mcp.results import error_of, text_of, value_of
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WRAPPED = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}


def text(words, **rest):
    return {"type": "text", "text": words, **rest}


@pytest.mark.parametrize(
    ("result", "output", "value"),
    [
        ({"content": [text("3")]}, None, "3"),
        ({"content": []}, None, ""),
        ({"content": [text("a"), text("b")]}, None, "a\nb"),
        ({"content": [text('{"a": 1}')], "structuredContent": {"a": 1}}, None, {"a": 1}),
        ({"content": [], "structuredContent": {"a": 1}}, None, {"a": 1}),
        ({"content": [text("3")], "structuredContent": {"result": 3}}, WRAPPED, 3),
        ({"content": [text("3")], "structuredContent": {"result": 3}}, None, {"text": "3", "structured": {"result": 3}}),  # noqa: E501
        ({"content": [text("1"), text("2")], "structuredContent": {"result": [1, 2]}}, WRAPPED, [1, 2]),
        ({"content": [text("Two found.")], "structuredContent": {"n": 2}}, None, {"text": "Two found.", "structured": {"n": 2}}),  # noqa: E501
        ({"content": [text("null")], "structuredContent": None}, None, None),
        ({"content": [text('```json\n{"n": 2}\n```')], "structuredContent": {"n": 2}}, None, {"n": 2}),
        ({"content": [text("Two."), text('{"n":\n2}')], "structuredContent": {"n": 2}}, None, {"text": "Two.", "structured": {"n": 2}}),  # noqa: E501
        ({"content": [text('{"a": 1}'), text('{"a": 2}')], "structuredContent": {"items": [{"a": 1}, {"a": 2}]}}, None, {"items": [{"a": 1}, {"a": 2}]}),  # noqa: E501
        ({"content": [text("docs")]}, {"type": "object", "properties": {"id": {}}, "required": ["id"]}, "docs"),
        ({"content": [text("for you", annotations={"audience": ["user"]}), text("for it")]}, None, "for it"),
        ({"content": [text("x", annotations={"audience": ["user", "assistant"]})]}, None, "x"),
    ],
)  # fmt: skip
def test_what_an_answer_says(result, output, value):
    assert value_of(result, output) == value


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"content": []}, ""),
        ({"content": [text("locked")]}, "locked"),
        ({"content": [], "structuredContent": {"code": 7}}, '{"code": 7}'),
        ({"content": [text("locked")], "structuredContent": {"by": "Ada"}}, 'locked\n{"by": "Ada"}'),
        ({"content": [text('{"by":"Ada"}')], "structuredContent": {"by": "Ada"}}, '{"by":"Ada"}'),
        ({"content": [text("")], "structuredContent": {"by": "Ada"}}, '{"by": "Ada"}'),
        ({"content": [text("locked")], "structuredContent": {}}, "locked"),
        ({"structuredContent": "locked"}, "locked"),
    ],
)
def test_an_error_keeps_the_details_of_its_structured_content(result, said):
    assert error_of(result) == said


PICTURE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
IMAGE = MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\n")


def blob(data="aGk=", **rest):
    return {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": data, **rest}}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [PICTURE]}, WithMedia("", [IMAGE])),
        ({"content": [text("a"), PICTURE, text("b")]}, WithMedia("a\nb", [IMAGE])),
        ({"content": [text("3"), PICTURE], "structuredContent": 3}, WithMedia(3, [IMAGE])),
        ({"content": [PICTURE], "structuredContent": {"a": 1}}, WithMedia({"a": 1}, [IMAGE])),
        ({"content": [{**PICTURE, "annotations": {"audience": ["user"]}}, text("x")]}, "x"),
        ({"content": [{**PICTURE, "annotations": {"audience": ["assistant"]}}]}, WithMedia("", [IMAGE])),
        ({"content": [{**PICTURE, "data": "?"}]}, "[image image/png: not shown, its data are not Base64]"),
        ({"content": [{**PICTURE, "data": "iVBOR"}]}, "[image image/png: not shown, its data are not Base64]"),
        ({"content": [{**PICTURE, "data": None}]}, WithMedia("", [attrs.evolve(IMAGE, data=b"")])),
        ({"content": [{**PICTURE, "mimeType": None}]}, WithMedia("", [attrs.evolve(IMAGE, mime_type="")])),
        (
            {"content": [blob()]},
            WithMedia("", MediaPart(kind="document", mime_type="application/octet-stream", data=b"hi", name="file:///a.bin")),
        ),
        (
            {"content": [blob(mimeType="audio/wav"), blob("!")]},
            WithMedia(
                "[file:///a.bin application/octet-stream: not shown, its data are not Base64]",
                MediaPart(kind="document", mime_type="audio/wav", data=b"hi", name="file:///a.bin"),
            ),
        ),
    ],
)  # fmt: skip
def test_what_comes_beside_the_text(result, value):
    """Bytes are media; what is said of them is not part of the value, which may be structured."""
    assert value_of(result) == value


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "image", "data": "AAAA", "mimeType": "image/png"}, "[image image/png, 3 bytes: not shown]"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio audio/wav, 3 bytes: not shown]"),
        ({"type": "image", "data": "?", "mimeType": "a/b"}, "[image a/b: not shown, its data are not Base64]"),
        ({"type": "resource_link", "name": "a.txt", "uri": "file:///a.txt"}, "a.txt: file:///a.txt"),
        ({"type": "resource", "resource": {"uri": "x:y", "text": "hello"}}, "hello"),
        ({"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA", "mimeType": "a/b"}}, "[resource x:y a/b, 3 bytes: not shown]"),  # noqa: E501
        ({"type": "hologram", "x": 1}, '{"type": "hologram", "x": 1}'),
    ],
)  # fmt: skip
def test_what_is_no_text_is_described(block, said):
    assert text_of(block) == said


@pytest.mark.parametrize(
    ("value", "output", "problem"),
    [
        ({"a": 1}, {"type": "object", "properties": {"a": {"type": "integer"}}}, None),
        ({"a": "1"}, {"type": "object", "properties": {"a": {"type": "integer"}}}, 'a must be an integer (got the string "1")'),  # noqa: E501
        ({}, {"type": "object", "required": ["a"]}, "missing 'a'"),
        ([1], {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, None),
        (["x"], {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, '[0] must be an integer (got the string "x")'),  # noqa: E501
    ],
)  # fmt: skip
def test_structured_content_is_held_to_its_schema(value, output, problem):
    assert value_problem(value, output) == problem


@given(JSON)
def test_nothing_structured_is_lost(value):
    found = value_of({"content": [text("so it is")], "structuredContent": value})

    assert found == value or found == {"text": "so it is", "structured": value}
