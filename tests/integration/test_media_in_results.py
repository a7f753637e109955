"""Images and files that a tool returns: from the tool through the loop to the model, whichever service it is at."""

import asyncio
import base64
import json

import attrs
import httpx
import pytest
from flexchat import (
    AssistantMessage,
    FlexChat,
    MediaPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    WithMedia,
    tool,
    write_history,
)
from flexchat.domain.media import kind_of
from flexchat.plugin import hookimpl
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.conformance import AnthropicConformance
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.conformance import GeminiConformance
from flexchat_gemini.provider import GeminiProvider
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.conformance import OllamaConformance
from flexchat_ollama.provider import OllamaProvider
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.conformance import ChatCompletionsConformance, ResponsesConformance
from flexchat_openai.provider import OpenAIProvider
from flexchat_sdk import ChatOptions, ProviderOverloadedError, media_behind_results
from flexchat_testing.scripted import ScriptedProvider, calls, says
from hypothesis import given, settings
from hypothesis import strategies as st

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = MediaPart(kind="image", mime_type="image/png", data=PNG, name="a.png")
DRAWING = MediaPart(kind="image", mime_type="image/svg+xml", data=b"<svg/>")
B64 = base64.b64encode(PNG).decode()


@tool(effect="read")
async def look(at: str):
    """Look at something."""
    return WithMedia({"seen": at}, [PICTURE, DRAWING])


@tool(effect="read")
async def count():
    """Count."""
    return 3


def config(*names, **changes):
    rule = {"llm": names[0], "model": "m", "fallback": [*names[1:]], "tools": {"enabled": True}}
    return {
        "llms": {name: {"provider": "scripted", "default_model": "m", "retries": 0} for name in names},
        "responses": [rule],
        **changes,
    }


class Seeing(ScriptedProvider):
    """A service whose models see PNG."""

    def takes_in_results(self, model, part):
        return part.mime_type == "image/png"


def results(request):
    return [message for message in request.messages if isinstance(message, ToolMessage)]


async def test_a_model_that_sees_is_shown_what_it_can_see():
    model = Seeing([calls(("look", {"at": "x"})), says("A dot.")])
    async with FlexChat.from_config(config("bot"), tools=[look], providers={"bot": model}) as chat:
        turn = await chat.respond("Look!")

    (shown,) = results(model.requests[1])
    told = json.loads(shown.content)
    assert (shown.media, told["result"]) == ((PICTURE,), {"seen": "x"})
    assert told["left_out"] == ["image/svg+xml, 6 bytes: not shown, you cannot see it here"]
    (record,) = turn.response.tool_calls
    assert record.result.media == (PICTURE, DRAWING)
    assert turn.response.messages[2].media == (PICTURE, DRAWING)  # the history keeps all, whoever is asked next


async def test_a_model_that_does_not_see_reads_what_there_was():
    model = ScriptedProvider([calls(("look", {"at": "x"})), says("I cannot see it.")])
    async with FlexChat.from_config(config("bot"), tools=[look], providers={"bot": model}) as chat:
        await chat.respond("Look!")

    (shown,) = results(model.requests[1])
    told = json.loads(shown.content)
    assert (shown.media, told["result"], "media" in told) == ((), {"seen": "x"}, False)
    assert told["left_out"][0] == f"a.png (image/png, {len(PNG)} bytes): not shown, you cannot see it here"


async def test_the_next_turn_and_another_model_may_see_less():
    """A history with media is told to each model as it can read it."""
    first = Seeing([calls(("look", {"at": "x"})), says("A dot.")])
    async with FlexChat.from_config(config("bot"), tools=[look], providers={"bot": first}) as chat:
        turn = await chat.respond("Look!")
    second = ScriptedProvider([says("I was told.")])
    async with FlexChat.from_config(config("bot"), tools=[look], providers={"bot": second}) as chat:
        await chat.respond("And now?", history=turn.response.messages)
    third = Seeing([says("I see.")])
    async with FlexChat.from_config(config("bot"), tools=[look], providers={"bot": third}) as chat:
        await chat.respond("And now?", history=[*turn.to_dict()["messages"]])

    assert results(second.requests[0])[0].media == ()
    assert results(third.requests[0])[0].media == (PICTURE,)


