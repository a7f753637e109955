"""Asking again: only what may be repeated, only before anything was seen, never longer than there is time."""

import asyncio

import pytest
from flexchat.domain import AssistantMessage, ChatOptions, ChatResult, StreamEnd, TextDelta, TextPart
from flexchat.errors import ProviderAuthError, ProviderConnectionError, ProviderOverloadedError, ProviderRateLimitError
from flexchat.services.retry import RetryingProvider

RESULT = ChatResult(message=AssistantMessage(parts=(TextPart(text="hi"),)), finish_reason="stop")


class Flaky:
    """Fails with the given errors, then answers; an error may come after some text was streamed."""

    name = "flaky"

    def __init__(self, *errors, after_text=False):
        self.errors, self.after_text = [*errors], after_text
        self.options = []

    def tool_format(self, model):
        return "flaky"

    async def generate_chat(self, messages, model, options):
        self.options.append(options)
        if self.errors:
            raise self.errors.pop(0)
        return RESULT

    async def stream_chat(self, messages, model, options):
        if self.after_text:
            yield TextDelta(0, "h")
        yield StreamEnd(await self.generate_chat(messages, model, options))

    async def list_models(self):
        return ()

    async def aclose(self):
        pass


@pytest.fixture
def waits(monkeypatch):
    """Waiting takes no time; how long it would have taken is written down."""
    seconds = []

    async def sleep(delay):
        seconds.append(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return seconds


async def ask(provider, **options):
    return await provider.generate_chat((), "m", ChatOptions(**options))


async def test_what_may_be_repeated_is_repeated(waits):
    """Two errors of the service's own making, then an answer; the wait doubles."""
    flaky = Flaky(ProviderOverloadedError("a"), ProviderConnectionError("b", retryable=True))

    assert await ask(RetryingProvider(flaky, retries=2, delay_s=1)) is RESULT
    assert 0.5 <= waits[0] <= 1 <= waits[1] <= 2


@pytest.mark.parametrize("error", [ProviderAuthError("no"), ProviderRateLimitError("no", kind="quota")])
async def test_what_would_fail_again_is_raised_at_once(waits, error):
    """A refused key, a spent budget."""
    with pytest.raises(type(error)):
        await ask(RetryingProvider(Flaky(error)))
    assert waits == []


async def test_it_gives_up_in_the_end(waits):
    """retries says how often."""
    flaky = Flaky(*[ProviderOverloadedError(str(n)) for n in range(5)])

    with pytest.raises(ProviderOverloadedError, match="2"):
        await ask(RetryingProvider(flaky, retries=2))
    assert len(flaky.options) == 3


async def test_the_services_own_wish_wins(waits):
    """Retry-After, up to a minute."""
    await ask(RetryingProvider(Flaky(ProviderRateLimitError("slow", retry_after_s=7))))
    assert waits == [7]

    with pytest.raises(ProviderRateLimitError):
        await ask(RetryingProvider(Flaky(ProviderRateLimitError("slow", retry_after_s=3600))))


async def test_nothing_is_waited_for_beyond_the_turns_end(waits):
    """A wait longer than what is left is not begun."""
    with pytest.raises(ProviderRateLimitError):
        await ask(RetryingProvider(Flaky(ProviderRateLimitError("slow", retry_after_s=7))), timeout_s=5)
    assert waits == []


async def test_time_that_has_passed_is_counted_once(monkeypatch):
    """Each attempt is told what is left of the first one's time."""
    now = [0.0]

    async def sleep(delay):
        now[0] += delay

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr("flexchat.services.retry.time.monotonic", lambda: now[0])
    flaky = Flaky(*[ProviderRateLimitError("slow", retry_after_s=2)] * 4)

    await ask(RetryingProvider(flaky, retries=4), timeout_s=10)

    assert [options.timeout_s for options in flaky.options] == [10, 8, 6, 4, 2]


async def test_a_stream_is_repeated_only_before_its_first_event(waits):
    """What a person has read is not said again."""
    early = RetryingProvider(Flaky(ProviderOverloadedError("x")))
    assert [type(e) async for e in early.stream_chat((), "m", ChatOptions())] == [StreamEnd]

    late = RetryingProvider(Flaky(ProviderOverloadedError("x"), after_text=True))
    with pytest.raises(ProviderOverloadedError):
        [e async for e in late.stream_chat((), "m", ChatOptions())]


def test_only_what_the_provider_can_do_is_offered():
    """A provider that cannot stream does not seem to."""

    class Plain:
        name = "plain"
        tool_format = generate_chat = list_models = aclose = None

    assert not hasattr(RetryingProvider(Plain()), "stream_chat")
