"""The rehearsal model in a whole chat: what it is asked, and what the page and the command line suggest to ask it."""

import json
import re
from pathlib import Path

import pytest
from flexchat import FlexChat
from flexchat.assembly import installed_plugins
from flexchat.cli.zero_config import zero_config
from flexchat.plugin import AssistantMessage, TextPart, UserMessage

PAGES = Path(__file__).parents[2] / "flexchat-web" / "src" / "flexchat_web" / "static" / "js" / "pages"
DOCUMENTS = [
    {"title": "Hours", "text": "The library opens at nine."},
    {"title": "Fees", "text": "A lost card costs five euros."},
]


@pytest.fixture(scope="module")
def plugins():
    return installed_plugins()


async def test_what_a_follow_up_asks_is_what_the_documents_are_searched_for(plugins):
    """No chatter of the model's stands in the query, in a later turn either."""
    tables = {
        "llms": {"trial": {"provider": "rehearsal", "default_model": "rehearsal"}},
        "rag_services": {
            "guide": {"provider": "memory", "collection": "guide", "documents": DOCUMENTS, "partial_threshold": 1.1}
        },
        "intent": {"provider": {"llm": "trial"}, "detection": {"money": "prices and fees"}},
        "responses": [
            {"llm": "trial", "match": {"intent": "money"}},
            {"llm": "trial", "prompt": "{{topic}}\n\n{{rag_context}}"},
        ],
    }
    history = [UserMessage(content="When does it open?"), AssistantMessage(parts=(TextPart(text="At nine."),))]
    async with FlexChat.from_config(tables, plugins=plugins) as chat:
        turn = await chat.respond("What does a lost card cost?", history=history, topic="opening hours")
    topic, search, intent = turn.phases[:3]
    assert topic.outcome == {"topic": "What does a lost card cost?", "status": "new_topic"}
    assert search.input["query"] == "What does a lost card cost?"
    assert search.outcome["result"] != "none"
    assert topic.skipped == "'trial' only stands in for a model and cannot say"
    assert "rehearsal model" not in json.dumps([one.to_dict() for one in (topic, search, intent)])
    assert "five euros" in turn.content


async def test_every_sample_case_of_the_command_line_is_answered_right(plugins):
    """flexchat validate without a configuration shows what the model can do, not what it cannot."""
    tables = zero_config(plugins)
    async with FlexChat.from_config(tables, plugins=plugins) as chat:
        for case in tables["validation"]["cases"]:
            turn = await chat.respond(case["message"])
            made = turn.response.tool_calls or ()
            assert [call.tool for call in made] == [call["tool"] for call in case.get("calls", ())], case["name"]
            for call, wanted in zip(made, case.get("calls", ()), strict=True):
                assert call.result.success
                assert dict(call.params).items() >= wanted.get("arguments", {}).items(), case["name"]


async def test_what_the_page_suggests_is_answered_by_the_tool_it_is_meant_for(plugins):
    """Each suggestion of the page Chat, with all ready-made tools."""
    weather = {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "implementation": {"type": "mock", "mock_response": "sunny"},
    }
    tables = zero_config(plugins)
    tables["tools"]["registry"].append(weather)
    listed = (PAGES / "chat.js").read_text("utf-8").partition("const EXAMPLES = [")[2].partition("];")[0]
    suggestions = re.findall(r'\["(\w+)", "([^"]+)"\]', listed)
    assert len(suggestions) == 4
    said = {}
    async with FlexChat.from_config(tables, plugins=plugins) as chat:
        for tool, text in suggestions:
            (call,) = (await chat.respond(text)).response.tool_calls
            assert (call.tool, call.result.success) == (tool, True), text
            said[tool] = call.result.result
    assert said["text_replace"]["text"] == "the dog sat"
    assert said["calculator"]["result"] == 39.1
