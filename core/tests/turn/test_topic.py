"""Phase 1: topics, as models really tell them."""

import anyio
import pytest
from engines import asker
from flexchat.config.model import ModelChoice
from flexchat.domain import AssistantMessage, ChatRequest, TextPart, UserMessage
from flexchat.errors import ProviderConnectionError
from flexchat.turn.detection import MAX_TOPIC_CHARS, PROMPT, PhaseNotes, Topic, TopicDetector, json_objects, read_topic
from flexchat_testing.scripted import ScriptedProvider, says
from hypothesis import given
from hypothesis import strategies as st

MESSAGE = "How much does the annual ticket for Vienna cost, and where can I buy it?"

BOT = ModelChoice(llm="bot", model="m")


def detector(*replies, choice=BOT, prompt=None, timeout_s=5.0, kind=ScriptedProvider):
    provider = kind(replies)
    topics = TopicDetector(choice, prompt, 200)

    def detect(request, notes):
        return topics.detect(request, asker(provider, notes, timeout_s), notes)

    return detect, provider


@pytest.mark.parametrize(
    ("answer", "topic", "status"),
    [
        ('{"topic_status": "new_topic", "topic_summary": "annual ticket"}', "annual ticket", "new_topic"),
        ('{"topic_status": "continuation", "topic_summary": "annual ticket"}', "annual ticket", "continuation"),
        ('```json\n{"topic_status": "new_topic", "topic_summary": "fares"}\n```', "fares", "new_topic"),
        (
            'Sure! Here it is:\n{"topic_status":"new_topic","topic_summary":"fares"}\nAnything else?',
            "fares",
            "new_topic",
        ),
        ('{"topic": "fares"}', "fares", "continuation"),
        ('{"result": {"topic_status": "new_topic", "topic_summary": "fares"}}', "fares", "new_topic"),
        ('{"note": {"a": {"b": 1}}} {"topic_summary": "fares"}', "fares", "continuation"),
        ("{'topic_status': 'new_topic', 'topic_summary': 'fares'}", "fares", "new_topic"),
        ('{"topic_status": "new_topic", "topic_summary": "fares in Vi', "fares in Vi", "new_topic"),
        ('{topic_status: "new_topic", topic_summary: "fares",}', "fares", "new_topic"),
        ("topic_status: 'new_topic'\ntopic_summary: 'fares'", "fares", "new_topic"),
        ("The topic is: **Fares in Vienna**.", "Fares in Vienna", "continuation"),
        ('Topic: "fares"', "fares", "continuation"),
        ("- C# generics", "C# generics", "continuation"),
        ("fares\n\nThe user asks for the price.", "fares", "continuation"),
        ('{"topic_status": "NEW TOPIC", "topic_summary": "  fares \\n in   Vienna. "}', "fares in Vienna", "new_topic"),
        ('{"topic_status": null, "topic_summary": "fares"}', "fares", "continuation"),
        ('{"topic_summary": 7}', "trains", "continuation"),
        ('{"topic_summary": ""}', "trains", "continuation"),
        ('{"topic_summary": "None"}', "trains", "continuation"),
        ('{"topic_status": "new_topic", "topic_summary": "general"}', "trains", "continuation"),
        ("", "trains", "continuation"),
        ("``` \n{}\n```", "trains", "continuation"),
    ],
)
def test_a_topic_is_read_out_of_whatever_a_model_answers(answer, topic, status):
    """Fences, prose, wrong quotes, answers cut off, no JSON at all: what says nothing leaves the topic as it was."""
    assert read_topic(answer, MESSAGE, "trains") == Topic(topic, status)


def test_at_the_start_the_topic_is_always_new_and_falls_back_to_the_beginning_of_the_message():
    assert read_topic('{"topic_status": "continuation", "topic_summary": "fares"}', MESSAGE, "").status == "new_topic"
    assert read_topic("none", MESSAGE, "") == Topic("How much does the annual ticket for Vien", "new_topic")


@given(st.text(), st.text(min_size=1), st.text())
def test_any_answer_gives_a_topic(answer, message, current):
    """A model may answer anything: there is a topic, of limited length, and nothing is raised."""
    topic = read_topic(answer, message, current)

    assert len(topic.text) <= max(MAX_TOPIC_CHARS, len(current))
    assert topic.status in ("continuation", "new_topic")
    if not current:
        assert topic.status == "new_topic"


