"""Asking again: only what may be repeated, only before anything was seen, never longer than there is time."""

import asyncio

import pytest
from flexchat.domain import AnswerEnd, AssistantMessage, ChatOptions, ChatResult, Embeddings, TextDelta, TextPart
from flexchat.endpoints import CIRCUIT_OPEN, MIN_CALLS, Endpoint
from flexchat.errors import (
    MAX_RETRY_AFTER_S,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderRateLimitError,
)
from flexchat.llms.llm import LLM, MAX_WAIT_S
from hypothesis import given
from hypothesis import strategies as st
from stream_of import answer_of, stream_of

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
        yield AnswerEnd(await self.generate_chat(messages, model, options))

    async def list_models(self):
        if self.errors:
            raise self.errors.pop(0)
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


def opened(provider, endpoint=None, **rest):
    """The provider as an entry of llms, with an endpoint of its own unless one is given."""
    return LLM(**{"name": "mine", "provider": provider, "endpoint": endpoint or Endpoint("mine"), **rest})


async def ask(llm, **options):
    return await answer_of(llm, (), "m", ChatOptions(**options))


async def test_what_may_be_repeated_is_repeated(waits):
    """Two errors of the service's own making, then an answer."""
    flaky = Flaky(ProviderOverloadedError("a"), ProviderConnectionError("b", retryable=True))

    assert await ask(opened(flaky, retries=2, delay_s=1)) is RESULT
    assert 0 <= waits[0] <= 1
    assert 0 <= waits[1] <= 2


async def test_the_log_names_the_service_as_the_configuration_does(waits, caplog):
    """Two entries may have one provider."""
    await ask(opened(Flaky(ProviderOverloadedError("a")), name="mine"))
    await ask(opened(Flaky(ProviderOverloadedError("a")), name="other"))

    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["mine", "other"]


async def test_the_longest_wait_doubles_up_to_eight_seconds(waits, monkeypatch):
    """The wait itself is anything between nothing and that, so that clients do not come back all at once."""
    drawn = []
    monkeypatch.setattr("random.uniform", lambda low, high: drawn.append((low, high)) or high)
    flaky = Flaky(*[ProviderOverloadedError("x")] * 7)

    await ask(opened(flaky, retries=7, delay_s=0.5))

    assert drawn == [(0, s) for s in (0.5, 1, 2, 4, MAX_WAIT_S, 8, 8)]


@pytest.mark.parametrize("error", [ProviderAuthError("no"), ProviderRateLimitError("no", kind="quota")])
async def test_what_would_fail_again_is_raised_at_once(waits, error):
    """A refused key, a spent budget."""
    with pytest.raises(type(error)):
        await ask(opened(Flaky(error)))
    assert waits == []


async def test_it_gives_up_in_the_end(waits):
    """retries says how often."""
    flaky = Flaky(*[ProviderOverloadedError(str(n)) for n in range(5)])

    with pytest.raises(ProviderOverloadedError, match="2"):
        await ask(opened(flaky, retries=2))
    assert len(flaky.options) == 3


async def test_the_services_own_wish_wins(waits):
    """Retry-After, up to a minute."""
    await ask(opened(Flaky(ProviderRateLimitError("slow", retry_after_s=7))))
    assert waits == [7]

    with pytest.raises(ProviderRateLimitError, match=r"slow \(it asks to wait 3600 s\)") as caught:
        await ask(opened(Flaky(ProviderRateLimitError("slow", retry_after_s=3600))))
    assert caught.value.retry_after_s == 3600
    with pytest.raises(ProviderRateLimitError, match=r"slow \(it asks to wait a year or longer\)"):
        await ask(opened(Flaky(ProviderRateLimitError("slow", retry_after_s=MAX_RETRY_AFTER_S))))
    assert waits == [7]


async def test_nothing_is_waited_for_beyond_the_turns_end(waits):
    """A wait longer than what is left is not begun."""
    with pytest.raises(ProviderRateLimitError):
        await ask(opened(Flaky(ProviderRateLimitError("slow", retry_after_s=7))), timeout_s=5)
    assert waits == []


async def test_time_that_has_passed_is_counted_once(monkeypatch):
    """Each attempt is told what is left of the first one's time."""
    now = [0.0]

    async def sleep(delay):
        now[0] += delay

    monkeypatch.setattr(asyncio, "sleep", sleep)
    flaky = Flaky(*[ProviderRateLimitError("slow", retry_after_s=2)] * 4)

    await ask(opened(flaky, Endpoint("e", lambda: now[0]), retries=4), timeout_s=10)

    assert [options.timeout_s for options in flaky.options] == [10, 8, 6, 4, 2]


async def test_a_stream_is_repeated_only_before_its_first_event(waits):
    """What a person has read is not said again."""
    early = opened(Flaky(ProviderOverloadedError("x")))
    assert [type(e) async for e in stream_of(early, (), "m", ChatOptions())] == [AnswerEnd]

    late = opened(Flaky(ProviderOverloadedError("x"), after_text=True))
    with pytest.raises(ProviderOverloadedError):
        [e async for e in stream_of(late, (), "m", ChatOptions())]


