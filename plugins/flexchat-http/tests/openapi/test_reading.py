"""From bytes to JSON data."""

import json

import pytest
from flexchat_http.openapi.reading import MAX_BYTES, MAX_DEPTH, DocumentError, read_document


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize(
    "content",
    [
        b'{"openapi": "3.0.0"}',
        b"openapi: 3.0.0",
        b"\xef\xbb\xbfopenapi: 3.0.0",
        '{"openapi": "3.0.0"}'.encode("utf-16"),
    ],
)
def test_json_and_yaml_are_told_apart_by_their_content(content):
    assert read_document(content, "x") == {"openapi": "3.0.0"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "x: it is empty"),
        (b" \n", "x: it is empty"),
        (b"[1]", "x: it is not an object, but a list"),
        (b"just text", "x: it is not an object, but a text"),
        (b"\xff\x00\x01", "x: byte 0: it is not UTF-8 text"),
        (b'{"a": 1,\n "b": ]', "x: line 2: it is not JSON: Expecting value"),
        (b"a: 1\nb: [", "x: line 3: it is not YAML"),
        (b"<html>", "x: it is HTML or XML"),
        (b'{"a": NaN}', "x: it is nested too deeply, or has a number that is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "x: it is nested too deeply, or has a number that is not JSON"),
        (b"[" * 100_000, "x: it is nested too deeply"),
        (nested(MAX_DEPTH + 1), "x: it is nested more than 200 levels deep"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_read_is_said_with_its_place(content, said):
    with pytest.raises(DocumentError) as caught:
        read_document(content, "x")

    assert str(caught.value).startswith(said)


def test_a_document_that_is_too_large_is_refused_unread():
    with pytest.raises(DocumentError, match="x: it is larger than 64 MiB"):
        read_document(b"[" * (MAX_BYTES + 1), "x")


def test_flow_yaml_is_read_although_it_begins_like_json():
    assert read_document(b"{openapi: 3.0.0}", "x") == {"openapi": "3.0.0"}
    assert read_document(nested(MAX_DEPTH - 1), "x") == json.loads(nested(MAX_DEPTH - 1))
