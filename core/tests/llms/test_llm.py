"""The services of a config: one place says who is asked, and one given in code is asked as it is."""

import pytest
from flexchat.config.model import LLMEntry
from flexchat.domain import AssistantMessage, ChatOptions, ChatResult
from flexchat.endpoints import Endpoint
from flexchat.errors import ProviderOverloadedError, UnknownLLMError
from flexchat.llms.llm import LLM, Llms
from stream_of import answer_of

RESULT = ChatResult(message=AssistantMessage(), finish_reason="stop")


class Provider:
    """Fails as often as it is told, then answers; keeps the options it was asked with."""

    name = "own"

    def __init__(self, failures=0):
        self.failures, self.asked = failures, []

    async def generate_chat(self, messages, model, options):
        self.asked.append(options)
        if len(self.asked) <= self.failures:
            raise ProviderOverloadedError("busy", retry_after_s=0)
        return RESULT


class Unopened(dict):
    """Services that are opened when they are taken out."""

    def __getitem__(self, name):
        raise AssertionError("opened")


@pytest.fixture
def llms():
    return Llms([LLM(name="a", provider=Provider(), default_model="small"), LLM(name="b", provider=Provider())])


@pytest.mark.parametrize(("asked", "model"), [(("a",), "small"), (("a", "big"), "big"), (("b",), ""), (("b", ""), "")])
def test_the_model_is_the_given_one_else_the_entrys(llms, asked, model):
    """And none where neither says one: the provider knows what to make of it."""
    assert llms.resolve(*asked) == (llms[asked[0]], model)


def test_a_name_that_is_not_configured_is_told_with_those_that_are(llms):
    """Also those beside the config, which are not opened for that."""
    with pytest.raises(UnknownLLMError) as caught:
        llms.resolve("c", beside=Unopened(local=None))
    assert caught.value.known == ("a", "b", "local")


def test_a_service_of_the_config_comes_before_one_of_its_name_beside(llms):
    """Which is not opened either."""
    assert llms.resolve("a", beside=Unopened(a=None))[0] is llms["a"]


def test_providers_given_in_code_have_the_default_models_of_their_entries():
    """By their names in llms; one without an entry has none."""
    provider = Provider()
    llms = Llms.from_providers({"a": provider, "b": provider}, {"a": LLMEntry(provider="own", default_model="small")})

    assert {name: llm.default_model for name, llm in llms.items()} == {"a": "small", "b": None}
    assert all(llm.provider is provider for llm in llms.values())


async def test_what_is_given_in_code_is_asked_once_and_never_refused():
    """Neither repeated nor watched: what it raises is what the caller gets."""
    provider = Provider(failures=100)
    llm = Llms.from_providers({"a": provider})["a"]

    for _ in range(100):
        with pytest.raises(ProviderOverloadedError, match=r"^busy$"):
            await answer_of(llm, (), "m", ChatOptions())
    assert len(provider.asked) == 100


async def test_options_are_made_anew_only_where_less_time_is_left():
    """Without a time limit the same object goes into every attempt."""
    provider, options = Provider(failures=2), ChatOptions()
    llm = LLM(name="a", provider=provider, endpoint=Endpoint("e"), retries=2)

    assert await answer_of(llm, (), "m", options) is RESULT
    assert all(asked is options for asked in provider.asked)
    assert len(provider.asked) == 3


async def test_an_attempt_after_something_was_delivered_is_not_repeated():
    """Whoever drives the attempts says so."""
    llm = LLM(name="a", provider=Provider(), endpoint=Endpoint("e"))
    attempts = llm.attempts(None)
    error = ProviderOverloadedError("busy", retry_after_s=0)

    assert await attempts.wait_for_retry(error)
    attempts.delivered = True
    assert not await attempts.wait_for_retry(error)