class Able(Flaky):
    """Can do everything."""

    endpoint = "https://api.example"
    follows_instructions = False

    def combines_tools_and_format(self, model):
        return False

    async def embed(self, texts, model, *, purpose=None, dimensions=None, timeout_s=None):
        self.options.append((texts, model, purpose, dimensions, timeout_s))
        if self.errors:
            raise self.errors.pop(0)
        return Embeddings(vectors=((1.0,),))


def test_what_a_provider_can_do_is_asked_of_itself():
    """Nothing stands before it; whether it streams is looked up once."""

    class Plain:
        name = "plain"

    plain, able = opened(Plain()), opened(Able())
    assert (plain.streams, able.streams) == (False, True)
    assert type(able.provider) is Able


async def test_embedding_and_listing_are_repeated_too(waits):
    """With the arguments they were called with."""
    able = Able(ProviderOverloadedError("x"))
    await opened(able).embed(["a"], "m", purpose="query", dimensions=3)
    assert able.options == [(["a"], "m", "query", 3, None)] * 2

    able.errors = [ProviderOverloadedError("x")]
    assert await opened(able).list_models() == ()
    assert len(waits) == 2


async def test_repetitions_end_with_the_budget(waits):
    """Of a hundred requests to a service that fails no more than a tenth, and the reserve, are sent twice."""
    flaky = Flaky(*[ProviderRateLimitError("x")] * 1000)
    provider = opened(flaky, Endpoint("e", lambda: 0.0))

    for _ in range(100):
        with pytest.raises(ProviderRateLimitError):
            await ask(provider)

    assert 110 <= len(flaky.options) <= 120


async def test_an_open_breaker_is_heard_at_once(waits):
    """No attempt and no wait; a service elsewhere is not concerned."""
    endpoint = Endpoint("https://api.example", lambda: 0.0)
    flaky = Flaky(*[ProviderOverloadedError("it burns")] * MIN_CALLS)
    broken = opened(flaky, endpoint, retries=0)
    for _ in range(MIN_CALLS):
        with pytest.raises(ProviderOverloadedError, match="it burns"):
            await ask(broken)

    neighbour = opened(Able(), endpoint)
    for refused in (
        ask(neighbour),
        anext(stream_of(neighbour, (), "m", ChatOptions())),
        neighbour.embed(["a"], "m"),
        neighbour.list_models(),
    ):
        with pytest.raises(ProviderOverloadedError, match="not asked for now") as caught:
            await refused
        assert caught.value.retryable
        assert (caught.value.provider, caught.value.code) == (neighbour.provider.name, CIRCUIT_OPEN)

    assert waits == []
    assert await ask(opened(Flaky())) is RESULT


async def test_the_error_that_opens_the_breaker_is_raised_without_waiting(waits):
    """What is refused in a moment is not waited for."""
    endpoint = Endpoint("e", lambda: 0.0)
    flaky = Flaky(*[ProviderOverloadedError(str(n)) for n in range(100)])
    provider = opened(flaky, endpoint, retries=0)
    for _ in range(MIN_CALLS - 1):
        with pytest.raises(ProviderOverloadedError):
            await ask(provider)

    with pytest.raises(ProviderOverloadedError, match=r"^19$"):
        await ask(opened(flaky, endpoint, retries=5))

    assert waits == []


async def test_a_stream_that_is_left_halfway_counts_as_answered(waits):
    """And one that breaks halfway as failed."""
    endpoint = Endpoint("e", lambda: 0.0)
    fine = opened(Flaky(after_text=True), endpoint)
    for _ in range(MIN_CALLS // 2):
        events = stream_of(fine, (), "m", ChatOptions())
        await anext(events)
        await events.aclose()
    late = opened(Flaky(*[ProviderOverloadedError("x")] * 99, after_text=True), endpoint)
    for _ in range(MIN_CALLS // 2):
        assert not endpoint.breaker.is_open
        with pytest.raises(ProviderOverloadedError):
            [e async for e in stream_of(late, (), "m", ChatOptions())]

    assert endpoint.breaker.is_open


@given(
    st.lists(st.tuples(st.booleans(), st.none() | st.floats(0, 200)), max_size=6),
    st.integers(0, 5),
    st.none() | st.floats(0.1, 100),
)
def test_waits_and_attempts_stay_within_their_bounds(errors, retries, timeout_s):
    """Whatever fails how: never more attempts than allowed, never a wait over a minute or beyond the time there is."""
    now, slept = [0.0], []

    async def sleep(delay):
        slept.append(delay)
        now[0] += delay

    flaky = Flaky(*[ProviderOverloadedError("x", retryable=r, retry_after_s=s) for r, s in errors])
    provider = opened(flaky, Endpoint("e", lambda: now[0]), retries=retries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "sleep", sleep)
        try:
            asyncio.run(answer_of(provider, (), "m", ChatOptions(timeout_s=timeout_s)))
        except ProviderOverloadedError:
            assert errors
        else:
            assert len(flaky.options) == len(errors) + 1

    assert len(flaky.options) <= retries + 1
    assert all(0 <= s <= 60 for s in slept)
    if timeout_s is not None:
        assert sum(slept) < timeout_s
        assert all(0 < options.timeout_s <= timeout_s for options in flaky.options)
