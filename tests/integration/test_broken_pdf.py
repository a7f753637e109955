"""A PDF that cannot be read, for a model that reads no PDFs: one sentence at each interface, and nothing is sent."""

import base64
import io
import json

import pytest
from flexchat import FlexChat
from flexchat.errors import ChatRequestError
from flexchat_cli.main import main
from flexchat_web.app import create_app
from pypdf import PdfWriter
from web_fixtures import client_of

CONFIG = """
[llms.there]
provider = "openai"  # at another address than OpenAI's, no PDFs are read; there, nothing answers
base_url = "http://127.0.0.1:9/v1"
api_key = "a-key-of-nothing"
retries = 0

[[responses]]
llm = "there"
model = "m"
"""


def written(*, password=None):
    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


DAMAGED = "it is damaged, and cannot be read"
ENCRYPTED = "the PDF is encrypted: save a copy of it without a password"
BROKEN = {
    "garbage": (b"%PDF-" + bytes(range(256)) * 40, DAMAGED),
    "nothing more": (b"%PDF-1.7\n", DAMAGED),
    "truncated": (written()[:200], DAMAGED),
    "encrypted": (written(password="secret"), ENCRYPTED),
    "encrypted at its end": (
        b"%PDF-1.7\n" + b"%" * 200_000 + b"\n" + written(password="secret").split(b"\n", 1)[1],
        ENCRYPTED,
    ),
    "without a text": (written(), "it holds no text, only pictures of pages"),
}

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("kind", BROKEN)]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The file of a configuration whose conversations are kept."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "flexchat.toml"
    file.write_text(CONFIG + '[conversations]\npath = "kept.db"\n')
    return file


async def test_the_library_raises(config, kind):
    data, text = BROKEN[kind]
    async with FlexChat.from_config(config) as chat:
        with pytest.raises(ChatRequestError, match=text) as raised:
            await chat.respond("Read it.", attachments=data)
    assert str(raised.value).count("\n") == 0


def test_the_command_line_prints_a_line(config, kind, tmp_path, capsys):
    data, text = BROKEN[kind]
    (tmp_path / "paper.pdf").write_bytes(data)

    status = main(["ask", "Read it.", "-a", "paper.pdf", "--no-stdin"])

    *_, line = capsys.readouterr().err.splitlines()
    assert status == (2 if text == ENCRYPTED else 1)  # the others are found once the model is known
    assert line.startswith("flexchat: ")
    assert "paper.pdf" in line
    assert text in line


@pytest.mark.parametrize("how", ["json", "form", "kept", "stream"])
async def test_the_api_answers_422(config, kind, how):
    data, text = BROKEN[kind]
    file = {"data": base64.b64encode(data).decode(), "name": "paper.pdf"}
    async with client_of(create_app(config)) as client:
        match how:
            case "form":
                files = {"attachments": ("paper.pdf", data, "application/pdf")}
                answer = await client.post("/chat/api", data={"prompt": "Read it."}, files=files)
            case "kept":
                kept = await client.post("/api/media", content=data)
                if kept.status_code == 201:
                    kept = await client.post(
                        "/chat/api",
                        json={"prompt": "Read it.", "attachments": [{"sha256": kept.json()["sha256"]}]},
                    )
                answer = kept
            case _:
                body = {"prompt": "Read it.", "attachments": [file], "stream": how == "stream"}
                answer = await client.post("/chat/api", json=body)
    if answer.headers["content-type"].startswith("text/event-stream"):
        last = json.loads(next(line[6:] for line in reversed(answer.text.splitlines()) if line.startswith("data: ")))
        assert (last["status"], text in last["detail"]) == (422, True)
        return
    assert answer.status_code == 422, answer.text
    assert text in answer.json()["detail"]


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
async def test_the_api_of_openai_answers_400(config, kind, path):
    data, text = BROKEN[kind]
    address = f"data:application/pdf;base64,{base64.b64encode(data).decode()}"
    if path == "responses":
        part = {"type": "input_file", "filename": "paper.pdf", "file_data": address}
        body = {"model": "flexchat", "input": [{"role": "user", "content": [part]}]}
    else:
        part = {"type": "file", "file": {"filename": "paper.pdf", "file_data": address}}
        body = {"model": "flexchat", "messages": [{"role": "user", "content": [part]}]}
    async with client_of(create_app(config)) as client:
        answer = await client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert text in error["message"]
    assert error["type"] == "invalid_request_error"
