"""A real model decides topics and intents and answers from an ingested folder: only with ./dev test --real."""

import os
from pathlib import Path

import pytest
from flexchat import FlexChat
from flexchat_rag.ingest.pipeline import add_files

URL = os.environ.get("FLEXCHAT_REAL_MODEL_URL", "http://127.0.0.1:18080/v1")
MODEL = os.environ.get("FLEXCHAT_REAL_MODEL", "real-model")
DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif("FLEXCHAT_TEST_REAL" not in os.environ, reason="needs a real model: ./dev test --real"),
]


def config(folder):
    bot = {"llm": "real", "temperature": 0, "max_tokens": 120}
    return {
        "llms": {"real": {"provider": "openai", "base_url": URL, "api_key": "none", "default_model": MODEL}},
        "stores": {"documents": {"provider": "sqlite", "path": str(folder / "documents.db")}},
        "topic": {"llm": "real"},
        "intent": {"llm": "real", "detection": {"small_talk": "Greetings, thanks and goodbyes"}},
        "limits": {"phase_timeout_ms": 120_000, "turn_timeout_ms": 600_000},
        "conversations": {"path": str(folder / "conversations.db")},
        "responses": [
            {
                **bot,
                "match": {"rag_results": "any"},
                "prompt": "Answer in one sentence from these passages:\n\n{{rag_context}}",
            },
            {**bot, "match": {"intent": "small_talk"}, "prompt": "Be brief and friendly."},
            {**bot, "prompt": "You are a helpful assistant."},
        ],
    }


async def test_a_question_is_answered_from_the_folder_a_greeting_is_not(tmp_path):
    """Topic, documents, intent, rule and answer, each by the real parts; and a follow-up in a kept conversation."""
    async with FlexChat.from_config(config(tmp_path)) as chat:
        report = await add_files(chat.stores["documents"], [str(DOCS)], collection="docs")
        turn = await chat.respond("How do I limit how long a turn may take?", conversation="one")
        follow_up = await chat.respond("And how long is that if I set nothing?", conversation="one")
        greeting = await chat.respond("Good morning!")

    assert report.failed == 0
    assert turn.rule == 0
    assert "turn_timeout_ms" in turn.content
    assert any("config.md" in (c.source or "") or "architecture.md" in (c.source or "") for c in turn.citations)
    assert (follow_up.rule, len(follow_up.response.messages)) == (0, 2)
    assert (greeting.rule, greeting.profile.intent, greeting.citations) == (1, "small_talk", ())
    print(turn.content, follow_up.profile.topic, follow_up.content, greeting.content, sep="\n")
