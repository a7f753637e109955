"""ask -a FILE|URL and -O FOLDER, and /attach and /pin in a conversation."""

from __future__ import annotations

import pytest
from flexchat import AssistantMessage, MediaPart
from flexchat.domain import AnswerEnd, ChatResult
from flexchat_testing.scripted import ScriptedProvider

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
IMAGE = MediaPart(kind="image", mime_type="image/png", data=PNG)


@pytest.fixture
def seen(script, monkeypatch):
    """The messages that the model was sent."""
    script('{ text = "ok" }')
    messages = []

    async def stream_chat(self, sent, model, options):
        messages.append(sent[-1])
        yield AnswerEnd(ChatResult(message=AssistantMessage("ok"), model=model, finish_reason="stop"))

    monkeypatch.setattr(ScriptedProvider, "stream_chat", stream_chat)
    return messages


def test_files_and_standard_input_are_attached_in_their_order(run, seen, tmp_path):
    (tmp_path / "photo.png").write_bytes(PNG)
    ran = run("ask", "-a", "photo.png", "-a", "-", "What is this?", stdin=PNG)

    assert [part.name for part in seen[-1].media] == ["photo.png", None]
    assert seen[-1].content == "What is this?"
    assert "attached: photo.png (image/png, 28 bytes)" in ran.err
    assert ran.out == "ok\n"


def test_an_attachment_needs_no_message(run, seen, tmp_path):
    (tmp_path / "photo.png").write_bytes(PNG)
    assert run("ask", "--no-stdin", "-a", "photo.png").status == 0
    assert seen[-1].content == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-a", "phot.png"), "'phot.png': there is no such file (did you mean 'photo.png'?)"),
        (("-a", "."), "this is a folder, not a file"),
        (("-a", "empty"), "it is empty"),
        (("-a", "http://127.0.0.1:9/x.png"), "127.0.0.1"),
        (("-a", "-", "-f", "-"), "standard input can be read once"),
        (("-a", "photo.png", "--save", "x"), "--save keeps no attachments"),
        (("-O", "out", "--queue"), "-O writes what an answer brings"),
    ],
)
def test_what_cannot_be_attached_is_an_error_of_usage(run, seen, tmp_path, words, text):
    (tmp_path / "photo.png").write_bytes(PNG)
    (tmp_path / "empty").touch()
    ran = run("ask", *words, "x")
    assert text in ran.err
    assert (ran.status, seen) == (2, [])


@pytest.fixture
def paints(script, monkeypatch):
    """A model that answers with two images, one of them with a name that leads elsewhere."""
    script('{ text = "ok" }')
    named = MediaPart(kind="image", mime_type="image/png", data=PNG, name="../../cat.jpg")
    linked = MediaPart(kind="image", mime_type="image/png", url="https://example.com/a.png")

    async def stream_chat(self, sent, model, options):
        message = AssistantMessage((IMAGE, named, linked))
        yield AnswerEnd(ChatResult(message=message, model=model, finish_reason="stop"))

    monkeypatch.setattr(ScriptedProvider, "stream_chat", stream_chat)


def test_what_a_model_makes_is_written_under_free_names(run, paints, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "image.png").write_bytes(b"mine")
    (tmp_path / "out" / "image-2.png").symlink_to(tmp_path / "elsewhere")
    ran = run("ask", "-O", "out", "Paint.")

    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "image.png",
        "image-2.png",
        "image-3.png",
        "cat.jpg.png",
    }
    assert (tmp_path / "out" / "image.png").read_bytes() == b"mine"
    assert (tmp_path / "out" / "image-3.png").read_bytes() == PNG
    assert not (tmp_path / "elsewhere").exists()
    assert "https://example.com/a.png" in ran.err


def test_without_a_folder_what_a_model_makes_is_reported(run, paints):
    assert "[image/png, 28 bytes] (-O FOLDER writes it to a file)" in run("ask", "Paint.").err


def test_a_folder_that_is_a_file_is_an_error(run, paints, tmp_path):
    (tmp_path / "out").touch()
    assert run("ask", "-O", "out", "Paint.").status == 2


def test_a_file_is_attached_to_the_next_message_of_a_conversation(run, seen, tmp_path):
    (tmp_path / "photo.png").write_bytes(PNG)
    ran = run("chat", stdin=b"/attach photo.png\n/attach none.png\n/attach\nLook.\nAnd now?\n")

    photo = MediaPart(kind="image", mime_type="image/png", data=PNG, name="photo.png")
    assert [message.media for message in seen] == [(photo,), ()]
    assert "'none.png': there is no such file" in ran.err
    assert "photo.png (image/png, 28 bytes)" in ran.err


def test_the_next_message_of_a_conversation_is_pinned(run, seen):
    run("chat", stdin=b"/pin\nMy order is 4711.\nAnd now?\n")
    assert [message.pinned for message in seen] == [True, False]
