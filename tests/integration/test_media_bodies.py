"""One conversation with a photo, a paper and a tool's image: whole bodies of requests, for each service.

The bodies are in media_bodies.json, with names in place of Base64, and of the ids of calls.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from flexchat import FlexChat, MediaPart, WithMedia, tool
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import OllamaProvider
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

pytestmark = pytest.mark.slow

BODIES = json.loads(Path(__file__).with_name("media_bodies.json").read_text())
MODELS = {
    "anthropic": "claude-opus-4-5",
    "gemini": "gemini-2.5-flash",
    "ollama": "m",
    "openai": "gpt-4o",
    "responses": "gpt-5.2",
}


def paper():
    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    text = DecodedStreamObject()
    text.set_data(b"BT /F1 12 Tf 10 100 Td (Sand Point) Tj ET")
    page[NameObject("/Contents")] = writer._add_object(text)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


FILES = {
    "photo": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x0a" + bytes(76),
    "paper": paper(),
    "chart": b"\xff\xd8\xff\xe0chart",
}
ATTACHED = [
    MediaPart(kind="image", mime_type="image/png", data=FILES["photo"], name="photo.png"),
    MediaPart(kind="document", mime_type="application/pdf", data=FILES["paper"], name="paper.pdf"),
]


@tool(effect="read")
def draw() -> WithMedia:
    """Draw a chart."""
    return WithMedia("drawn", [MediaPart(kind="image", mime_type="image/jpeg", data=FILES["chart"], name="chart.jpg")])


def message(text, id):
    return {"type": "message", "id": id, "role": "assistant", "content": [{"type": "output_text", "text": text}]}


CALLS = {
    "anthropic": {
        **{"id": "i", "type": "message", "role": "assistant", "model": "x", "stop_reason": "tool_use"},
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "draw", "input": {}}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "gemini": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"functionCall": {"name": "draw", "args": {}}}]},
                "finishReason": "STOP",
            }
        ]
    },
    "ollama": {
        "message": {"role": "assistant", "tool_calls": [{"function": {"name": "draw", "arguments": {}}}]},
        **{"done": True, "done_reason": "stop"},
    },
    "openai": {
        "choices": [
            {
                "message": {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "draw", "arguments": "{}"}}
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "draw", "arguments": "{}"}],
    },
}
TEXTS = {
    "anthropic": {**CALLS["anthropic"], "stop_reason": "end_turn", "content": [{"type": "text", "text": "Seen."}]},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Seen."}]}, "finishReason": "STOP"}]},
    "ollama": {"message": {"role": "assistant", "content": "Seen."}, "done": True, "done_reason": "stop"},
    "openai": {"choices": [{"message": {"role": "assistant", "content": "Seen."}, "finish_reason": "stop"}]},
    "responses": {"status": "completed", "output": [message("Seen.", "msg_1")]},
}


def provider(name, bodies):
    def answer(request):
        if request.url.path.endswith("/show"):
            return httpx.Response(200, json={"capabilities": ["completion", "vision", "tools"]})
        bodies.append(json.loads(request.content))
        is_shown = base64.b64encode(FILES["chart"]) in request.content
        return httpx.Response(200, json=(TEXTS if is_shown else CALLS)[name])

    transport = httpx.MockTransport(answer)
    match name:
        case "anthropic":
            return AnthropicProvider(AnthropicConfig(api_key="k", max_tokens=1000), transport=transport)
        case "gemini":
            return GeminiProvider(GeminiConfig(api_key="k"), transport=transport)
        case "ollama":
            return OllamaProvider(OllamaConfig(media_in_results=True), transport=transport)
    return OpenAIProvider(OpenAIConfig(api_key="k"), transport=transport)


def chat_with(name, bodies, folder):
    config = {
        "llms": {"m": {"provider": "openai", "retries": 0}},
        "responses": [{"llm": "m", "model": MODELS[name], "prompt": "Be brief.", "tools": {"enabled": True}}],
        "conversations": {"path": str(folder / "kept.db")},
    }
    return FlexChat.from_config(config, tools=[draw], providers={"m": provider(name, bodies)})


def readable(body, ids):
    """A body with names in place of Base64 and of ids of calls."""
    text = json.dumps(body, ensure_ascii=False)
    for name, data in FILES.items():
        text = text.replace(base64.b64encode(data).decode(), f"<{name}>")
    for id in ids:
        text = text.replace(json.dumps(id), '"<call>"')
    return json.loads(re.sub(r'(execution_time_ms\\": )[0-9]+', r"\g<1>0", text))


def call_ids(value):
    """The ids of calls in a body, wherever a service has them."""
    ids, waiting = set(), [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            ids |= {item[key] for key in ("call_id", "tool_call_id", "tool_use_id") if key in item}
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return ids


@pytest.mark.parametrize("then", MODELS)
@pytest.mark.parametrize("first", MODELS)
async def test_a_conversation_moves_between_services_with_all_its_media(tmp_path, first, then):
    """The first turn at one service, kept, and the second in another program at the other, or the same."""
    earlier, bodies = [], []
    async with chat_with(first, earlier, tmp_path) as chat:
        turn = await chat.respond("A photo and a paper.", attachments=ATTACHED, conversation="c")
    assert (turn.content, len(earlier)) == ("Seen.", 2)
    assert readable(earlier[1], call_ids(earlier[1])) == BODIES[first]["first turn"]

    async with chat_with(then, bodies, tmp_path) as chat:
        turn = await chat.respond("And now?", conversation="c")
    assert (turn.content, len(bodies)) == ("Seen.", 1)
    own = BODIES[then].get("second turn, from itself") if first == then else None
    assert readable(bodies[0], call_ids(bodies[0])) == (own or BODIES[then]["second turn"])


async def test_a_conversation_with_media_is_exported_with_files_and_deleted_with_them(tmp_path):
    """Two conversations show the photo; it goes with the second."""
    bodies, media = [], {}

    def number_stored():
        with closing(sqlite3.connect(tmp_path / "kept.db")) as database:
            return database.execute("SELECT count(*) FROM media").fetchone()[0]

    async with chat_with("openai", bodies, tmp_path) as chat:
        await chat.respond("A photo and a paper.", attachments=ATTACHED, conversation="c")
        await chat.respond("And now?", conversation="c")
        await chat.respond("The photo again.", attachments=ATTACHED[0], conversation="d")
        exported = json.dumps(await chat.conversations.export_json("c", media=media))
        assert sorted(media.values()) == sorted(FILES.values())
        assert all(f'"sha256": "{digest}"' in exported for digest in media)
        assert base64.b64encode(FILES["paper"]).decode() not in exported
        assert number_stored() == 3
        await chat.conversations.delete("c")
        assert number_stored() == 2, "the photo and the chart, of the other conversation"
        await chat.conversations.delete("d")
        assert number_stored() == 0