async def test_a_history_in_openais_form_has_words():
    """A tool's message there takes text only."""
    model = Seeing([calls(("look", {"at": "x"})), says("A dot.")])
    async with FlexChat.from_config(config("bot"), tools=[look], providers={"bot": model}) as chat:
        turn = await chat.respond("Look!")

    (said,) = [entry for entry in write_history(turn.response.messages) if entry["role"] == "tool"]
    assert said.keys() == {"role", "tool_call_id", "content"}
    assert "a.png (image/png, 70 bytes): not shown" in said["content"]


async def test_a_fallback_reads_what_it_can():
    down = ProviderOverloadedError("down", provider="bot")
    first = Seeing([calls(("look", {"at": "x"})), down])
    second = ScriptedProvider([says("I cannot see it.")])
    async with FlexChat.from_config(
        config("bot", "other"), tools=[look], providers={"bot": first, "other": second}
    ) as chat:
        turn = await chat.respond("Look!")

    assert turn.response.content == "I cannot see it."
    assert results(first.requests[1])[0].media == (PICTURE,)
    assert results(second.requests[0])[0].media == ()


async def test_a_kept_conversation_has_the_bytes_once(tmp_path):
    """In its message; and the next turn's model sees them again."""
    model = Seeing([calls(("look", {"at": "x"})), says("A dot."), says("Still a dot.")])
    path = tmp_path / "chat.db"
    made = config("bot", conversations={"provider": "sqlite", "path": str(path)})
    async with FlexChat.from_config(made, tools=[look], providers={"bot": model}) as chat:
        await chat.respond("Look!", conversation="c")
        (kept,) = await chat.conversations.turns("c")
        await chat.respond("And now?", conversation="c")
        exported = json.dumps(await chat.conversations.export_json("c"))
        markdown = await chat.conversations.export_markdown("c")

    assert kept.tool_calls[0].result.media == (PICTURE, DRAWING)
    assert results(model.requests[2])[0].media == (PICTURE,)
    assert exported.count(B64) == 1
    assert "[image: a.png]" in markdown


@pytest.mark.parametrize("limit", [10, 0])
async def test_what_is_too_large_is_told_in_words(limit):
    model = Seeing([calls(("look", {"at": "x"})), says("ok")])
    made = config("bot", tools={"max_media_bytes": limit})
    async with FlexChat.from_config(made, tools=[look], providers={"bot": model}) as chat:
        turn = await chat.respond("Look!")

    (shown,) = results(model.requests[1])
    said = f"a.png (image/png, {len(PNG)} bytes): left out, the media of a result may have {limit} bytes"
    assert said in json.loads(shown.content)["left_out"]
    assert turn.response.tool_calls[0].result.left_out[0] == said


async def test_a_failure_has_no_media_and_a_gate_may_answer_with_some():
    """What a plugin answers in a tool's place is held to the same rules."""

    class Answers:
        name, stage = "answers", "authorize"

        async def __call__(self, call, rest):
            if call.arguments["at"] == "nothing":
                return attrs.evolve(ToolResult.failed("look", "no"), media=(PICTURE,))
            fake = attrs.evolve(PICTURE, data=b"<html>")
            return ToolResult(success=True, tool_name="look", result=1, media=(PICTURE, fake))

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    async with FlexChat.from_config(config("bot"), tools=[look], hooks=[Answers()]) as chat:
        failed, answered = [await chat.call_tool("look", {"at": at}) for at in ("nothing", "x")]

    assert (failed.success, failed.media) == (False, ())
    assert answered.media == (PICTURE,)
    assert answered.left_out == ("a.png (image/png, 6 bytes): left out, its data are not image/png",)


