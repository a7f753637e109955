"""Variables of one's own in prompts: [variables] and respond(variables=…)."""

import pytest
from flexchat import ChatRequest, ConfigError, FlexChat
from flexchat.config.model import ResponseRule
from flexchat.config.own_variables import OWN_NAMES
from flexchat.errors import ChatRequestError
from flexchat_testing.scripted import ScriptedProvider
from flexchat_validation.attempting import attempt_case
from flexchat_validation.attempts import ModelKey
from flexchat_validation.cases import AnswerCheck, Case, ValidationTable

CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "responses": [{"llm": "bot", "model": "m", "prompt": "{{company.name}}, {{tone}}, {{user_message}}."}],
    "variables": {"company": {"name": "Acme"}, "tone": "calm"},
}


def chat_with(model, **changes):
    return FlexChat.from_config({**CONFIG, **changes}, providers={"bot": model})


async def test_prompts_show_them_beside_the_profiles_fields():
    """Those of a request go before the configuration's, an argument before a ChatRequest's; values stay values."""
    model = ScriptedProvider(["a", "b", "c"])
    async with chat_with(model) as chat:
        await chat.respond("hi")
        await chat.respond("hi", variables={"tone": "{{user_message}}"})
        await chat.respond(ChatRequest(user_message="hi", variables={"tone": 1, "x": 2}), variables={"tone": True})

    assert [request.messages[0].content for request in model.requests] == [
        "Acme, calm, hi.",
        "Acme, {{user_message}}, hi.",
        "Acme, true, hi.",
    ]


@pytest.mark.parametrize("name", OWN_NAMES)
async def test_a_name_of_flexchats_own_is_refused(name):
    """In a configuration and in a request."""
    with pytest.raises(ConfigError, match=f"variables.{name}: '{name}' is FlexChat's own variable"):
        chat_with(ScriptedProvider([]), variables={name: "x"})
    async with chat_with(ScriptedProvider([])) as chat:
        with pytest.raises(ChatRequestError, match=f"'{name}' is FlexChat's own variable"):
            await chat.respond("hi", variables={name: "x"})


@pytest.mark.parametrize("wrong", [{"a b": 1}, {"a.b": 1}, {1: 2}, {"a": object()}, {"a": float("nan")}, [1], "x"])
async def test_what_no_prompt_can_show_is_refused(wrong):
    async with chat_with(ScriptedProvider([])) as chat:
        with pytest.raises(ChatRequestError, match="variables"):
            await chat.respond("hi", variables=wrong)


async def test_a_rule_to_be_tried_shows_them_too():
    """with_rule keeps those of the configuration, and takes those of a request."""
    model = ScriptedProvider(["a"])
    async with chat_with(model) as chat:
        tried = chat.with_rule(ResponseRule(llm="bot", model="m", prompt="{{company.name}}, {{tone}}"))
        await tried.respond("hi", variables={"tone": "glad"})

    assert model.requests[0].messages[0].content == "Acme, glad"


async def test_validation_asks_with_them():
    model = ScriptedProvider(["a"])
    case = Case(name="c", message="hi", answer=AnswerCheck(contains=("a",)))
    async with chat_with(model) as chat:
        outcome = await attempt_case(
            chat, "bot/m", case, ValidationTable(prompt="{{tone}}"), key=ModelKey(model_id="bot/m")
        )

    assert (outcome.attempt.outcome, model.requests[0].messages[0].content) == ("passed", "calm")


async def test_a_question_that_can_be_asked_can_be_explained():
    async with chat_with(ScriptedProvider([])) as chat:
        assert (await chat.explain("hi", variables={"tone": "glad"})).rule == 0
        with pytest.raises(ChatRequestError, match="'topic' is FlexChat's own variable"):
            await chat.explain("hi", variables={"topic": "x"})
