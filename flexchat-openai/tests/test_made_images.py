"""Images that the Responses API makes with its own tool: parts of the answer, and sent back whole."""

import base64
import json

import httpx
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_sdk import ChatOptions, MediaPart, UserMessage

IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(20)
CALL = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "output_format": "png"}


async def test_an_image_is_a_part_that_is_kept_once_and_goes_back_as_it_came() -> None:
    """The next request has the item of the answer; what is stored has its Base64 nowhere else."""
    item = {**CALL, "result": base64.b64encode(IMAGE).decode()}
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={"id": "r", "model": "x", "status": "completed", "output": [item]})

    provider = OpenAIProvider(OpenAIConfig(api_key="k"), transport=httpx.MockTransport(answer))
    question = UserMessage("Paint.")
    result = await provider.generate_chat([question], "gpt-5.2", ChatOptions())
    (part,) = result.message.parts
    assert isinstance(part, MediaPart)
    assert (part.mime_type, part.data) == ("image/png", IMAGE)
    assert part.provider_data is not None
    assert part.provider_data.data["item"] == CALL

    await provider.generate_chat([question, result.message, UserMessage("Again.")], "gpt-5.2", ChatOptions())
    assert item in bodies[1]["input"]