async def test_a_tool_without_a_value_or_with_hostile_media():
    @tool(effect="read")
    async def alone():
        """Return a picture."""
        return PICTURE

    @tool(effect="read")
    async def hostile():
        """Return what is not media."""
        return WithMedia("v", [attrs.evolve(PICTURE, data=b"<script>"), "x", MediaPart(kind="image", mime_type="image/png", url="http://127.0.0.1/x")])  # fmt: skip # noqa: E501

    @tool(effect="read")
    async def broken():
        """Return a value that is not JSON."""
        return WithMedia(object(), [PICTURE])

    async with FlexChat.from_config(config("bot"), tools=[alone, hostile, broken]) as chat:
        one, two, three = [await chat.call_tool(name, {}) for name in ("alone", "hostile", "broken")]

    assert (one.result, one.media) == (None, (PICTURE,))
    assert (two.result, two.media, len(two.left_out)) == ("v", (), 3)
    assert "at http://127.0.0.1/x: left out" in two.left_out[2]
    assert (three.success, three.media) == (False, ())


# Each service, over a transport that answers what the service would


def served(kit, provider_of, *replies):
    """Return a provider whose service gives these replies, and the list of the bodies it was sent."""
    bodies, waiting = [], [*replies]

    def answer(request):
        body = json.loads(request.content)
        if request.url.path.endswith("/api/show"):
            return httpx.Response(200, json={"capabilities": ["completion", "tools", "vision"]})
        bodies.append(body)
        return httpx.Response(200, json=waiting.pop(0))

    return provider_of(httpx.MockTransport(answer)), bodies


def anthropic(transport):
    config = AnthropicConfig(api_key="k", max_tokens=100)
    return AnthropicProvider(config, transport=transport)


def openai(api, **rest):
    return lambda transport: OpenAIProvider(OpenAIConfig(api_key="k", api=api, **rest), transport=transport)


def gemini(transport):
    return GeminiProvider(GeminiConfig(api_key="k"), transport=transport)


SERVICES = {
    "anthropic": (AnthropicConformance(), "claude-sonnet-4-5", anthropic),
    "responses": (ResponsesConformance(), "gpt-5.4", openai("responses")),
    "chat": (ChatCompletionsConformance(), "gpt-4.1", openai("chat")),
    "gemini 3": (GeminiConformance(), "gemini-3-flash", gemini),
    "gemini 2": (GeminiConformance(), "gemini-2.5-pro", gemini),
    "ollama": (
        OllamaConformance(),
        "qwen3-vl",
        lambda t: OllamaProvider(OllamaConfig(base_url="http://h.example", media_in_results=True), transport=t),
    ),
}  # fmt: skip


def parts_of(name, body):
    """Return where the picture is: what comes after the call, in the service's words."""
    match name:
        case "anthropic":
            first, second = body["messages"][-1]["content"]
            return [part["type"] for part in first["content"]], first["content"][1]["source"], second["type"]
        case "responses":
            first, second = body["input"][-2:]
            return [part["type"] for part in first["output"]], first["output"][1]["image_url"], second["type"]
        case "chat":
            *said, user = body["messages"][-3:]
            return (
                [one["role"] for one in (*said, user)],
                [part["type"] for part in user["content"]],
                user["content"][1],
            )
        case "gemini 3":
            first, second = body["contents"][-1]["parts"]
            keys = [{*part["functionResponse"]} - {"id"} for part in (first, second)]
            return keys, first["functionResponse"]["parts"]
        case "gemini 2":
            held, user = body["contents"][-2:]
            return len(held["parts"]), held["role"], user["role"], [[*part] for part in user["parts"]]
        case "ollama":
            *said, user = body["messages"][-3:]
            return [one["role"] for one in (*said, user)], user["images"]


