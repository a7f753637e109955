"""Media of a message: they reach the model, are kept with it, and are refused where their data are something else."""

from __future__ import annotations

import pytest
from flexchat import ChatRequestError, FlexChat, MediaPart, UserMessage

PNG = MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\n" + b"x" * 20, name="photo.png")
CONFIG = {"llms": {"m": {"provider": "rehearsal"}}, "responses": [{"llm": "m", "model": "any"}]}


async def test_an_attachment_is_part_of_the_message_and_of_the_conversation(tmp_path):
    async with FlexChat.from_config({**CONFIG, "conversations": {"path": str(tmp_path / "c.db")}}) as chat:
        turn = await chat.respond("Look.", attachments=PNG, conversation="c")
        (kept,) = await chat.conversations.turns("c")
    assert turn.response.messages[0] == kept.messages[0] == UserMessage("Look.", media=(PNG,))


async def test_a_message_of_an_attachment_alone():
    async with FlexChat.from_config(CONFIG) as chat:
        turn = await chat.respond("", attachments=[PNG, PNG])
        assert turn.response.messages[0].media == (PNG, PNG)
        with pytest.raises(ChatRequestError, match="the message is empty"):
            await chat.respond("", attachments=[])


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG"])
async def test_data_of_another_type_are_refused(data):
    part = MediaPart(kind="image", mime_type="image/png", data=data)
    async with FlexChat.from_config(CONFIG) as chat:
        with pytest.raises(ChatRequestError, match="image/png"):
            await chat.respond("Look.", attachments=part)
