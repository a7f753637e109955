"""What tools return besides JSON: what is kept, what is told in words, and what a model may be shown."""

import json

import pytest
from flexchat.domain import MediaPart, ToolMessage, ToolResult, WithMedia
from flexchat.domain.media import checked_media, describe_media, in_brief, kind_of, split_media, with_accepted_media
from hypothesis import given
from hypothesis import strategies as st

PNG = b"\x89PNG\r\n\x1a\n rest"


def png(data=PNG, **rest):
    return MediaPart(**{"kind": "image", "mime_type": "image/png", "data": data, **rest})


def test_a_tool_may_return_a_part_several_or_a_value_with_them():
    assert split_media(png()) == WithMedia(None, (png(),))
    assert split_media([png(), png()]) == WithMedia(None, (png(), png()))
    assert split_media(WithMedia({"a": 1}, png())) == WithMedia({"a": 1}, [png()])


@pytest.mark.parametrize("value", [None, [], (), "text", {"a": 1}, [1], [png(), 1], [[png()]]])
def test_everything_else_is_a_value(value):
    assert split_media(value) is None


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (png(b""), "image/png, 0 bytes: left out, it is empty"),
        (png(b"<html>", name="a.png"), "a.png (image/png, 6 bytes): left out, its data are not image/png"),
        (png(b"RIFF1234WAVE", mime_type="image/webp"), "image/webp, 12 bytes: left out, its data are not image/webp"),
        (png(mime_type="image"), "'image': left out, that is not a media type such as image/png"),
        (png(mime_type=""), "'': left out, that is not a media type such as image/png"),
        (png(mime_type=None), "'': left out, that is not a media type such as image/png"),
        (png(mime_type="image/png\r\nx: y"), "'image/png\\r\\nx: y': left out, that is not a media type"),
        (png(None, url="http://169.254.169.254/latest"), "image/png at http://169.254.169.254/latest: left out, only"),
        (png(None), "image/png: left out, only its address was given"),
        (png("text"), "image/png: left out, its data are not bytes"),
        (png(b"\xff\xfe", mime_type="text/plain"), "text/plain, 2 bytes: left out, it is not UTF-8"),
        ("text", "a str: left out, media are MediaParts"),
        (None, "a NoneType: left out, media are MediaParts"),
    ],
)
def test_what_is_not_what_it_says_is_told_in_words(part, words):
    """A service would refuse it, and with it the whole conversation."""
    kept, told = checked_media([part], 100)

    assert kept == ()
    assert len(told) == 1
    assert told[0].startswith(words)


@pytest.mark.parametrize(
    ("part", "kept"),
    [
        (png(), png()),
        (png(bytearray(PNG)), png()),
        (png(memoryview(PNG)), png()),
        (png(mime_type="Image/PNG; charset=x"), png()),
        (png(kind="audio"), png()),
        (png(b"\xff\xd8\xff", mime_type="image/jpg"), png(b"\xff\xd8\xff", mime_type="image/jpeg")),
        (png(name="a\nb\x1b[31m.png"), png(name="a b [31m.png")),
        (png(name="\ud800"), png(name="\ufffd")),
        (png(name=7), png()),
        (png(b"<svg/>", mime_type="image/svg+xml"), png(b"<svg/>", mime_type="image/svg+xml")),
        (png(b"x", mime_type="application/x-any"), png(b"x", mime_type="application/x-any", kind="document")),
    ],
)
def test_what_is_kept_says_what_it_is(part, kept):
    """The kind follows the type, names are one line, data are bytes."""
    assert checked_media([part], 100) == ((kept,), ())


def test_the_bytes_of_a_result_are_limited_and_the_others_told():
    large = png(PNG + bytes(1000))

    kept, told = checked_media([png(), large, png()], 100)

    assert kept == (png(), png())
    assert told == ("image/png, 1,013 bytes: left out, the media of a result may have 100 bytes",)
    assert checked_media([png()], 0)[0] == ()