WHERE = {
    "anthropic": (["text", "image"], {"type": "base64", "media_type": "image/png", "data": B64}, "tool_result"),
    "responses": (["input_text", "input_image"], f"data:image/png;base64,{B64}", "function_call_output"),
    "chat": (
        ["tool", "tool", "user"],
        ["text", "image_url"],
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{B64}"}},
    ),
    "gemini 3": (
        [{"name", "response", "parts"}, {"name", "response"}],
        [{"inlineData": {"mimeType": "image/png", "data": B64}}],
    ),
    "gemini 2": (2, "user", "user", [["text"], ["inlineData"]]),
    "ollama": (["tool", "tool", "user"], [B64]),
}


@pytest.mark.parametrize("name", SERVICES)
async def test_a_turn_at_each_service(name):
    """Two calls in one answer, the first with a picture: each result stands with its call, the picture once."""
    kit, model, provider_of = SERVICES[name]
    reply = kit.tool_reply([("look", {"at": "x"}), ("count", {})])
    provider, bodies = served(kit, provider_of, reply, kit.text_reply("A dot."))
    made = config("bot")
    made["responses"][0]["model"] = model
    async with FlexChat.from_config(made, tools=[look, count], providers={"bot": provider}) as chat:
        turn = await chat.respond("Look, and count!")

    assert turn.response.content == "A dot."
    assert parts_of(name, bodies[1]) == WHERE[name]
    text = json.dumps(bodies[1])
    assert text.count(B64) == 1
    assert "image/svg+xml, 6 bytes: not shown" in text


@pytest.mark.parametrize("name", SERVICES)
async def test_a_history_with_media_goes_on_at_each_service(name):
    """Whoever's model was shown a picture: the next message has it once, in its place, and the user's is the last."""
    kit, model, provider_of = SERVICES[name]
    first = Seeing([calls(("look", {"at": "x"})), says("A dot.")])
    async with FlexChat.from_config(config("bot"), tools=[look], providers={"bot": first}) as chat:
        turn = await chat.respond("Look!")
    provider, bodies = served(kit, provider_of, kit.text_reply("Yes."))
    made = config("bot")
    made["responses"][0]["model"] = model
    async with FlexChat.from_config(made, tools=[look], providers={"bot": provider}) as chat:
        await chat.respond("Sure?", history=turn.response.messages)

    text = json.dumps(bodies[0])
    assert text.count(B64) == 1
    assert text.index("A dot.") > text.index(B64)
    assert [kit_result[1] for kit_result in kit.read_tool_results(bodies[0])]


@pytest.mark.parametrize(
    ("provider_of", "model", "takes"),
    [
        (anthropic, "claude-opus-5", True),
        (anthropic, "some-other-model", False),
        (lambda t: AnthropicProvider(AnthropicConfig(api_key="k", media_in_results=True), transport=t), "other", True),
        (lambda t: AnthropicProvider(AnthropicConfig(media_in_results=False), transport=t), "claude-opus-5", False),
        (openai("chat"), "gpt-4.1", True),
        (openai("chat"), "gpt-3.5-turbo", False),
        (openai("chat"), "gpt-4", False),
        (openai("chat"), "o3-mini", False),
        (openai("chat"), "o3", True),
        (openai("chat"), "unknown", False),
        (openai("chat", media_in_results=True), "unknown", True),
        (openai("chat", media_in_results=False), "gpt-4.1", False),
        (openai("chat", base_url="https://api.mistral.ai/v1", media_in_results=True), "pixtral", False),
        (openai("responses"), "gpt-5.4", True),
        (gemini, "gemini-2.5-flash", True),
        (gemini, "my-endpoint", False),
        (lambda t: GeminiProvider(GeminiConfig(media_in_results=False), transport=t), "gemini-3-flash", False),
        (lambda t: OllamaProvider(OllamaConfig(), transport=t), "qwen3-vl", False),
        (lambda t: OllamaProvider(OllamaConfig(media_in_results=True), transport=t), "qwen3-vl", True),
    ],
)
async def test_who_is_shown_images(provider_of, model, takes):
    """Models known to see, unless the entry says otherwise; never SVG, and never an address."""
    provider = provider_of(httpx.MockTransport(lambda request: httpx.Response(500)))

    assert provider.takes_in_results(model, PICTURE) is takes
    assert not provider.takes_in_results(model, DRAWING)
    assert not provider.takes_in_results(model, attrs.evolve(PICTURE, data=None, url="https://example.com/a.png"))
    await provider.aclose()