def test_a_thousand_braces_are_no_trouble():
    assert json_objects("{" * 100_000) == []
    assert read_topic("{" * 100_000, MESSAGE, "trains").text == "trains"


async def test_the_model_is_shown_the_last_six_messages_and_long_answers_only_by_name():
    topics, provider = detector(says('{"topic_summary": "fares"}'))
    history = []
    for number in range(5):
        history.append(UserMessage(content=f"question {number}"))
        history.append(
            AssistantMessage(parts=(TextPart(text=f"answer {number}" + ("x" * 400 if number == 3 else "")),))
        )

    found = await topics(ChatRequest(user_message="And today?", history=tuple(history), topic="trains"), PhaseNotes())

    assert found.text == "fares"
    (asked,) = provider.requests
    messages, options = asked.messages, asked.options
    prompt = messages[0].content
    assert len(messages) == 1
    assert (options.max_tokens, options.temperature) == (200, 0.1)
    assert "question 1" not in prompt
    assert "question 2\nAssistant: answer 2\nUser: question 3" in prompt
    assert "[a long answer about trains]" in prompt
    assert "xxx" not in prompt
    assert "Topic so far: trains" in prompt
    assert "And today?" in prompt


async def test_an_own_prompt_is_filled_in_once():
    topics, provider = detector(
        says("x"), prompt="{{currentTopic}}|{{user_message}}|{{ conversationContext }}|{{other}}"
    )

    await topics(ChatRequest(user_message="what is {{currentTopic}}?"), PhaseNotes())

    assert provider.requests[0].messages[0].content == (
        "none|what is {{currentTopic}}?|(it begins with this message)|{{other}}"
    )
    assert "{{userMessage}}" in PROMPT


async def test_a_model_that_fails_leaves_the_message_as_its_topic_with_a_warning():
    def broken(messages, options):
        raise ProviderConnectionError("bot: no connection", provider="scripted")

    topics, _ = detector(broken)
    notes = PhaseNotes()

    assert await topics(ChatRequest(user_message=MESSAGE, topic="trains"), notes) == Topic(MESSAGE, "new_topic")
    assert notes.warnings == ["topic detection: bot: no connection; using the message itself as its topic"]


@pytest.mark.usefixtures("virtual_time")
async def test_a_model_that_never_answers_costs_the_time_of_a_phase_only():
    class Slow:
        name = "slow"

        async def generate_chat(self, messages, model, options):
            await anyio.sleep_forever()

    topics, _ = detector(choice=ModelChoice(llm="bot"), timeout_s=0.01, kind=lambda _: Slow())
    notes = PhaseNotes()

    assert (await topics(ChatRequest(user_message=MESSAGE), notes)).text == MESSAGE
    assert notes.warnings == ["topic detection: the answer took too long; using the message itself as its topic"]


async def test_thoughts_before_the_answer_are_no_part_of_it():
    topics, _ = detector(says('<think>The user {"topic_summary": "wrong"} maybe</think>{"topic_summary": "fares"}'))

    assert (await topics(ChatRequest(user_message=MESSAGE), PhaseNotes())).text == "fares"


async def test_thoughts_that_began_in_the_prompt_are_no_part_of_it_either():
    topics, _ = detector(says('{"topic_summary": "wrong"} maybe</think>\n{"topic_summary": "fares"}'))

    assert (await topics(ChatRequest(user_message=MESSAGE), PhaseNotes())).text == "fares"


async def test_with_nobody_to_ask_the_message_is_the_topic():
    topics, provider = detector(choice=None)

    assert (await topics(ChatRequest(user_message=MESSAGE), PhaseNotes())) == Topic(MESSAGE, "new_topic")
    assert provider.requests == []


class StandIn(ScriptedProvider):
    follows_instructions = False


async def test_who_only_stands_in_for_a_model_is_not_asked():
    """What it would say is chatter; the message is its own topic, and the record says why."""
    topics, provider = detector(kind=StandIn)
    notes = PhaseNotes()
    earlier = (UserMessage(content="Tell me of trains"), AssistantMessage(parts=(TextPart(text="Chatter."),)))
    found = await topics(ChatRequest(user_message=MESSAGE, history=earlier, topic="trains"), notes)
    assert found == Topic(MESSAGE, "new_topic")
    assert provider.requests == []
    assert notes.skipped == "'bot' only stands in for a model and cannot say"
    assert notes.warnings == []  # nobody chose it for this
