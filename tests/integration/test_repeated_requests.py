"""A turn repeats what its service failed to answer: not after the first event, nor while the breaker is open."""

import asyncio

import attrs
import pytest
from flexchat import AnswerEnd, AssistantMessage, FlexChat, TextDelta
from flexchat.endpoints import CIRCUIT_OPEN, MIN_CALLS
from flexchat.plugin import ChatResult, hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_sdk import ProviderOverloadedError, ProviderType, TextPart

RESULT = ChatResult(message=AssistantMessage(parts=(TextPart(text="hi"),)), finish_reason="stop")


@attrs.frozen
class Settings:
    """None."""


class Flaky:
    """Fails as often as it is told, before or after a piece of text, then answers."""

    name, endpoint = "flaky", "https://flaky.example"

    def __init__(self):
        self.failures, self.after_text, self.asked = 0, False, 0

    def tool_format(self, model):
        return "flaky"

    async def generate_chat(self, messages, model, options):
        self.asked += 1
        if self.asked <= self.failures:
            raise ProviderOverloadedError("busy", retry_after_s=0)
        return RESULT

    async def stream_chat(self, messages, model, options):
        if self.after_text:
            yield TextDelta(0, "h")
            for _ in range(5):  # the reader takes the piece
                await asyncio.sleep(0)
        result = await self.generate_chat(messages, model, options)
        yield TextDelta(0, "hi")
        yield AnswerEnd(result)

    async def list_models(self):
        return ()

    async def aclose(self):
        pass


@pytest.fixture
async def opened():
    """A chat over a flaky service, and the service."""
    provider, host = Flaky(), PluginHost(strict=True)

    class Plugin:
        @hookimpl
        def flexchat_register_providers(self):
            yield ProviderType(
                name="flaky", config_class=Settings, create=lambda _: provider, tool_formats={}, summary="x"
            )

    host.register(Plugin(), "own")
    async with FlexChat.from_model("flaky/m", plugins=host) as chat:
        yield chat, provider


async def said(chat, streamed):
    if not streamed:
        return (await chat.respond("hello")).content
    return "".join([event.text async for event in chat.stream("hello") if isinstance(event, TextDelta)])


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_failed_before_anything_arrived_is_asked_again(opened, streamed):
    """And the reader sees one answer."""
    chat, provider = opened
    provider.failures = 2

    assert await said(chat, streamed) == "hi"
    assert provider.asked == 3


async def test_what_failed_after_a_first_event_is_not_asked_again(opened):
    """What a person has read is not said again."""
    chat, provider = opened
    provider.failures, provider.after_text = 1, True

    with pytest.raises(ProviderOverloadedError, match="busy"):
        await said(chat, streamed=True)
    assert provider.asked == 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_service_that_keeps_failing_is_left_alone(opened, streamed):
    """Its error says so, and the provider is not asked."""
    chat, provider = opened
    provider.failures = 1000
    while provider.asked < MIN_CALLS:
        with pytest.raises(ProviderOverloadedError):
            await said(chat, streamed)

    asked = provider.asked
    with pytest.raises(ProviderOverloadedError, match="not asked for now") as caught:
        await said(chat, streamed)
    assert (provider.asked, caught.value.code) == (asked, CIRCUIT_OPEN)