def test_the_parts_of_a_result_are_limited():
    kept, told = checked_media([png()] * 50, 10**6)

    assert (len(kept), told) == (32, ("18 more: left out, a result may have 32",))


any_part = st.builds(
    MediaPart,
    kind=st.sampled_from(["image", "audio", "video", "document"]),
    mime_type=st.sampled_from(["image/png", "text/plain", "x", "audio/wav"]) | st.text(max_size=8),
    data=st.none() | st.binary(max_size=20) | st.just(PNG),
    url=st.none() | st.text(max_size=20),
    name=st.none() | st.text(max_size=200),
)


@given(st.lists(any_part | st.integers(), max_size=6), st.integers(0, 60))
def test_each_part_is_kept_or_told(parts, limit):
    """Law: nothing is lost, nothing raises, the limit holds, and what is kept is kept again."""
    kept, told = checked_media(parts, limit)

    assert len(kept) + len(told) == len(parts)
    assert sum(len(part.data) for part in kept) <= limit
    assert all(part.data and part.kind == kind_of(part.mime_type) and part.url is None for part in kept)
    assert checked_media(kept, limit) == (kept, ())
    assert all(len(sentence.splitlines()) == 1 for sentence in told)


def test_sizes_in_words():
    assert describe_media(png(b"x" * 12345, name="a.png")) == "a.png (image/png, 12,345 bytes)"
    assert [in_brief(png(b"x" * n)) for n in (1, 1234, 12345, 1_500_000)] == [
        "[image/png, 1 byte]",
        "[image/png, 1.2 kB]",
        "[image/png, 12 kB]",
        "[image/png, 1.5 MB]",
    ]


def message(*media, content=None, **rest):
    result = ToolResult(success=True, tool_name="f", result=[1], media=media, left_out=("earlier",))
    return ToolMessage(
        tool_call_id="c", name="f", content=result.to_json() if content is None else content, media=media, **rest
    )


def test_a_model_that_takes_all_reads_the_message_itself():
    said = message(png())

    assert with_accepted_media(said, lambda part: True) is said


def test_a_model_that_takes_some_reads_of_the_others():
    """In the envelope, and each time it is the same message: what is remembered of it is found again."""
    svg = png(b"<svg/>", mime_type="image/svg+xml")
    said = message(png(), svg)

    shown = with_accepted_media(said, lambda part: part.mime_type == "image/png")

    told = json.loads(shown.content)
    assert (shown.media, shown.tool_call_id) == ((png(),), "c")
    assert told["media"] == [{"kind": "image", "mime_type": "image/png", "bytes": len(PNG)}]
    assert told["left_out"] == ["earlier", "image/svg+xml, 6 bytes: not shown, you cannot see it here"]
    assert told["result"] == [1]
    assert with_accepted_media(said, lambda part: part.mime_type == "image/png") is shown
    assert "media" not in json.loads(with_accepted_media(said, lambda part: False).content)


@pytest.mark.parametrize("content", ["words", "", "[1]", '{"a": 1}', '{"success": 1}', '{"success": true, "x": 1e999}'])
def test_words_stand_behind_what_is_no_envelope(content):
    said = message(png(), content=content)

    lines = with_accepted_media(said, lambda part: False).content.splitlines()

    assert lines[:-1] == content.splitlines()
    assert lines[-1] == f"[image/png, {len(PNG)} bytes: not shown, you cannot see it here]"


def test_a_failure_is_a_text():
    """Services refuse images in errors."""
    assert with_accepted_media(message(png(), is_error=True), lambda part: True).media == ()


def test_the_envelope_tells_of_media_without_their_bytes():
    result = ToolResult(success=True, tool_name="f", result=1, encoded="1", media=(png(name="a"),), left_out=("b: no",))

    described = {"kind": "image", "mime_type": "image/png", "bytes": 13, "name": "a"}
    assert json.loads(result.to_json()) == {**result.to_dict(), "media": [described]}
    assert result.to_dict()["media"] == [{**described, "sha256": result.media[0].sha256}]
    assert result.to_dict()["left_out"] == ["b: no"]
