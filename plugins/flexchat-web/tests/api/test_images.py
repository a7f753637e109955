"""Images that tools return, over HTTP."""

import json

from flexchat_testing import calls

CAMERA = """
from flexchat import MediaPart, WithMedia

GIF = b"GIF89a" + bytes(20)


async def photograph(size: int = 0):
    parts = [("image/gif", GIF + bytes(size)), ("image/svg+xml", b"<svg/>"), ("application/pdf", b"%PDF-")]
    return WithMedia("seen", [MediaPart(kind="image", mime_type=kind, data=data) for kind, data in parts])
"""
PHOTOGRAPH = {
    "name": "photograph",
    "description": "Take a picture.",
    "effect": "read",
    "parameters": {"type": "object", "properties": {"size": {"type": "integer"}}},
    "implementation": {"type": "python", "function": "camera_of_tests:photograph"},
}


async def camera(told, tmp_path, monkeypatch, *replies):
    (tmp_path / "camera_of_tests.py").write_text(CAMERA)
    monkeypatch.syspath_prepend(tmp_path)
    told.tables["tools"]["registry"].append(PHOTOGRAPH)
    if replies:
        told.says(*replies)
    return await told.client()


async def test_without_a_store_images_have_their_data_and_other_media_are_told_of(told, tmp_path, monkeypatch):
    """Only what a page shows, and only up to a limit: events stay small."""
    del told.tables["conversations"]
    client = await camera(told, tmp_path, monkeypatch)

    async def media(**arguments):
        body = {"name": "photograph", "arguments": arguments}
        return (await client.post("/api/tools/call", json=body)).json()["media"]

    gif, svg, pdf = await media()
    assert (gif["mime_type"], gif["bytes"], gif["data"][:8]) == ("image/gif", 26, "R0lGODlh")
    assert svg == {"kind": "image", "mime_type": "image/svg+xml", "bytes": 6}
    assert pdf == {"kind": "document", "mime_type": "application/pdf", "bytes": 5}
    assert "data" not in (await media(size=3_000_000))[0]


async def test_without_a_store_the_bytes_of_an_image_are_in_one_event_of_a_turn(told, tmp_path, monkeypatch, sse):
    """tool_finished has them; the turn at the end tells of them."""
    del told.tables["conversations"]
    client = await camera(told, tmp_path, monkeypatch, calls(("photograph", {})), "Done.")

    events = sse((await client.post("/chat/api", json={"prompt": "Photo", "stream": True})).text)

    with_data = [name for name, data in events if "R0lGODlh" in json.dumps(data)]
    assert with_data == ["tool_finished"]
    (turn,) = [data for name, data in events if name == "turn"]
    assert [part["bytes"] for part in turn["tool_calls"][0]["result"]["media"]] == [26, 6, 5]


async def test_media_of_results_are_named_by_their_digest(told, tmp_path, monkeypatch, sse):
    """In events, in the conversation and in its steps; each can be had as soon as its event has come."""
    client = await camera(told, tmp_path, monkeypatch, calls(("photograph", {})), "Done.")
    body = {"prompt": "Photo", "stream": True, "conversation": "c1"}

    async with client.stream("POST", "/chat/api", json=body) as response:
        text = ""
        async for piece in response.aiter_text():
            text += piece
    (finished,) = [data for name, data in sse(text) if name == "tool_finished"]
    shown = [(part["mime_type"], part["bytes"]) for part in finished["result"]["media"]]
    assert shown == [("image/gif", 26), ("image/svg+xml", 6), ("application/pdf", 5)]
    for part in finished["result"]["media"]:
        kept = await client.get(f"/api/media/{part['sha256']}")
        assert len(kept.content) == part["bytes"]

    conversation = (await client.get("/api/conversations/c1")).json()["turns"][0]
    (result,) = [message for message in conversation["messages"] if message["role"] == "tool"]
    digests = [part["sha256"] for part in finished["result"]["media"]]
    assert [part["sha256"] for part in result["media"]] == digests
    steps = (await client.get(f"/api/turns/{conversation['id']}")).json()["steps"]
    for told_of in (conversation, steps, finished):
        assert "R0lGODlh" not in json.dumps(told_of)

    answer = (await client.post("/api/tools/call", json={"name": "photograph", "arguments": {}})).json()
    assert [part["sha256"] for part in answer["media"]] == digests