async def test_the_same_results_are_encoded_once():
    """A long loop costs no more for a picture at its beginning: the message behind the results is made once."""
    message = ToolMessage(tool_call_id="c", name="look", content="1", media=(PICTURE,))
    messages = (UserMessage("Look!"), message, UserMessage("And?"))

    one, two = (media_behind_results(messages, lambda part: True) for _ in range(2))

    assert [type(each) for each in one] == [UserMessage, ToolMessage, UserMessage, UserMessage]
    assert one[2] is two[2]
    assert "1. look: a.png (image/png" in one[2].content


TYPES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff",
    "image/svg+xml": b"<svg/>",
    "application/pdf": b"%PDF-1",
    "audio/wav": b"RIFF1234WAVE",
    "text/plain": b"words",
}
a_part = st.sampled_from([*TYPES]).map(lambda name: MediaPart(kind=kind_of(name), mime_type=name, data=TYPES[name]))
a_result = st.tuples(st.lists(a_part, max_size=2), st.booleans())
a_round = st.tuples(st.lists(a_result, min_size=1, max_size=3), st.sampled_from(["none", "answer", "answer and user"]))


def history_of(rounds):
    """A history with calls, each with a result that may have media or be a failure."""
    messages = [UserMessage("Begin.")]
    for results, then in rounds:
        asked = [ToolCall.from_object("look", {"n": n}) for n in range(len(results))]
        messages.append(AssistantMessage(parts=tuple(asked)))
        for call, (media, failed) in zip(asked, results, strict=True):
            result = ToolResult.failed("look", "no") if failed else ToolResult(success=True, tool_name="look", result=1)
            messages.append(
                ToolMessage(
                    tool_call_id=call.id, name="look", content=result.to_json(), is_error=failed, media=tuple(media)
                )
            )
        if then != "none":
            messages.append(AssistantMessage("Seen."))
        if then == "answer and user":
            messages.append(UserMessage("More."))
    return messages


def legal(name, body):
    """Check what each service insists on."""
    match name:
        case "anthropic":
            for message in body["messages"]:
                kinds = [block["type"] for block in message["content"]]
                assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
                for block in message["content"]:
                    if block["type"] == "tool_result" and block.get("is_error"):
                        assert isinstance(block["content"], str)
        case "responses":
            for item in body["input"]:
                if item.get("type") == "function_call_output" and not isinstance(item["output"], str):
                    assert {part["type"] for part in item["output"]} <= {"input_text", "input_image", "input_file"}
        case "chat" | "ollama":
            waiting = 0
            for message in body["messages"]:
                assert (message["role"] == "tool") is (waiting > 0)
                assert message["role"] != "tool" or isinstance(message["content"], str)
                waiting = len(message.get("tool_calls") or ()) or max(waiting - 1, 0)
            assert waiting == 0
        case "gemini 2" | "gemini 3":
            for content in body["contents"]:
                assert len({"functionResponse" in part for part in content["parts"]}) == 1
                for part in content["parts"]:
                    assert name == "gemini 3" or "parts" not in part.get("functionResponse", {})


@pytest.mark.parametrize("name", SERVICES)
@given(rounds=st.lists(a_round, min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_any_history_with_media_is_legal_at_each_service(name, rounds):
    """Law: also where nobody asked before what the model takes; and every result is there."""
    kit, model, provider_of = SERVICES[name]

    async def ask():
        provider, bodies = served(kit, provider_of, kit.text_reply("Yes."))
        await provider.generate_chat(history_of(rounds), model, ChatOptions())
        await provider.aclose()
        return bodies[0]

    body = asyncio.run(ask())

    legal(name, body)
    assert len(kit.read_tool_results(body)) == sum(len(results) for results, _ in rounds)
